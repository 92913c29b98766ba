# TARE_CARGO, new enough for replay/Cargo.toml, or a warning that WHAT is left out. Ubuntu 24.04 has
# a newer cargo under a name of its own.
function(tare_is_new_cargo result program)
  execute_process(COMMAND ${program} --version OUTPUT_VARIABLE said ERROR_QUIET)
  string(REGEX MATCH "[0-9.]+" version "${said}")
  if(version VERSION_LESS 1.85)
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()
find_program(TARE_CARGO NAMES cargo cargo-1.85 VALIDATOR tare_is_new_cargo)
if(NOT TARE_CARGO)
  message(WARNING "Left out: ${what}. Needed is cargo 1.85 or newer "
    "(apt-get install cargo-web on Debian 12, cargo-1.85 on Ubuntu 24.04, else cargo; or rustup)")
endif()
