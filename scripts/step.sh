#!/bin/sh
# step.sh LABEL LOG ADVICE COMMAND…
# Runs COMMAND in the root of the repository and ends with its exit code; what it prints goes to
# build/logs/LOG.log. Standard error shows, on a terminal, one line with the time so far and the last
# line of the log; elsewhere a line when COMMAND begins and one when it ends. If it fails: the last
# TARE_STEP_LINES lines of the log (40; "+1" is all), where the log is, and ADVICE.
set -u
cd "$(dirname "$0")/.." || exit

label=$1
log=build/logs/$2.log
advice=$3
shift 3
began=$(date +%s)

spent() { echo "$(($(date +%s) - began)) s"; }

# No wider than the terminal: a line that wraps cannot be drawn over.
draw() {
  columns=$(stty size <&2 2>/dev/null | cut -d ' ' -f 2)
  [ "${columns:-0}" -gt 1 ] || columns=80
  last=$(tail -n 5 "$log" | tr '\r' '\n' | tr -cd ' -~\n' | grep '[^ ]' | tail -n 1 | sed 's/^ *//')
  printf '\r%.*s\033[K' "$((columns - 1))" "$label: $(spent)  $last" >&2
}

mkdir -p build/logs || exit
printf '+ %s\n' "$*" >"$log" || exit
drawing=""
if [ -t 2 ] && [ "${TERM:-dumb}" != dumb ]; then
  while kill -0 $$ 2>/dev/null; do
    draw
    sleep 1
  done &
  drawing=$!
else
  echo "$label ..." >&2
fi

# COMMAND runs in the foreground: Ctrl-C reaches it and all that it started, and the trap runs when
# it has ended.
interrupted=""
trap 'interrupted=yes' INT
"$@" >>"$log" 2>&1 </dev/null
code=$?

exec >&2
if [ -n "$drawing" ]; then
  { kill "$drawing" && wait "$drawing"; } 2>/dev/null
  printf '\r\033[K'
fi
if [ -n "$interrupted" ]; then
  echo "$label: interrupted after $(spent); the same command goes on from here"
  trap - INT
  kill -INT $$
elif [ "$code" -eq 0 ]; then
  echo "$label: done in $(spent)"
else
  tail -n "${TARE_STEP_LINES:-40}" "$log"
  echo
  echo "$label: failed after $(spent) with exit code $code; the whole log is in $log"
  echo "$advice"
fi
exit "$code"
