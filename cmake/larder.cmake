# How every folder is built: the language, the warnings, the hardening, and three functions.

# A folder finds what it needs; the targets are for all.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL TRUE)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# -O3 costs compile time and buys nothing here: the work is in RocksDB, zstd and simdjson.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  # Without the first setting ccache caches nothing that uses a precompiled header. The other two make
  # what one checkout compiled serve another, in another folder.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
    CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
endif()

option(LARDER_WERROR "Treat warnings as errors" OFF)
set(LARDER_TEST_FLAGS "" CACHE STRING "Further compiler options for the tests' own code")
set(LARDER_SANITIZE "" CACHE STRING "Sanitizers to build with, for example address,undefined or thread")

add_library(larder_flags INTERFACE)
target_compile_options(larder_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
# All presets but dev and clang compile several files of a folder as one (a unity build), the tools
# always do: heavy headers are read once. Then a file is no longer GCC's main one,
# and the first warning is wrong about it; the second tells of names in other files.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(larder_flags INTERFACE -Wno-subobject-linkage)
endif()
if(CMAKE_UNITY_BUILD)
  target_compile_options(larder_flags INTERFACE -Wno-shadow)
endif()
if(LARDER_WERROR)
  target_compile_options(larder_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # The second one looks at the order of locks.
  target_compile_options(larder_flags INTERFACE -Wthread-safety -Wthread-safety-beta)
endif()
if(LARDER_SANITIZE)
  add_compile_options(-fsanitize=${LARDER_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${LARDER_SANITIZE})
  if(LARDER_SANITIZE MATCHES "address.*undefined" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # These look at every access a second time, and a compilation takes twice as long for it: the
    # address sanitizer sees most of what they would.
    add_compile_options(-fno-sanitize=null,alignment,vptr,object-size)
  endif()
else()
  add_compile_options(-fstack-protector-strong)
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    add_compile_definitions(_FORTIFY_SOURCE=2)
  endif()
endif()
add_link_options(-Wl,-z,relro,-z,now)

# larder_library(NAME SOURCES ... DEPS ... [PRIVATE_DEPS ...] [HEADERS ...]): the target larder_NAME,
# alias larder::NAME. HEADERS are what users may include; they are installed to include/larder/NAME/
# with the headers that they include in turn.
function(larder_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS;HEADERS" ${ARGN})
  add_library(larder_${name} STATIC ${ARG_SOURCES})
  add_library(larder::${name} ALIAS larder_${name})
  set_target_properties(larder_${name} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(larder_${name} PUBLIC cxx_std_20)
  target_include_directories(larder_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include/larder>)
  target_link_libraries(larder_${name} PUBLIC ${ARG_DEPS}
    PRIVATE $<BUILD_INTERFACE:larder_flags> ${ARG_PRIVATE_DEPS})
  set_property(GLOBAL APPEND PROPERTY LARDER_LIBRARIES larder_${name})
  install(TARGETS larder_${name} EXPORT larder-targets)
  foreach(header ${ARG_HEADERS})
    if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${header})
      message(FATAL_ERROR "${name} has no header ${header}")
    endif()
  endforeach()
  list(TRANSFORM ARG_HEADERS PREPEND ${name}/)
  set_property(GLOBAL APPEND PROPERTY LARDER_HEADERS ${ARG_HEADERS})
endfunction()

# larder_test(NAME [MANUAL] [TIMEOUT SECONDS] SOURCES ... DEPS ...): one GoogleTest program; each test
# in it is a ctest that may take 120 seconds, or with MANUAL none is.
# GoogleTest's headers are most of what a test's compilation reads, so they are read once for all.
function(larder_test name)
  cmake_parse_arguments(ARG "MANUAL" "TIMEOUT" "SOURCES;DEPS" ${ARGN})
  if(NOT TARGET larder_gtest)
    # A program like the tests themselves: a library's code is compiled another way.
    file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/gtest_precompiled.cc CONTENT "int main() {}\n")
    add_executable(larder_gtest ${PROJECT_BINARY_DIR}/gtest_precompiled.cc)
    target_link_libraries(larder_gtest PRIVATE larder_flags GTest::gmock)
    target_compile_options(larder_gtest PRIVATE ${LARDER_TEST_FLAGS})
    target_precompile_headers(larder_gtest PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_precompile_headers(${name} REUSE_FROM larder_gtest)
  target_compile_options(${name} PRIVATE ${LARDER_TEST_FLAGS})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 warns of its own std::string once a precompiled header hides that it is the system's.
    target_compile_options(${name} PRIVATE -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow)
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} larder_flags GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  if(NOT ARG_MANUAL)
    set(timeout 120)
    if(ARG_TIMEOUT)
      set(timeout ${ARG_TIMEOUT})
    elseif(LARDER_SANITIZE OR CMAKE_CXX_FLAGS MATCHES "--coverage")
      set(timeout 600)
    endif()
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60
      PROPERTIES TIMEOUT ${timeout} LABELS ${name})
  endif()
endfunction()

# larder_bench(NAME SOURCES ... DEPS ...): the program bench_NAME, run by `./dev bench NAME`. It takes
# --quick and --json.
function(larder_bench name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(bench_${name} ${ARG_SOURCES})
  target_link_libraries(bench_${name} PRIVATE ${ARG_DEPS} larder_bench_support larder_flags)
  target_include_directories(bench_${name} PRIVATE ${PROJECT_SOURCE_DIR})
endfunction()
