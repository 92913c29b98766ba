#!/bin/sh
# Installs the Debian packages of the groups named (see packages.txt), and says what is left out
# where this system has no such package. Without root it says which are missing and the one command
# that installs them, and exits with 3.
set -eu

list="$(dirname "$0")/../packages.txt"
tab=$(printf '\t')

installed() {
  case "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null || true)" in ii*) return 0 ;; esac
  return 1
}

available() { LC_ALL=C apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [^(]'; }

# The major version of the compiler that is here, or else of the one that will be.
compiler() {
  version=$(gcc -dumpversion 2>/dev/null || apt-cache depends gcc 2>/dev/null |
    sed -n 's/.*Depends: gcc-\([0-9][0-9]*\)$/\1/p' | head -n 1)
  echo "${version%%.*}"
}

# serves COMMAND[>=VERSION]: it is on PATH, and new enough.
serves() {
  command=${1%%>=*}
  command -v "$command" >/dev/null 2>&1 || return 1
  [ "$command" != "$1" ] || return 0
  wanted=${1#*>=}
  found=$("$command" --version 2>/dev/null | grep -Eo '[0-9]+(\.[0-9]+)*' | head -n 1)
  [ "$(printf '%s\n%s\n' "$wanted" "$found" | sort -V | head -n 1)" = "$wanted" ] && return 0
  echo "$command on PATH is version ${found:-unknown}; $wanted or newer is needed" >&2
  return 1
}

# One line for each package that is not here: the package, or "-" where this system has none of the
# alternatives; the alternatives; and what is left out without it.
lacking() {
  gcc=$(compiler)
  for group in "$@"; do
    while read -r entry packages command purpose; do
      [ "$entry" = "$group" ] || continue
      if [ "$command" != "-" ] && serves "$command"; then continue; fi
      found=""
      packages=$(echo "$packages" | sed "s/GCC/$gcc/")
      for package in $(echo "$packages" | tr '|' ' '); do
        if installed "$package"; then
          found=installed
          break
        fi
        if [ -z "$found" ] && available "$package"; then found=$package; fi
      done
      [ "$found" = installed ] || printf '%s\t%s\t%s\n' "${found:--}" "$packages" "$purpose"
    done <"$list"
  done
}

missing=$(lacking "$@")
[ -n "$missing" ] || exit 0
if [ "$(id -u)" -eq 0 ]; then
  apt-get update -q
  missing=$(lacking "$@" 2>/dev/null)
fi

wanted=""
stop=""
while IFS="$tab" read -r package packages purpose; do
  if [ "$package" != "-" ]; then
    wanted="$wanted $package"
  elif [ -n "$purpose" ]; then
    echo "left out: $purpose (this system has no package $packages)" >&2
  else
    stop="$stop $packages"
  fi
done <<END
$missing
END

if [ -n "$stop" ]; then
  echo "These packages are needed, and the package lists of this system do not have them:$stop" >&2
  echo "Refresh the lists with apt-get update; Tare is built on Debian 12 and 13, and what is like them." >&2
  exit 3
fi
[ -n "$wanted" ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
  echo "These Debian packages are missing:$wanted" >&2
  echo "Install them with:" >&2
  echo "    sudo apt-get install --no-install-recommends$wanted" >&2
  exit 3
fi
echo "Installing:$wanted"
export DEBIAN_FRONTEND=noninteractive
# Word splitting is meant: each word is a package.
# shellcheck disable=SC2086
apt-get install -q -y --no-install-recommends $wanted
