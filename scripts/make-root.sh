#!/bin/sh
# make-root.sh SUITE[-ARCHITECTURE] FOLDER PACKAGES: makes the root of another Debian, or of an
# Ubuntu, there by debootstrap, once, as root. PACKAGES are joined by commas.
set -eu
cd "$(dirname "$0")/.."

suite=${1%-*}
architecture=""
case "$1" in *-*) architecture=${1##*-} ;; esac
root=$2
case "$suite" in *[!a-z]* | "")
  echo "make-root: '$suite' is no name of a Debian suite, such as trixie" >&2
  exit 2
  ;;
esac
if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null; then
  echo "make-root: it needs root, and the package debootstrap" >&2
  exit 3
fi
# Debian 12 has neither Ubuntu's keys nor a script for each of its suites: all are as gutsy was.
extra=""
ubuntu=""
case "$suite" in
  noble | resolute)
    extra="--no-check-gpg --components=main,universe"
    ubuntu="http://archive.ubuntu.com/ubuntu /usr/share/debootstrap/scripts/gutsy"
    ;;
esac
case "$architecture" in
  arm64) emulated=aarch64 ;;
  *) emulated="" ;;
esac
if [ -n "$emulated" ] && [ "$(uname -m)" != "$emulated" ] &&
  [ ! -e "/proc/sys/fs/binfmt_misc/qemu-$emulated" ]; then
  echo "make-root: this system does not run programs for $architecture yet. It needs the packages" >&2
  echo "qemu-user-static and binfmt-support; where nothing has mounted it, binfmt_misc; and then" >&2
  echo "    update-binfmts --enable qemu-$emulated" >&2
  exit 3
fi

if [ ! -e "$root/.made" ]; then
  rm -rf "$root"
  mkdir -p "$root"
  # Words are split on purpose.
  # shellcheck disable=SC2086
  scripts/step.sh "a root of $1" "debootstrap-$(basename "$root")" \
    "The log names what was not to be had; the same command again begins anew." \
    debootstrap ${architecture:+"--arch=$architecture"} --variant=minbase $extra \
    --include="ca-certificates,$3" "$suite" "$root" $ubuntu
  [ -z "$ubuntu" ] || sed 'p; s/'"$suite"'/&-updates/' "$root/etc/apt/sources.list" |
    sort -u -o "$root/etc/apt/sources.list"
  touch "$root/.made"
fi
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/tare"
# Whoever signs for this network signs for the root, too: for Java by its own package, for others in
# a file that no package of it renews.
[ ! -d /usr/local/share/ca-certificates ] ||
  cp -rL /usr/local/share/ca-certificates "$root/usr/local/share/"
if ! told=$(scripts/in-root.sh "$root" update-ca-certificates --fresh 2>&1); then
  echo "make-root: $told" >&2
  exit 1
fi
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/host.crt"
