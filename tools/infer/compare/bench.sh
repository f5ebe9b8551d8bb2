#!/bin/sh
# Speed of capos-infer beside llama.cpp's, as `make bench-infer` measures it; arguments are those of compare.py.
# What it needs is made once, in target/bench-infer: llama.cpp is compiled there, which takes a quarter of an hour.
set -eu
cd "$(dirname "$0")/../../.."

here=tools/infer/compare
work=target/bench-infer
requirements=$here/requirements.txt

# gcc 12 miscompiles how llama.cpp sets up AMX tiles, so that quantised models end with a protection fault.
for program in clang clang++ cmake ninja python3; do
    command -v "$program" > /dev/null || {
        echo "bench-infer needs $program, which is not installed; on Debian: apt-get install clang cmake ninja-build python3-venv" >&2
        exit 1
    }
done
if ! cmp -s "$requirements" "$work/requirements.txt"; then
    echo 'Making the environment for the comparison, once; llama.cpp is compiled for this processor.'
    rm -rf "$work/venv"
    python3 -m venv "$work/venv"
    CC=clang CXX=clang++ CMAKE_ARGS='-DGGML_NATIVE=ON' "$work/venv/bin/pip" install --quiet -r "$requirements"
    cp "$requirements" "$work/requirements.txt"
fi
"${CARGO:-cargo}" build --quiet --release -p capos-infer
"$work/venv/bin/python" "$here/models.py" "$work/models"
"$work/venv/bin/python" "$here/compare.py" --infer target/release/capos-infer --models "$work/models" \
    --json target/bench-infer.json "$@"
