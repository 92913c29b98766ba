# SPDX-License-Identifier: GPL-2.0-or-later
# Valgrind's core, built from the source that source.toml pins, with the patches of this folder. Not
# by its own configure and make: they build six tools and the code of all processors, in minutes.

find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)
set(facts ${CMAKE_CURRENT_BINARY_DIR}/source.cmake)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${CMAKE_CURRENT_SOURCE_DIR}/core/source.toml)
execute_process(
  COMMAND ${Python3_EXECUTABLE} -I
    ${CMAKE_CURRENT_SOURCE_DIR}/../../managers/allocators/fetch_sources.py
    --root ${CMAKE_CURRENT_SOURCE_DIR} fetch core --into ${CMAKE_BINARY_DIR}/sources
    --cmake ${facts} --optional
  COMMAND_ERROR_IS_FATAL ANY)
include(${facts})
if(NOT DEFINED TARE_core_VERSION)
  if(TARE_ALONE)
    message(FATAL_ERROR "What is built for other systems has the pinned core: licences/ names it.")
  endif()
  message(WARNING "The source of Valgrind's core could not be fetched (see above); the core of this "
          "system's Valgrind is linked in its place.")
  return()
endif()

enable_language(ASM)
set(TARE_CORE_VERSION ${TARE_core_VERSION})
set(source ${TARE_core_SOURCE_DIR})
set(generated ${CMAKE_CURRENT_BINARY_DIR}/core)
set(TARE_CORE_INCLUDE ${CMAKE_CURRENT_SOURCE_DIR}/core ${generated} ${source}/include
    ${source}/VEX/pub ${source}/coregrind)

file(GLOB core_sources RELATIVE ${source} ${source}/VEX/priv/*.c ${source}/coregrind/m_*.[cS]
     ${source}/coregrind/m_*/*.[cS])
# Other systems; code for tools that replace malloc; what another file includes.
list(FILTER core_sources EXCLUDE REGEX "darwin|freebsd|solaris|m_mach/|macho|multiarch")
list(FILTER core_sources EXCLUDE REGEX "s390_disasm|vg_replace_malloc|remote-utils-shared\\.c")

set(patches "address-space coregrind/m_aspacemgr/aspacemgr-linux.c"
    "block-boundaries coregrind/m_translate.c" "debug-file coregrind/m_redir.c"
    "heap-room coregrind/m_initimg/initimg-linux.c")
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  list(APPEND patches "clock-in-register VEX/priv/host_amd64_isel.c"
       "clock-register VEX/priv/host_amd64_defs.c" "clock-register-number VEX/priv/host_amd64_defs.h"
       "clock-where-left coregrind/m_dispatch/dispatch-amd64-linux.S"
       "clock-at-fault coregrind/m_signals.c")
else()
  list(APPEND patches "pass-guest-state VEX/priv/host_arm64_isel.c")
endif()
foreach(patched IN LISTS patches)
  separate_arguments(patched)
  list(GET patched 0 patch)
  list(GET patched 1 file)
  list(REMOVE_ITEM core_sources ${file})
  list(APPEND patched_sources ${generated}/${file})
  cmake_path(GET file PARENT_PATH folder)
  file(MAKE_DIRECTORY ${generated}/${folder})
  add_custom_command(OUTPUT ${generated}/${file}
    COMMAND ${Python3_EXECUTABLE} -I ${CMAKE_CURRENT_SOURCE_DIR}/core/apply_patch.py
      ${CMAKE_CURRENT_SOURCE_DIR}/core/${patch}.patch ${source}/${file}
      ${generated}/${file}
    DEPENDS core/apply_patch.py core/${patch}.patch ${source}/.tare-complete
    VERBATIM)
endforeach()
# Two libraries have them: one target makes each of them once.
add_custom_target(tare-patched-core DEPENDS ${patched_sources})

file(CONFIGURE OUTPUT ${generated}/vgversion.h CONTENT "#define VGGIT \"patched by Tare\"\n")
# Where registers lie in the state of a program, for assembly: as the compiler says.
execute_process(COMMAND ${CMAKE_C_COMPILER} -O -S -o - ${source}/VEX/auxprogs/genoffsets.c
  OUTPUT_VARIABLE offsets COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "#define [A-Za-z0-9_]+ xyzzy[^0-9]?[0-9]+" offsets "${offsets}")
list(TRANSFORM offsets REPLACE "xyzzy[^0-9]?" "")
list(JOIN offsets "\n" offsets)
file(CONFIGURE OUTPUT ${generated}/libvex_guest_offsets.h CONTENT "${offsets}\n" @ONLY)

# tare_add_core(PROCESSOR OPTION…): the core for programs of PROCESSOR-linux, without what is for
# others, as a library of the tool's and as the object that it preloads.
function(tare_add_core processor)
  set(platform ${processor}-linux)
  set(sources ${core_sources})
  set(others amd64 arm arm64 "mips[a-z0-9]*" nanomips "ppc[a-z0-9]*" s390x? x86)
  list(REMOVE_ITEM others ${processor})
  list(JOIN others "|" others)
  list(FILTER sources EXCLUDE REGEX "[-_](${others})[-_.]")
  list(TRANSFORM sources PREPEND ${source}/)
  add_library(tare-core-${platform} STATIC ${sources} ${patched_sources})
  add_dependencies(tare-core-${platform} tare-patched-core)
  target_include_directories(tare-core-${platform} SYSTEM PUBLIC ${TARE_CORE_INCLUDE}
    PRIVATE ${source} ${source}/coregrind/m_aspacemgr ${source}/coregrind/m_initimg ${source}/coregrind/m_syswrap
      ${source}/VEX/priv)
  target_compile_definitions(tare-core-${platform}
    PUBLIC VGA_${processor}=1 VGO_linux=1 VGP_${processor}_linux=1
      VGPV_${processor}_linux_vanilla=1 TARE_VALGRIND_VERSION="${TARE_CORE_VERSION}"
      TARE_PINNED_CORE=1
    # The launcher sets VALGRIND_LIB in its place; an absolute path it must be.
    PRIVATE VG_LIBDIR="/" VG_PLATFORM="${platform}")
  target_compile_options(tare-core-${platform} PUBLIC ${ARGN}
    PRIVATE -w $<$<COMPILE_LANGUAGE:C>:-O2 -finline-functions -fno-strict-aliasing -fno-builtin
      -fno-stack-protector -fno-pie -fomit-frame-pointer>)
  set_target_properties(tare-core-${platform} PROPERTIES C_STANDARD 99 C_EXTENSIONS ON
    POSITION_INDEPENDENT_CODE OFF)
  if(processor STREQUAL "x86")
    # elf.h and limits.h are there for 64 bits, and serve where their 32-bit package is missing.
    file(CONFIGURE OUTPUT ${generated}/gnu/stubs-32.h CONTENT "")
    target_compile_options(tare-core-${platform} PRIVATE -mpreferred-stack-boundary=2
      "SHELL:-idirafter /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}")
  endif()

  set(preloaded vgpreload_core-${platform})
  add_library(${preloaded} MODULE ${source}/coregrind/vg_preloaded.c)
  target_include_directories(${preloaded} SYSTEM PRIVATE ${TARE_CORE_INCLUDE} ${source})
  target_compile_definitions(${preloaded} PRIVATE
    $<TARGET_PROPERTY:tare-core-${platform},INTERFACE_COMPILE_DEFINITIONS>)
  target_compile_options(${preloaded} PRIVATE ${ARGN} -w -O -fno-omit-frame-pointer
    -fno-strict-aliasing -fno-builtin -fno-ipa-icf -fno-stack-protector)
  target_link_options(${preloaded} PRIVATE ${ARGN} -nostdlib -Wl,-z,interpose,-z,initfirst)
  set_target_properties(${preloaded} PROPERTIES PREFIX "" C_STANDARD 99 C_EXTENSIONS ON)
  install(TARGETS ${preloaded} DESTINATION valgrind)
endfunction()
