# How every folder is built: the language, the warnings, the hardening, and two functions.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

option(LARDER_WERROR "Treat warnings as errors" OFF)
set(LARDER_SANITIZE "" CACHE STRING "Sanitizers to build with, for example address,undefined or thread")

add_library(larder_flags INTERFACE)
target_compile_options(larder_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
if(LARDER_WERROR)
  target_compile_options(larder_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(larder_flags INTERFACE -Wthread-safety)
endif()
if(LARDER_SANITIZE)
  add_compile_options(-fsanitize=${LARDER_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${LARDER_SANITIZE})
else()
  add_compile_options(-fstack-protector-strong)
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    add_compile_definitions(_FORTIFY_SOURCE=2)
  endif()
endif()
add_link_options(-Wl,-z,relro,-z,now)

# larder_library(NAME SOURCES ... DEPS ... [PRIVATE_DEPS ...]): the target larder_NAME, alias larder::NAME.
function(larder_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(larder_${name} STATIC ${ARG_SOURCES})
  add_library(larder::${name} ALIAS larder_${name})
  target_include_directories(larder_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include/larder>)
  target_link_libraries(larder_${name} PUBLIC ${ARG_DEPS}
    PRIVATE $<BUILD_INTERFACE:larder_flags> ${ARG_PRIVATE_DEPS})
endfunction()

# larder_test(NAME SOURCES ... DEPS ...): one GoogleTest program; each test in it is a ctest.
function(larder_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} larder_flags GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 120 LABELS ${name})
endfunction()
