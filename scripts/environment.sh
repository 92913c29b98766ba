#!/bin/sh
# environment.sh FOLDER: makes the Python environment of requirements.lock there, or renews it. One
# whose making was interrupted is made from nothing: pip takes half a package for a whole one.
set -eu
cd "$(dirname "$0")/.."

folder=$1
unfinished=build/environment-unfinished
trap 'exit 130' INT # pip ends as if it had failed
[ ! -e "$unfinished" ] || rm -rf "$folder"
mkdir -p build
touch "$unfinished"
code=0
{
  python3 -m venv "$folder" &&
    "$folder/bin/pip" install --progress-bar off --require-hashes -r requirements.lock
} || code=$?
rm "$unfinished"
exit "$code"
