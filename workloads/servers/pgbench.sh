#!/bin/sh
# Transactions of pgbench, 1,500 by each of four clients: pgbench.sh PORT
set -eu
for bin in /usr/lib/postgresql/*/bin; do PATH=$bin:$PATH; done
export PGHOST=127.0.0.1 PGPORT="$1" PGUSER=tare PGDATABASE=postgres
if ! psql -q -c 'select 1 from pgbench_accounts limit 1' > /dev/null 2>&1; then
  pgbench --initialize --quiet > /dev/null 2>&1
fi
exec pgbench --no-vacuum --client=4 --transactions=1500
