#!/bin/sh
# Compiles all C and C++ of Tare's own with warnings as errors. Builds of users do not: their
# compilers may know warnings that none here has.
set -eu
cd "$(dirname "$0")/.."

# The allocators and collectors are others' code; cargo's part is checked by check-rust.sh.
cmake -G Ninja -S . -B build/check -D CMAKE_BUILD_TYPE=Release -D TARE_CARGO=OFF \
  -D CMAKE_COMPILE_WARNING_AS_ERROR=ON -D TARE_ALLOCATORS_WITH_PACKAGE=OFF \
  -D TARE_COLLECTORS_WITH_PACKAGE=OFF "$@"
cmake --build build/check
