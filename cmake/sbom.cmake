# Writes the bill of materials of a built program: CycloneDX 1.5, in JSON.
#
#   cmake -DPROGRAM=build/release/tools/larder -DBUILD=build/release -DVERSION=0.1.0 -DOUTPUT=FILE
#         -P cmake/sbom.cmake
#
# It lists what went into the program, not what somebody remembered to write down: the Debian packages
# whose shared libraries it loads (ldd), and those whose headers its objects were compiled from (the
# dependencies that ninja recorded), each with its version. The same build gives the same file. What
# belongs to no package, like a RocksDB of one's own in /usr/local, has no version that could be looked
# up: that is an error, and not left out.
cmake_minimum_required(VERSION 3.25)
foreach(name PROGRAM BUILD VERSION OUTPUT)
  if(NOT DEFINED ${name})
    message(FATAL_ERROR "sbom.cmake needs -D${name}=...")
  endif()
endforeach()
find_program(DPKG_QUERY dpkg-query)
find_program(NINJA NAMES ninja ninja-build)
if(NOT DPKG_QUERY OR NOT NINJA)
  message(FATAL_ERROR "a bill of materials needs Debian's dpkg-query, which knows the packages' versions, and ninja")
endif()
if(NOT EXISTS ${PROGRAM})
  message(FATAL_ERROR "${PROGRAM} is not built: ./dev build release larder")
endif()

# packages_of(OUT FILE...): the packages that own the files, each of which must have one.
function(packages_of out)
  set(names)
  set(files)
  set(owned)
  # A file may be registered by its path before or after the merge of /lib and /usr/lib.
  foreach(file ${ARGN})
    file(REAL_PATH ${file} file)
    string(REGEX REPLACE "^/usr/" "/" file ${file})
    list(APPEND files ${file})
  endforeach()
  list(TRANSFORM files PREPEND /usr OUTPUT_VARIABLE merged)
  execute_process(COMMAND ${DPKG_QUERY} -S ${files} ${merged} OUTPUT_VARIABLE owners ERROR_QUIET)
  string(REPLACE "\n" ";" owners "${owners}")
  foreach(line ${owners})
    if(line MATCHES "^([^:, ]+)[^/]*: (/usr)?(/.*)$")
      list(APPEND names ${CMAKE_MATCH_1})
      list(APPEND owned ${CMAKE_MATCH_3})
    endif()
  endforeach()
  list(REMOVE_ITEM files ${owned})
  if(files)
    list(JOIN files ", " files)
    message(FATAL_ERROR "these, or the same in /usr, belong to no package, so that their version is not known: ${files}")
  endif()
  list(REMOVE_DUPLICATES names)
  set(${out} ${names} PARENT_SCOPE)
endfunction()

# What it loads, directly or through another library.
execute_process(COMMAND ldd ${PROGRAM} OUTPUT_VARIABLE loaded COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "/[^ \n]+" libraries "${loaded}")
packages_of(linked ${libraries})

# What its objects were compiled from. Not those of tests, benchmarks and examples, and not what is
# larder's or the compiler's own. -n: a look, which changes nothing in the build folder.
execute_process(
  COMMAND ${NINJA} -C ${BUILD} -n -t deps
  COMMAND awk "/: #deps/ {own = $0 !~ /^(tests|bench|examples|CMakeFiles)/} own && sub(/^ +/, \"\")"
  COMMAND sort -u
  OUTPUT_VARIABLE read)
string(REPLACE "\n" ";" read "${read}")
get_filename_component(build ${BUILD} ABSOLUTE)
get_filename_component(source ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)
set(headers)
foreach(path ${read})
  get_filename_component(path ${path} ABSOLUTE BASE_DIR ${build})
  cmake_path(IS_PREFIX build ${path} made)
  cmake_path(IS_PREFIX source ${path} ours)
  if(NOT made AND NOT ours AND NOT path MATCHES "^/usr/lib/(gcc|llvm)")
    list(APPEND headers ${path})
  endif()
endforeach()
if(NOT headers)
  message(FATAL_ERROR "ninja has recorded no dependencies in ${BUILD}: build larder there first")
endif()
packages_of(compiled ${headers})

set(packages ${linked} ${compiled})
list(REMOVE_DUPLICATES packages)
list(SORT packages)
execute_process(
  COMMAND ${DPKG_QUERY} -W -f "\${Package}|\${Version}|\${Architecture}|\${source:Package}|\${source:Version}\n" ${packages}
  OUTPUT_VARIABLE known COMMAND_ERROR_IS_FATAL ANY)
string(STRIP "${known}" known)
string(REPLACE "\n" ";" known "${known}")
list(SORT known)
list(REMOVE_DUPLICATES known)

set(distribution debian)
if(EXISTS /etc/os-release)
  file(STRINGS /etc/os-release id REGEX "^ID=")
  string(REGEX REPLACE "^ID=\"?([^\"]*)\"?$" "\\1" distribution "${id}")
endif()

set(components)
set(references)
foreach(line ${known})
  string(REPLACE "|" ";" field "${line}")
  list(GET field 0 name)
  list(GET field 1 version)
  list(GET field 2 architecture)
  list(GET field 3 source)
  list(GET field 4 source_version)
  string(REPLACE "+" "%2B" escaped "${name}@${version}")
  string(REPLACE ":" "%3A" escaped "${escaped}")
  set(purl "pkg:deb/${distribution}/${escaped}?arch=${architecture}")
  set(how)
  if(name IN_LIST linked)
    list(APPEND how linked)
  endif()
  if(name IN_LIST compiled)
    list(APPEND how "compiled in")
  endif()
  list(JOIN how ", " how)
  list(APPEND components "    {
      \"type\": \"library\",
      \"bom-ref\": \"${purl}\",
      \"name\": \"${name}\",
      \"version\": \"${version}\",
      \"purl\": \"${purl}\",
      \"properties\": [
        {\"name\": \"larder:how\", \"value\": \"${how}\"},
        {\"name\": \"larder:source\", \"value\": \"${source} ${source_version}\"}
      ]
    }")
  list(APPEND references "\"${purl}\"")
endforeach()
list(JOIN components ",\n" components)
list(JOIN references ",\n        " references)

file(SHA256 ${PROGRAM} hash)
file(WRITE ${OUTPUT} "{
  \"bomFormat\": \"CycloneDX\",
  \"specVersion\": \"1.5\",
  \"version\": 1,
  \"metadata\": {
    \"component\": {
      \"type\": \"application\",
      \"bom-ref\": \"larder@${VERSION}\",
      \"name\": \"larder\",
      \"version\": \"${VERSION}\",
      \"hashes\": [{\"alg\": \"SHA-256\", \"content\": \"${hash}\"}]
    }
  },
  \"components\": [
${components}
  ],
  \"dependencies\": [
    {
      \"ref\": \"larder@${VERSION}\",
      \"dependsOn\": [
        ${references}
      ]
    }
  ]
}
")
list(LENGTH known count)
message(STATUS "${count} packages in ${OUTPUT}")
