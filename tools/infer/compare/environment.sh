# The common part of the comparisons with llama.cpp; read by bench.sh and judge.sh from the repository's root. Sets
# `here`, `python`, and `peers`, the Pythons of all builds. llama.cpp is compiled once with each compiler, in
# target/llama-cpp, which takes half an hour. Each has OpenMP, without which small models run at a tenth of their speed.
here=tools/infer/compare
python=target/llama-cpp/clang/bin/python
peers="target/llama-cpp/clang/bin/python target/llama-cpp/gcc/bin/python"
requirements=$here/requirements.txt

if ! cmp -s "$requirements" target/llama-cpp/requirements.txt; then
    for program in clang clang++ gcc g++ cmake ninja python3; do
        command -v "$program" > /dev/null || missing=$program
    done
    # Clang brings no OpenMP of its own, and llama.cpp is compiled without it if it is not found.
    echo 'int main(void) { return 0; }' | clang -fopenmp -x c -o /dev/null - 2> /dev/null || missing=${missing:-libomp}
    if [ -n "${missing:-}" ]; then
        echo "$0 needs $missing, which is not installed; on Debian: apt-get install clang libomp-dev g++ cmake ninja-build python3-venv" >&2
        exit 1
    fi
    echo 'Making the environment for the comparison, once; llama.cpp is compiled for this processor, with clang and with gcc.'
    rm -rf target/llama-cpp
    for compilers in clang:clang++ gcc:g++; do
        built=target/llama-cpp/${compilers%:*}
        python3 -m venv "$built"
        # Nothing is taken over that another compiler has made.
        CC=${compilers%:*} CXX=${compilers#*:} CMAKE_ARGS='-DGGML_NATIVE=ON -DGGML_OPENMP=ON' \
            "$built/bin/pip" install --quiet --no-cache-dir --no-binary llama-cpp-python -r "$requirements"
        ldd "$built"/lib/python3*/site-packages/llama_cpp/lib/libggml-cpu.so | grep -q 'lib[gi]*omp' || {
            echo "$0: llama.cpp was compiled by ${compilers%:*} without OpenMP; see why above" >&2
            exit 1
        }
    done
    cp "$requirements" target/llama-cpp/requirements.txt
fi
