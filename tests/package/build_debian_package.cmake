# Makes the Debian package of LARDER_BUILD below WORK and looks at what is in it.
file(REMOVE_RECURSE ${WORK})
get_filename_component(bin ${CMAKE_COMMAND} DIRECTORY)
execute_process(COMMAND ${bin}/cpack -G DEB -B ${WORK} WORKING_DIRECTORY ${LARDER_BUILD}
  COMMAND_ERROR_IS_FATAL ANY)
file(GLOB package ${WORK}/larder_*.deb)
execute_process(COMMAND ${DPKG_DEB} --contents ${package} OUTPUT_VARIABLE contents
  COMMAND_ERROR_IS_FATAL ANY)
foreach(file usr/bin/larder usr/include/larder/controller/builder.h
        usr/include/larder/testing/environment.h liblarder_controller.a larder-config.cmake larder.pc)
  if(NOT contents MATCHES "${file}")
    message(FATAL_ERROR "the package has no ${file}:\n${contents}")
  endif()
endforeach()
