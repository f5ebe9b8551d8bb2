#!/bin/sh
# Tokens and logits of capos-infer compared with llama.cpp's, as `make judge-infer` does; arguments are those of
# judge.py.
set -eu
cd "$(dirname "$0")/../../.."
. tools/infer/compare/environment.sh

# Built with the whole workspace, as the other host tools are.
"${CARGO:-cargo}" build --quiet --workspace --bin capos-infer
"$python" "$here/judge.py" --infer target/debug/capos-infer "$@"
