# What `cmake --install` puts in place for users: the libraries and headers (each folder's
# larder_library names its own), a CMake package for find_package(larder), and a pkg-config file.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# The public headers and, through their #include "...", those they need.
function(larder_install_headers)
  get_property(headers GLOBAL PROPERTY LARDER_HEADERS)
  set(installed)
  while(headers)
    list(POP_FRONT headers header)
    if(header IN_LIST installed OR NOT EXISTS ${PROJECT_SOURCE_DIR}/${header})
      continue()
    endif()
    list(APPEND installed ${header})
    cmake_path(GET header PARENT_PATH folder)
    install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION include/larder/${folder})
    file(STRINGS ${PROJECT_SOURCE_DIR}/${header} includes REGEX "^#include \"")
    list(TRANSFORM includes REPLACE "^#include \"([^\"]+)\".*" "\\1")
    list(APPEND headers ${includes})
  endwhile()
endfunction()
larder_install_headers()

get_property(libraries GLOBAL PROPERTY LARDER_LIBRARIES)

# larder::larder is all of them.
add_library(larder_all INTERFACE)
add_library(larder::larder ALIAS larder_all)
set_target_properties(larder_all PROPERTIES EXPORT_NAME larder)
target_link_libraries(larder_all INTERFACE ${libraries})
install(TARGETS larder_all EXPORT larder-targets)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/larder)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/larder-config.cmake.in
  ${PROJECT_BINARY_DIR}/larder-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/larder-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(EXPORT larder-targets NAMESPACE larder:: DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/larder-config.cmake
  ${PROJECT_BINARY_DIR}/larder-config-version.cmake DESTINATION ${package_dir})

# A static library goes in front of what it needs: the last folder first.
list(REVERSE libraries)
list(TRANSFORM libraries PREPEND -l OUTPUT_VARIABLE link_flags)
list(JOIN link_flags " " LARDER_LINK_FLAGS)
file(RELATIVE_PATH LARDER_PREFIX_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_CURRENT_LIST_DIR}/larder.pc.in ${PROJECT_BINARY_DIR}/larder.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/larder.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(TARGET larder)
  install(TARGETS larder)
endif()

# `cpack` in the build folder makes a Debian package of the same: the command and what a user builds
# against. What the libraries need to be linked comes with it.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME larder)
set(CPACK_PACKAGE_VENDOR larder)
set(CPACK_PACKAGE_CONTACT "the larder authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
string(JOIN ", " CPACK_DEBIAN_PACKAGE_DEPENDS
  librocksdb-dev libflatbuffers-dev libsimdjson-dev nlohmann-json3-dev libyaml-cpp-dev
  prometheus-cpp-dev libcpp-httplib-dev libfmt-dev libspdlog-dev libssl-dev libexpected-dev
  libcurl4-openssl-dev libzstd-dev libxxhash-dev libisal-dev zlib1g-dev pkg-config)
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
