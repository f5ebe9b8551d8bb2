#!/bin/sh
# Tokens and logits of capos-infer beside llama.cpp's, as `make judge-infer` compares them; arguments are those of
# judge.py.
set -eu
cd "$(dirname "$0")/../../.."
. tools/infer/compare/environment.sh

# Of the whole workspace, as the other host tools are built.
"${CARGO:-cargo}" build --quiet --workspace --bin capos-infer
"$python" "$here/judge.py" --infer target/debug/capos-infer "$@"
