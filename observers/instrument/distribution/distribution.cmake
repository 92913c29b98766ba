# SPDX-License-Identifier: GPL-2.0-or-later
# Where the pinned core cannot be built: that of the distribution's package valgrind, from its headers
# and static libraries. It cannot be patched, so a constant is changed in one of its objects and its
# calls are wrapped at link time (wraps.c).
#
# The core's interfaces change with each version, and a few that no header declares are used
# (core.h), so only versions that were tried are accepted.
set(TARE_VALGRIND_VERSIONS 3.19.0 3.22.0 3.24.0 3.25.1 3.26.0)
set(TARE_CORE_INCLUDE /usr/include/valgrind CACHE PATH "Valgrind's tool headers")
set(TARE_VALGRIND_LIBRARIES /usr/lib/x86_64-linux-gnu/valgrind CACHE PATH
    "Valgrind's static libraries")
set(TARE_VALGRIND_PRELOADS /usr/libexec/valgrind CACHE PATH "Valgrind's objects for the client")

function(tare_skip_instrument reason)
  list(JOIN TARE_VALGRIND_VERSIONS ", " versions)
  message(WARNING "tare count is left out: ${reason}. Without a network to fetch Valgrind's core it "
          "needs Debian's package valgrind, of a version that was tried (${versions}): apt-get "
          "install valgrind")
endfunction()

set(library ${TARE_VALGRIND_LIBRARIES}/libcoregrind-amd64-linux.a)
foreach(needed ${TARE_CORE_INCLUDE}/config.h ${library}
        ${TARE_VALGRIND_PRELOADS}/vgpreload_core-amd64-linux.so)
  if(NOT EXISTS ${needed})
    tare_skip_instrument("${needed} is not there")
    return()
  endif()
endforeach()
file(STRINGS ${TARE_CORE_INCLUDE}/config.h version REGEX "^#define VERSION ")
string(REGEX REPLACE "^#define VERSION \"(.*)\"$" "\\1" version "${version}")
if(NOT version IN_LIST TARE_VALGRIND_VERSIONS)
  tare_skip_instrument("Valgrind in ${TARE_CORE_INCLUDE} is of version ${version}, with which it was not tried")
  return()
endif()
set(TARE_CORE_VERSION ${version})
if(NOT EXISTS ${TARE_VALGRIND_LIBRARIES}/libcoregrind-x86-linux.a)
  set(TARE_LINKS_32_BITS OFF)
endif()

find_program(TARE_PYTHON3 python3 REQUIRED)
set(widened ${CMAKE_CURRENT_BINARY_DIR}/aspacemgr-linux.o)
add_custom_command(
  OUTPUT ${widened}
  COMMAND ${TARE_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/distribution/widen_addresses.py ${CMAKE_AR}
          ${library} libcoregrind_amd64_linux_a-aspacemgr-linux.o ${widened}
  DEPENDS distribution/widen_addresses.py ${library}
  VERBATIM)

# As in core/pinned.cmake.
function(tare_add_core processor)
  set(platform ${processor}-linux)
  add_library(tare-core-${platform} INTERFACE)
  target_include_directories(tare-core-${platform} SYSTEM INTERFACE ${TARE_CORE_INCLUDE})
  target_compile_definitions(tare-core-${platform} INTERFACE VGA_${processor}=1 VGO_linux=1
    VGP_${processor}_linux=1 VGPV_${processor}_linux_vanilla=1
    TARE_VALGRIND_VERSION="${TARE_CORE_VERSION}")
  target_compile_options(tare-core-${platform} INTERFACE ${ARGN})
  target_sources(tare-core-${platform} INTERFACE ${CMAKE_CURRENT_SOURCE_DIR}/distribution/wraps.c)
  target_link_options(tare-core-${platform} INTERFACE -Wl,--wrap=vgPlain_redir_do_lookup)
  if(processor STREQUAL "amd64")
    target_sources(tare-core-${platform} INTERFACE ${widened})
    target_link_options(tare-core-${platform} INTERFACE -Wl,--wrap=vgPlain_am_create_reservation
      -Wl,--wrap=vgPlain_am_get_advisory_client_simple)
  endif()
  foreach(part coregrind vex gcc-sup)
    target_link_libraries(tare-core-${platform}
      INTERFACE ${TARE_VALGRIND_LIBRARIES}/lib${part}-${platform}.a)
  endforeach()
  target_link_libraries(tare-core-${platform} INTERFACE gcc)  # behind them, for 32 bits
  install(FILES ${TARE_VALGRIND_PRELOADS}/vgpreload_core-${platform}.so DESTINATION valgrind)
endfunction()
