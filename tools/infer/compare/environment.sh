# What the comparisons with llama.cpp have in common; read by bench.sh and judge.sh from the repository's root.
# Sets `here` and `python`. llama.cpp is compiled once, in target/llama-cpp, which takes a quarter of an hour.
here=tools/infer/compare
python=target/llama-cpp/venv/bin/python
requirements=$here/requirements.txt

if ! cmp -s "$requirements" target/llama-cpp/requirements.txt; then
    # gcc 12 miscompiles how llama.cpp sets up AMX tiles, so that quantised models end with a protection fault.
    for program in clang clang++ cmake ninja python3; do
        command -v "$program" > /dev/null || {
            echo "$0 needs $program, which is not installed; on Debian: apt-get install clang cmake ninja-build python3-venv" >&2
            exit 1
        }
    done
    echo 'Making the environment for the comparison, once; llama.cpp is compiled for this processor.'
    rm -rf target/llama-cpp
    python3 -m venv target/llama-cpp/venv
    CC=clang CXX=clang++ CMAKE_ARGS='-DGGML_NATIVE=ON' target/llama-cpp/venv/bin/pip install --quiet -r "$requirements"
    cp "$requirements" target/llama-cpp/requirements.txt
fi
