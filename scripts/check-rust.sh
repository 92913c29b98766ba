#!/bin/sh
# Format, lints and unit tests of the cargo workspaces named. Debian's cargo-web comes without the
# tools for the first two; rustup has them.
set -eu

for tool in fmt clippy; do
  if ! cargo "$tool" --version >/dev/null 2>&1; then
    echo "Rust is not checked: cargo $tool is missing (rustup component add rustfmt clippy)"
    exit 0
  fi
done
target="$(pwd)/build/clippy"
for workspace in "$@"; do
  (
    cd "$workspace"
    cargo fmt --check
    cargo clippy --quiet --locked --all-targets --target-dir "$target" -- -D warnings
    cargo test --quiet --locked --target-dir "$target"
  )
done
