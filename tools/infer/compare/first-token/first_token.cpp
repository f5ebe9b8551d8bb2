// The first process of a Linux that does nothing but have llama.cpp answer: reads the tokens of a prompt, says when the
// first token of the answer was there, and ends. The machine's time-stamp counter counts instructions from power-on.

#include <sys/mount.h>
#include <x86intrin.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

#include "llama.h"

// What a clock's second is on that machine, in counts.
static const double SECOND = 1e9;

// Counts of the time-stamp counter at which Linux had nothing to do, to the hundredth of a second.
static unsigned long long idle() {
    double up = 0, idle = 0;
    mount("proc", "/proc", "proc", 0, nullptr);
    std::ifstream("/proc/uptime") >> up >> idle;
    return idle * SECOND;
}

int main() {
    std::ifstream file("/home/prompt.txt");
    std::vector<llama_token> prompt{std::istream_iterator<llama_token>(file), {}};
    llama_log_set([](ggml_log_level level, const char *text, void *) {
        if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
    }, nullptr);
    llama_backend_init();
    llama_model *model = llama_model_load_from_file("/home/model.gguf", llama_model_default_params());
    if (!model || prompt.empty()) return 1;
    llama_context_params params = llama_context_default_params();
    params.n_ctx = llama_model_n_ctx_train(model);
    params.n_batch = prompt.size();
    params.n_threads = params.n_threads_batch = 1;
    llama_context *context = llama_init_from_model(model, params);
    if (!context || llama_decode(context, llama_batch_get_one(prompt.data(), prompt.size()))) return 1;
    llama_sampler *greedy = llama_sampler_init_greedy();
    llama_token token = llama_sampler_sample(greedy, context, -1);
    unsigned long long now = __rdtsc();
    printf("first token %d of a prompt of %zu at %llu, %llu of which it was idle\n", token, prompt.size(), now, idle());
    return 0;
}
