#!/bin/sh
# Installs a wheel in bare Debians without a compiler, and tries its commands and the unit tests:
#   scripts/try-wheel.sh WHEEL [SUITE[-ARCHITECTURE]…], as root. The suites are bookworm, trixie and
#   sid.
# The table is printed, and build/systems/wheel-SUITE.json has the same with what failed.
set -eu

cd "$(dirname "$0")/.."
wheel=${1:?"give a wheel: scripts/try-wheel.sh dist/tare-….whl"}
shift
[ $# -gt 0 ] || set -- bookworm trixie sid

for suite; do
  name=$suite
  limit=unlimited
  case "$suite" in
    *-*)
      name="${suite%-*} under QEMU"
      limit=17179869184 # QEMU 7.2 keeps a record for each page that MMTk reserves, of terabytes
      ;;
  esac
  root=$PWD/build/systems/wheel-$suite
  result=build/systems/wheel-$suite.json
  scripts/make-root.sh "$suite" "$root" python3,python3-venv,pipx
  rm -rf "$root/tare"
  mkdir "$root/tare"
  cp "$wheel" "$root/tare"
  # For the tests; but tare itself is that of the wheel.
  git ls-files -z --cached --others --exclude-standard ':!tare' |
    xargs -0 cp --parents -t "$root/tare"
  TARE_STEP_LINES=20 scripts/step.sh "the wheel in $suite" "wheel-$suite" "$result has what failed." \
    prlimit --as="$limit" scripts/in-root.sh "$root" python3 scripts/try_wheel.py try "$name" "$(basename "$wheel")" result.json || :
  cp "$root/tare/result.json" "$result"
done
for suite; do echo "build/systems/wheel-$suite.json"; done | xargs python3 scripts/try_wheel.py table
