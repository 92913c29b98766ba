# Turns an allocator's sources into an object that can be preloaded.
#
#   tare_add_allocator(NAME SOURCES f… [SHIMS operators family] [INCLUDES d…] [DEFINES d…]
#                      [OPTIONS o…] [CXX_STANDARD n] [LIBRARIES l…] [EXPORTS symbol…])
#       Compiles SOURCES as the allocator NAME. SHIMS names files of common/ that supply what the
#       sources lack. EXPORTS are symbols shown besides the malloc family and C++'s operators.
#   tare_finish_allocator(NAME TARGET t [SHIMS …] [EXPORTS symbol…])
#       The same for a shared library that another CMake project made.

set(TARE_COMMON_DIR ${CMAKE_CURRENT_LIST_DIR})
# Of the repository, or of the package.
set(TARE_PLATFORM_DIRS ${TARE_COMMON_DIR}/../../../platform/include ${TARE_COMMON_DIR}/platform)
set(TARE_NO_BUILTIN_MALLOC malloc calloc realloc free aligned_alloc posix_memalign)
list(TRANSFORM TARE_NO_BUILTIN_MALLOC PREPEND -fno-builtin-)
set(TARE_WEAK_RUNTIME "SHELL:-include \"${TARE_COMMON_DIR}/weak_runtime.h\"")

function(tare_add_allocator name)
  cmake_parse_arguments(ARG "" "CXX_STANDARD"
    "SOURCES;SHIMS;INCLUDES;DEFINES;OPTIONS;LIBRARIES;EXPORTS" ${ARGN})
  set(target tare-${name})
  add_library(${target} SHARED ${ARG_SOURCES})
  target_include_directories(${target} SYSTEM PRIVATE ${ARG_INCLUDES})
  target_compile_definitions(${target} PRIVATE ${ARG_DEFINES})
  # The compiler must not reason about malloc inside of malloc, nor check its writes against sizes of
  # what it takes for objects. Unwind tables let an exception (bad_alloc, or one of a new handler) pass.
  target_compile_options(${target} PRIVATE -O3 -DNDEBUG -fexceptions
    -ftls-model=initial-exec -fno-semantic-interposition -w -U_FORTIFY_SOURCE ${TARE_NO_BUILTIN_MALLOC}
    $<$<COMPILE_LANGUAGE:CXX>:${TARE_WEAK_RUNTIME}> ${ARG_OPTIONS})
  if(ARG_CXX_STANDARD)
    target_compile_features(${target} PRIVATE cxx_std_${ARG_CXX_STANDARD})
  endif()
  target_link_libraries(${target} PRIVATE ${ARG_LIBRARIES})
  tare_finish_allocator(${name} TARGET ${target} SHIMS ${ARG_SHIMS} EXPORTS ${ARG_EXPORTS})
endfunction()

function(tare_finish_allocator name)
  cmake_parse_arguments(ARG "" "TARGET" "SHIMS;EXPORTS" ${ARGN})
  if(ARG_SHIMS)
    # Objects of their own, so that they get these flags also in another project's target.
    add_library(tare-${name}-shims OBJECT)
    foreach(shim IN LISTS ARG_SHIMS)
      target_sources(tare-${name}-shims PRIVATE ${TARE_COMMON_DIR}/${shim}.cpp)
    endforeach()
    target_compile_options(tare-${name}-shims PRIVATE -O3 -fexceptions -fno-semantic-interposition
      ${TARE_NO_BUILTIN_MALLOC})
    set_target_properties(tare-${name}-shims PROPERTIES POSITION_INDEPENDENT_CODE ON
      CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON)
    target_sources(${ARG_TARGET} PRIVATE $<TARGET_OBJECTS:tare-${name}-shims>)
  endif()
  set(TARE_OWN_EXPORTS "")
  foreach(symbol IN LISTS ARG_EXPORTS)
    string(APPEND TARE_OWN_EXPORTS "    ${symbol};\n")
  endforeach()
  set(map ${CMAKE_CURRENT_BINARY_DIR}/${name}.map)
  configure_file(${TARE_COMMON_DIR}/exports.map.in ${map} @ONLY)
  # Only these symbols are seen, and no C++ runtime is dragged into programs written in C.
  target_link_options(${ARG_TARGET} PRIVATE -static-libgcc -static-libstdc++
    -Wl,--version-script=${map} -Wl,-z,now -Wl,-z,relro -Wl,--as-needed -Wl,-Bsymbolic -Wl,--strip-debug)
  set_target_properties(${ARG_TARGET} PROPERTIES
    PREFIX "" SUFFIX "" OUTPUT_NAME ${TARE_${name}_OBJECT} POSITION_INDEPENDENT_CODE ON
    LINK_DEPENDS ${map} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR} EXCLUDE_FROM_ALL OFF)
  tare_install_allocator(${name} $<TARGET_FILE:${ARG_TARGET}>)
endfunction()

# Installs the object FILE as that of the allocator NAME, with a note of what it was made from.
function(tare_install_allocator name file)
  set(note ${CMAKE_CURRENT_BINARY_DIR}/built.json)
  file(WRITE ${note}
"{\"name\": \"${name}\", \"version\": \"${TARE_${name}_VERSION}\", \
\"source\": \"${TARE_${name}_SOURCE}\", \
\"compiler\": \"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\"}\n")
  set(destination ${TARE_MANAGERS_DESTINATION}/${name})
  install(PROGRAMS ${file} DESTINATION ${destination} RENAME ${TARE_${name}_OBJECT})
  install(FILES ${note} DESTINATION ${destination})
endfunction()
