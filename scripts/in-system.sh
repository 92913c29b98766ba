#!/bin/sh
# Runs a command in another Debian: scripts/in-system.sh SUITE[-ARCHITECTURE] COMMAND [ARG…], as root.
#
# The system is made by debootstrap below build/systems, once. Each time the files of this checkout,
# without what git ignores, are copied to /tare in it, a repository of its own, and the command runs
# there; what was built there stays.
set -eu

cd "$(dirname "$0")/.."
if [ $# -lt 2 ]; then
  echo "in-system: give a suite and a command: scripts/in-system.sh trixie make demo" >&2
  exit 2
fi
suite=$1
shift
root=$PWD/build/systems/$suite
scripts/make-root.sh "$suite" "$root" make,git,procps
if [ -e "$root/tare/.git" ]; then # what is no longer here goes there, too
  git -C "$root/tare" ls-files -z | (cd "$root/tare" && xargs -0 rm -f)
fi
git ls-files -z --cached --others --exclude-standard |
  tar --null --ignore-failed-read -T - -cf - | tar -xf - -C "$root/tare"
git -C "$root/tare" init -q
git -C "$root/tare" add --all
exec scripts/in-root.sh "$root" "$@"
