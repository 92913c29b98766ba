#!/usr/bin/env bash
# Build dist/tare-VERSION-py3-none-manylinux_2_28_x86_64.whl with all native parts.
#   scripts/build-wheel.sh [OPTION OF pip wheel…]
# Dates in it are that of the commit, and no folder of the build is in what is built: the same commit
# gives the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-.venv/bin/python}
tag=manylinux_2_28
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
export CFLAGS="-ffile-prefix-map=$PWD=/tare"
export CXXFLAGS="$CFLAGS"
# Without --remap-path-prefix a panic's message names the builder's home.
export RUSTFLAGS="--remap-path-prefix=$PWD=/tare --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
compilers=$("$python" scripts/older_system.py)
export CC=$compilers/gcc CXX=$compilers/g++
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER=$compilers/rust-linker

# A program or an object for LD_PRELOAD does not care for the version of Python.
_PYTHON_HOST_PLATFORM=$tag-x86_64 "$python" -m pip wheel --no-deps --no-build-isolation \
	--wheel-dir dist --config-settings=wheel.py-api=py3 \
	--config-settings=build-dir="build/$(basename "$(dirname "$compilers")")" \
	--config-settings=cmake.define.TARE_ALONE=ON "$@" .
"$python" scripts/sort_wheel.py dist/tare-*-${tag}_x86_64.whl
"$python" scripts/wheel_needs.py dist/tare-*-${tag}_x86_64.whl
"$python" -m auditwheel show dist/tare-*-${tag}_x86_64.whl | tee build/auditwheel.txt
tr -s "\n" " " <build/auditwheel.txt | grep -q "platform tag: \"${tag}_x86_64\""
