# Tests that hold a program to limits on its time and memory, by `tare check`:
#
#   tare_add_check(NAME [TARGET target] [COMMAND program argument…] LIMITS metric=most…
#                  [MANAGER manager] [RUNS n] [WORKING_DIRECTORY folder] [REQUIRED])
#
# adds the test NAME. With both, COMMAND gives the arguments of TARGET. Where Tare, or what it needs,
# is not there, the test is skipped, and with REQUIRED it fails. README.md says more.

set(TARE_EXECUTABLE tare CACHE STRING "The command tare, looked for when tests run")

# `text` as a string of TOML.
function(_tare_quote variable text)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REPLACE "\n" "\\n" text "${text}")
  string(REGEX REPLACE "{([a-z_]+)}" "{{\\1}}" text "${text}") # no placeholder of a suite
  set(${variable} "\"${text}\"" PARENT_SCOPE)
endfunction()

function(tare_add_check name)
  cmake_parse_arguments(PARSE_ARGV 1 check REQUIRED "TARGET;MANAGER;RUNS;WORKING_DIRECTORY"
                        "COMMAND;LIMITS")
  if(check_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tare_add_check(${name}): what is ${check_UNPARSED_ARGUMENTS}?")
  endif()
  if(NOT check_LIMITS OR NOT (check_TARGET OR check_COMMAND))
    message(FATAL_ERROR "tare_add_check(${name}): give LIMITS, and TARGET or COMMAND")
  endif()

  set(command)
  foreach(word IN LISTS check_TARGET check_COMMAND)
    if("${command}" STREQUAL "" AND TARGET "${word}")
      set(word "$<TARGET_FILE:${word}>")
    endif()
    _tare_quote(quoted "${word}")
    string(APPEND command "${quoted}, ")
  endforeach()

  set(limits)
  foreach(limit IN LISTS check_LIMITS)
    if(NOT limit MATCHES "^([a-z0-9_]+)=(.+)$")
      message(FATAL_ERROR "tare_add_check(${name}): '${limit}' is not metric=most")
    endif()
    set(metric ${CMAKE_MATCH_1})
    _tare_quote(most "${CMAKE_MATCH_2}")
    string(REGEX REPLACE "^time$" wall_seconds metric ${metric})
    string(REGEX REPLACE "^peak$" peak_resident_bytes metric ${metric})
    string(REGEX REPLACE "^bytes$" allocated_bytes metric ${metric})
    string(APPEND limits "${metric} = ${most}\n")
  endforeach()

  set(manager)
  if(check_MANAGER)
    _tare_quote(manager "${check_MANAGER}")
    string(PREPEND manager "manager = ")
  endif()
  if(NOT check_WORKING_DIRECTORY)
    set(check_WORKING_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
  endif()
  _tare_quote(directory "${check_WORKING_DIRECTORY}")
  string(TOLOWER "${name}" program)
  string(REGEX REPLACE "[^a-z0-9]" "-" program "${program}")
  string(SUBSTRING "${program}" 0 64 program)
  set(file "${CMAKE_CURRENT_BINARY_DIR}/tare/$<CONFIG>/${name}")
  file(GENERATE OUTPUT "${file}.toml" CONTENT "schema = 1
name = \"${program}\"
description = \"by tare_add_check\"

[[program]]
name = \"${program}\"
description = \"by tare_add_check\"
command = [${command}]
directory = ${directory}
ignore_output = true
${manager}

[program.limits]
${limits}")

  # Exit code 3 says that something is not installed, 4 that Tare could not go on.
  set(script [[
command -v "$0" >/dev/null || { echo "$0 is not installed, or not on the path"; exit 3; }
"$0" check --help >/dev/null || { echo "$0 does not start, or has no check"; exit 3; }
rm -rf "$1.results"
"$0" check "$1.toml" -o "$1.results" --no-page $2
code=$?
[ $code != 4 ] || code=3
exit $code]])
  set(runs)
  if(check_RUNS)
    set(runs "-n${check_RUNS}")
  endif()
  add_test(NAME "${name}" COMMAND sh -c "${script}" "${TARE_EXECUTABLE}" "${file}" "${runs}")
  set_tests_properties("${name}" PROPERTIES LABELS tare RUN_SERIAL TRUE)
  if(NOT check_REQUIRED)
    set_tests_properties("${name}" PROPERTIES SKIP_RETURN_CODE 3)
  endif()
endfunction()
