#!/bin/sh
# Installs a wheel in bare systems without a compiler, and tries its commands and the unit tests:
#   scripts/try-wheel.sh WHEEL [SUITE[-ARCHITECTURE]…], as root. The suites are bookworm,
#   trixie, sid, and noble and resolute of Ubuntu.
# The table is printed, and build/systems/wheel-SUITE.json has the same with what failed.
set -eu

cd "$(dirname "$0")/.."
wheel=${1:?"give a wheel: scripts/try-wheel.sh dist/tare-….whl"}
shift
[ $# -gt 0 ] || set -- bookworm trixie sid

for suite; do
  root=$PWD/build/systems/wheel-$suite
  result=build/systems/wheel-$suite.json
  scripts/make-root.sh "$suite" "$root" python3,python3-venv,pipx
  name=$suite
  uv=""
  case "$suite" in
    *-*)
      emulator=$(sed -n 's/^interpreter //p' /proc/sys/fs/binfmt_misc/qemu-aarch64)
      version=$("$(readlink -f "$emulator")" --version | sed -n 's/^qemu.* version \([0-9]*\).*/\1/p')
      if [ "$version" -lt 8 ]; then
        echo "try-wheel: QEMU $version keeps a record for each page that a program reserves, of" >&2
        echo "terabytes; install QEMU 8 or newer, such as that of bookworm-backports" >&2
        exit 3
      fi
      name="$suite under QEMU $version"
      # Under QEMU pip takes an hour. This uv needs no library, and installs there by this processor.
      uv=build/uv/bin/uv
      [ -e "$uv" ] || "${PYTHON:-.venv/bin/python}" -m pip install -q --target build/uv \
        --only-binary :all: --platform "musllinux_1_1_$(uname -m)" uv
      ;;
  esac
  rm -rf "$root/tare"
  mkdir "$root/tare"
  cp "$wheel" "$root/tare"
  [ -z "$uv" ] || cp "$uv" "$root/usr/local/bin"
  # For the tests; but tare itself is that of the wheel.
  git ls-files -z --cached --others --exclude-standard ':!tare' |
    xargs -0 cp --parents -t "$root/tare"
  TARE_STEP_LINES=20 scripts/step.sh "the wheel in $suite" "wheel-$suite" "$result has what failed." \
    scripts/in-root.sh "$root" python3 scripts/try_wheel.py try "$name" "$(basename "$wheel")" result.json || :
  cp "$root/tare/result.json" "$result"
done
for suite; do echo "build/systems/wheel-$suite.json"; done | xargs python3 scripts/try_wheel.py table
