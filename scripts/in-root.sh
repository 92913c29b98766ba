#!/bin/sh
# in-root.sh FOLDER COMMAND [ARG…]: runs a command in the folder /tare of a root. Nothing is mounted
# but in namespaces of its own, so nothing is left behind.
set -eu

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
    SSL_CERT_FILE=/etc/ssl/host.crt PIP_CERT=/etc/ssl/host.crt \
    CARGO_HTTP_CAINFO=/etc/ssl/host.crt \
    sh -c "cd /tare && exec \"\$@\"" sh "$@"
' sh "$@"
