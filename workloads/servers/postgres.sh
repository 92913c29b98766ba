#!/bin/sh
# A PostgreSQL with a new database in the current folder: postgres.sh PORT
#
# It refuses to be root. In a user namespace root has another number, and still owns its folders.
set -eu
for bin in /usr/lib/postgresql/*/bin; do PATH=$bin:$PATH; done
if [ "$(id -u)" = 0 ]; then
  if ! unshare --user true; then
    echo "PostgreSQL refuses to be root, and this system makes no user namespace: be another user" >&2
    exit 1
  fi
  exec unshare --user --map-user=1000 -- sh "$0" "$1"
fi
initdb --pgdata=data --username=tare --auth=trust --no-locale --encoding=UTF8 --no-sync > initdb.log
exec postgres -D data -p "$1" -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off
