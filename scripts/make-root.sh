#!/bin/sh
# make-root.sh SUITE FOLDER PACKAGES: makes the root of another Debian there by debootstrap, once, as
# root. PACKAGES are joined by commas.
set -eu
cd "$(dirname "$0")/.."

suite=$1
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

if [ ! -e "$root/.made" ]; then
  rm -rf "$root"
  mkdir -p "$root"
  scripts/step.sh "a root of $suite" "debootstrap-$(basename "$root")" \
    "The log names what was not to be had; the same command again begins anew." \
    debootstrap --variant=minbase --include="ca-certificates,$3" "$suite" "$root"
  touch "$root/.made"
fi
# Whoever signs for this network signs for the root, too.
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/tare"
