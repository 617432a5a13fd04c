# Makes the bill of materials of PROGRAM and looks whether it is one: JSON, with every library that
# larder stands on, each with the version that is installed here. And that there is none where a
# library is of no package.
include(${SBOM})
file(READ ${OUTPUT} bom)
string(JSON format GET "${bom}" bomFormat)
if(NOT format STREQUAL "CycloneDX")
  message(FATAL_ERROR "bomFormat is ${format}")
endif()
file(SHA256 ${PROGRAM} expected)
string(JSON hash GET "${bom}" metadata component hashes 0 content)
if(NOT hash STREQUAL expected)
  message(FATAL_ERROR "the hash is not the program's: ${hash}")
endif()

string(JSON count LENGTH "${bom}" components)
math(EXPR last "${count} - 1")
foreach(i RANGE ${last})
  string(JSON name GET "${bom}" components ${i} name)
  list(APPEND names ${name})
  string(JSON version_of_${name} GET "${bom}" components ${i} version)
  string(JSON how_${name} GET "${bom}" components ${i} properties 0 value)
endforeach()

# expect(HOW REGEX...): a package of that name is in it, so, and as it is installed. The names of
# libraries carry their versions, which differ between releases of Debian.
function(expect how)
  foreach(regex ${ARGN})
    set(found ${names})
    list(FILTER found INCLUDE REGEX "${regex}")
    if(NOT found)
      message(FATAL_ERROR "no package like ${regex} is in it: ${names}")
    endif()
    list(GET found 0 name)
    execute_process(COMMAND ${DPKG_QUERY} -W -f "\${Version}" ${name} OUTPUT_VARIABLE installed
      COMMAND_ERROR_IS_FATAL ANY)
    if(NOT "${version_of_${name}}" STREQUAL installed)
      message(FATAL_ERROR "${name} is in it as '${version_of_${name}}', installed is ${installed}")
    endif()
    if(NOT "${how_${name}}" MATCHES "${how}")
      message(FATAL_ERROR "${name} is '${how_${name}}', not ${how}")
    endif()
  endforeach()
endfunction()
expect("linked" "^librocksdb[0-9]" "^libzstd[0-9]" "^libcurl[0-9a-z]+$" "^libssl[0-9]" "^libsimdjson[0-9]"
  "^libyaml-cpp[0-9]")
expect("compiled in" "^librocksdb-dev$" "^libzstd-dev$" "^libcurl4-openssl-dev$"
  "^libflatbuffers-dev$" "^nlohmann-json3-dev$" "^libcli11-dev$" "^libexpected-dev$")
if("libgtest-dev" IN_LIST names)
  message(FATAL_ERROR "GoogleTest is in it, which only the tests are made of")
endif()

# A RocksDB of one's own.
execute_process(COMMAND ldd ${PROGRAM} OUTPUT_VARIABLE loaded COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCH "=> ([^ \n]*librocksdb[^ \n]*)" rocksdb "${loaded}")
set(own ${OUTPUT}.own)
file(COPY ${CMAKE_MATCH_1} DESTINATION ${own} FOLLOW_SYMLINK_CHAIN)
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${own} ${CMAKE_COMMAND} -DPROGRAM=${PROGRAM} -DBUILD=${BUILD}
          -DVERSION=${VERSION} -DOUTPUT=${OUTPUT}.none -P ${SBOM}
  RESULT_VARIABLE refused ERROR_VARIABLE said)
file(REMOVE_RECURSE ${own})
if(refused EQUAL 0 OR NOT said MATCHES "librocksdb[^\n]*")
  message(FATAL_ERROR "a library of no package is left out: ${said}")
endif()
