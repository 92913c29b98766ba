#!/bin/sh
# Installs the Debian packages of the groups named (see packages.txt), as root or with sudo, and says
# what is left out where this system has no such package. Where it may not install, it says which
# are missing and the one command that installs them, and exits with 3.
set -eu

scripts=$(dirname "$0")
list="$scripts/../packages.txt"
tab=$(printf '\t')

installed() {
  case "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null || true)" in ii*) return 0 ;; esac
  return 1
}

# Those of the words that are packages in the package lists. All are asked for together: in many a
# container apt reads its lists anew for each question, which takes seconds.
available() {
  LC_ALL=C apt-cache policy "$@" 2>/dev/null |
    sed -n -e '/^[^ ]/ { s/:$//; h; }' -e '/Candidate: [^(]/ { g; p; }'
}

# The major version of the compiler that is here, or else of the one that will be.
compiler() {
  version=$(gcc -dumpversion 2>/dev/null || apt-cache depends gcc 2>/dev/null |
    sed -n 's/.*Depends: gcc-\([0-9][0-9]*\)$/\1/p' | head -n 1)
  echo "${version%%.*}"
}

# serves COMMAND[|COMMAND…][>=VERSION]: one of them is on PATH, and new enough.
serves() {
  wanted=${1#*>=}
  [ "$wanted" != "$1" ] || wanted=""
  old=""
  for name in $(echo "${1%%>=*}" | tr '|' ' '); do
    command -v "$name" >/dev/null 2>&1 || continue
    [ -n "$wanted" ] || return 0
    found=$("$name" --version 2>/dev/null | grep -Eo '[0-9]+(\.[0-9]+)*' | head -n 1)
    [ "$(printf '%s\n%s\n' "$wanted" "$found" | sort -V | head -n 1)" != "$wanted" ] || return 0
    old="$name on PATH is version ${found:-unknown}; $wanted or newer is needed"
  done
  [ -z "$old" ] || echo "$old" >&2
  return 1
}

# All packages of packages.txt, beside a compiler of version $1.
listed() { sed -n "s/GCC/$1/; s/^[a-z][^ ]* \([^ ]*\) .*/\1/p" "$list" | tr '|' '\n'; }

# One line for each package that is not here: the package, or "-" where this system has none of the
# alternatives; the alternatives; and what is left out without it.
lacking() {
  gcc=$(compiler)
  offered=""
  for group in "$@"; do
    while read -r entry packages command purpose; do
      [ "$entry" = "$group" ] || continue
      if [ "$command" != "-" ] && serves "$command"; then continue; fi
      found=""
      packages=$(echo "$packages" | sed "s/GCC/$gcc/")
      for package in $(echo "$packages" | tr '|' ' '); do
        if installed "$package"; then
          case "$command" in *">="*) continue ;; esac # that one was too old
          found=installed
          break
        fi
        [ -z "$found" ] || continue
        # shellcheck disable=SC2046 # each word is a package
        [ -n "$offered" ] || offered=" $(available $(listed "$gcc") | tr '\n' ' ')"
        case "$offered" in *" $package "*) found=$package ;; esac
      done
      [ "$found" = installed ] || printf '%s\t%s\t%s\n' "${found:--}" "$packages" "$purpose"
    done <"$list"
  done
}

# Sorts what the groups lack: packages to install, those that are needed and not to be had, and a
# line for each thing left out.
sort_out() {
  wanted=""
  stop=""
  left_out=""
  while IFS="$tab" read -r package packages purpose; do
    [ -n "$package" ] || continue
    if [ "$package" != "-" ]; then
      wanted="$wanted $package"
    elif [ -n "$purpose" ]; then
      left_out="${left_out}left out: $purpose (this system has no package $packages)
"
    else
      stop="$stop $packages"
    fi
  done <<END
$1
END
}

# Root's rights, with $sudo before a command. A password is asked for here, before a line of progress
# is drawn, and only on a terminal.
may_install() {
  sudo=""
  [ "$(id -u)" -ne 0 ] || return 0
  sudo=yes
  if [ -z "$wanted$stop" ] || ! command -v sudo >/dev/null 2>&1; then return 1; fi
  if sudo -n true 2>/dev/null; then return 0; fi
  [ -t 2 ] || return 1
  echo "sudo may ask for your password, to install the Debian packages$wanted$stop" >&2
  sudo -v
}

missing=$(lacking "$@")
[ -n "$missing" ] || exit 0
sort_out "$missing"
installs=no
if may_install; then
  installs=yes
  "$scripts/step.sh" "package lists" lists \
    "If the network or another apt was in the way, run the same command again." \
    ${sudo:+sudo} apt-get update -q
  sort_out "$(lacking "$@" 2>/dev/null)"
fi

printf '%s' "$left_out" >&2
if [ -n "$stop" ]; then
  echo "These packages are needed, and the package lists of this system do not have them:$stop" >&2
  echo "Refresh the lists with apt-get update; Tare is built on Debian 12 and 13, and Ubuntu 24.04 and 26.04." >&2
  exit 3
fi
[ -n "$wanted" ] || exit 0
if [ "$installs" = no ]; then
  echo "These Debian packages are missing:$wanted" >&2
  echo "Install them with:" >&2
  echo "    sudo apt-get install --no-install-recommends$wanted" >&2
  exit 3
fi
# Word splitting is meant: each word is a package.
# shellcheck disable=SC2086
set -- $wanted
# What an interrupted installation left half done is done first; apt refuses to go on without.
# shellcheck disable=SC2016
"$scripts/step.sh" "system packages ($#)" packages \
  "If the network, a full disk or another apt was in the way, run the same command again." \
  ${sudo:+sudo} env DEBIAN_FRONTEND=noninteractive \
  sh -c 'dpkg --configure -a && apt-get install -q -y --no-install-recommends "$@"' sh "$@"
