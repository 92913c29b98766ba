#!/bin/sh
# build-arm64.sh: builds dist/tare-VERSION-py3-none-linux_aarch64.whl on this system, by the packages
# g++-aarch64-linux-gnu and a Rust that has the target aarch64-unknown-linux-gnu. The libraries are
# those of the root in which try-wheel.sh tries it.
set -eu
cd "$(dirname "$0")/.."

target=aarch64-unknown-linux-gnu
if ! command -v aarch64-linux-gnu-g++ >/dev/null; then
  echo "build-arm64: there is no cross compiler: apt-get install g++-aarch64-linux-gnu" >&2
  exit 3
fi
if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
  echo "build-arm64: this Rust cannot build for arm64: rustup target add $target" >&2
  exit 3
fi
TARE_SYSROOT=$PWD/build/systems/wheel-bookworm-arm64
scripts/make-root.sh bookworm-arm64 "$TARE_SYSROOT" python3,python3-venv,pipx,libstdc++-12-dev,libdw-dev
export TARE_SYSROOT
export CARGO_BUILD_TARGET=$target
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CXX_aarch64_unknown_linux_gnu=aarch64-linux-gnu-g++
_PYTHON_HOST_PLATFORM=linux-aarch64 "${PYTHON:-.venv/bin/python}" -m pip wheel --no-deps \
  --no-build-isolation --wheel-dir dist --config-settings=wheel.py-api=py3 \
  --config-settings=build-dir=build/arm64 \
  --config-settings=cmake.args="-DCMAKE_TOOLCHAIN_FILE=$PWD/platform/arm64.cmake" "$@" .
