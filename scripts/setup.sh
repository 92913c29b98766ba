#!/bin/sh
# Installs the Debian packages of the groups named (see packages.txt). Without root it says which
# are missing and the one command that installs them, and exits with 3.
set -eu

list="$(dirname "$0")/../packages.txt"
missing=""
for group in "$@"; do
  while read -r entry package command; do
    [ "$entry" = "$group" ] || continue
    if [ "$command" != "-" ] && command -v "$command" >/dev/null 2>&1; then continue; fi
    state=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
    case "$state" in ii*) continue ;; esac
    missing="$missing $package"
  done <"$list"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
  echo "These Debian packages are missing:$missing" >&2
  echo "Install them with:" >&2
  echo "    sudo apt-get install --no-install-recommends$missing" >&2
  exit 3
fi
echo "Installing:$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
# Word splitting is meant: each word is a package.
# shellcheck disable=SC2086
apt-get install -q -y --no-install-recommends $missing
