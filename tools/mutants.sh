#!/bin/sh
# Changes the code of a crate in one place after the other, and runs the crate's own tests on each mutant. What they do not
# notice is listed at the end. Usage: mutants.sh crate [shard]
set -eu

version=27.1.0
tools=$PWD/target/tools
PATH=$tools/bin:$PATH
if test "$(cargo mutants --version 2>/dev/null)" != "cargo-mutants $version"; then
    cargo install cargo-mutants --locked --version "$version" --root "$tools" --target-dir "$tools/build"
fi

# Few power cuts and volumes are enough to notice a mutant.
CRASHES=${CRASHES:-100} VOLUMES=${VOLUMES:-30} cargo mutants --config tools/mutants.toml --output target \
    --package "capos-$1" --cargo-test-arg=--lib --cargo-test-arg=--tests ${2:+--shard "$2" --sharding round-robin}
