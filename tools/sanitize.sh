#!/bin/sh
# Runs the host tests of crates that hold unsafe code under AddressSanitizer, and under Miri if the toolchain has it.
set -eu

target=x86_64-unknown-linux-gnu
crates=${CRATES:-"capos-ring capos-mem capos-rt"}
packages=
for crate in $crates; do
    packages="$packages -p $crate"
done

library=$(rustc --print target-libdir --target "$target")
if ! ls "$library"/librustc-*_rt.asan.a >/dev/null 2>&1; then
    echo "The compiler brings no runtime of AddressSanitizer for $target: Rust from rustup does." >&2
    exit 1
fi
# The flag is unstable: the stable compiler accepts it with RUSTC_BOOTSTRAP only.
# shellcheck disable=SC2086 # one word per package
RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address cargo test --target "$target" --target-dir target/sanitize $packages

if cargo miri --version >/dev/null 2>&1; then
    # shellcheck disable=SC2086
    cargo miri test --target-dir target/miri $packages
else
    echo "Miri is left out: this toolchain does not have it."
fi
