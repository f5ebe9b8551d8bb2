#!/bin/sh
# Speed of capos-infer compared with llama.cpp's, as `make bench-infer` measures it; arguments are those of
# compare.py.
set -eu
cd "$(dirname "$0")/../../.."
. tools/infer/compare/environment.sh

"${CARGO:-cargo}" build --quiet --release -p capos-infer
"$python" "$here/models.py" target/bench-infer/models
# $peers is a list.
# shellcheck disable=SC2086
"$python" "$here/compare.py" --infer target/release/capos-infer --models target/bench-infer/models \
    --json target/bench-infer.json --peers $peers -- "$@"
