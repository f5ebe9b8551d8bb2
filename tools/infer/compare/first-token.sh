#!/bin/sh
# How soon after power-on a model's first token is there, as `make bench-first-token` measures it: capOS, and a minimal Linux
# with llama.cpp.
set -eu
cd "$(dirname "$0")/../../.."
here=tools/infer/compare
# Next to target/llama-cpp, which is rebuilt whenever another llama.cpp is compared with.
built=target/llama-cpp-first-token

for program in c++ cmake ninja python3; do
    command -v "$program" > /dev/null || {
        echo "$0 needs $program, which is not installed; on Debian: apt-get install g++ cmake ninja-build python3-venv" >&2
        exit 1
    }
done
package=$(grep '^llama-cpp-python==' "$here/requirements.txt")
if [ "$package" != "$(cat "$built/package" 2> /dev/null)" ]; then
    echo 'Fetching llama.cpp, once.'
    rm -rf "$built"
    python3 -m venv "$built/venv"
    "$built/venv/bin/pip" download --quiet --no-deps --no-binary llama-cpp-python "$package" --dest "$built"
    tar -xzf "$built"/llama_cpp_python-*.tar.gz -C "$built"
    echo "$package" > "$built/package"
fi
echo "Compiling it for the virtual machine, if needed; see $built/build.log."
{
    cmake -S "$here/first-token" -B "$built/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
        -DLLAMA="$(echo "$PWD/$built"/llama_cpp_python-*/vendor/llama.cpp)"
    ninja -C "$built/build" first-token
} > "$built/build.log" 2>&1 || {
    tail -n 20 "$built/build.log" >&2
    exit 1
}
"${CAPOS:?the program capos}" bench-first-token --peer "$built/build/first-token"
