#!/bin/sh
# Runs a command in another Debian: scripts/in-system.sh SUITE COMMAND [ARG…], as root.
#
# The system is made by debootstrap below build/systems, once. Each time the files of this checkout,
# without what git ignores, are copied to /tare in it, a repository of its own, and the command runs
# there; what was built there stays. Nothing is mounted but in namespaces of its own, so nothing is left behind.
set -eu

cd "$(dirname "$0")/.."
if [ $# -lt 2 ]; then
  echo "in-system: give a suite and a command: scripts/in-system.sh trixie make demo" >&2
  exit 2
fi
suite=$1
shift
root=$PWD/build/systems/$suite
case "$suite" in *[!a-z]* | "")
  echo "in-system: '$suite' is no name of a Debian suite, such as trixie" >&2
  exit 2
  ;;
esac
if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null; then
  echo "in-system: it needs root, and the package debootstrap" >&2
  exit 3
fi

if [ ! -e "$root/.made" ]; then
  rm -rf "$root"
  mkdir -p "$root"
  scripts/step.sh "a root of $suite" "debootstrap-$suite" \
    "The log names what was not to be had; the same command again begins anew." \
    debootstrap --variant=minbase --include=ca-certificates,make,git,procps "$suite" "$root"
  touch "$root/.made"
fi
# Whoever signs for this network signs for the root, too.
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/tare"
if [ -e "$root/tare/.git" ]; then # what is no longer here goes there, too
  git -C "$root/tare" ls-files -z | (cd "$root/tare" && xargs -0 rm -f)
fi
git ls-files -z --cached --others --exclude-standard |
  tar --null --ignore-failed-read -T - -cf - | tar -xf - -C "$root/tare"
git -C "$root/tare" init -q
git -C "$root/tare" add --all

# shellcheck disable=SC2016
exec unshare --mount --pid --fork --kill-child sh -c '
  root=$1
  shift
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs tmpfs "$root/tmp"
  exec chroot "$root" env -i HOME=/root USER=root LANG=C.UTF-8 TERM="${TERM:-dumb}" \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin CI="${CI:-}" \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
    sh -c "cd /tare && exec \"\$@\"" sh "$@"
' sh "$root" "$@"
