#!/bin/sh
# Fuzzes the whole way from a model file to an answer with libFuzzer: fuzz.sh [SECONDS]
# Begins with the hostile model files; what it finds it keeps in target/fuzz/corpus and goes on from there the next time.
set -eu

cd "$(dirname "$0")/../.."
mkdir -p target/fuzz/corpus
"${CARGO:-cargo}" run --quiet -p capos-hostile-models -- target/fuzz/seeds --bounded
# What `cargo fuzz build --sanitizer none` sets: with it, stable compilers will do.
coverage='-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing'
RUSTFLAGS=$coverage exec "${CARGO:-cargo}" run --release --quiet --manifest-path userspace/lib/inference/fuzz/Cargo.toml \
    --target-dir target/fuzz --target "$(rustc -vV | sed -n 's/^host: //p')" -- \
    target/fuzz/corpus target/fuzz/seeds -artifact_prefix=target/fuzz/ -max_total_time="${1:-600}" -max_len=65536 \
    -rss_limit_mb=2048 -timeout=60
