// The first process of a Linux that does nothing but have llama.cpp answer: reads the tokens of a prompt, says when the
// first token of the answer was there, and ends. The machine's time-stamp counter counts instructions from power-on. If there
// is a prompt cache, it reads what that does not hold.
//
// With the arguments MODEL PROMPT COUNT CACHE it writes the prompt cache of the first COUNT tokens, and ends.

#include <sys/mount.h>
#include <unistd.h>
#include <x86intrin.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
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

// Where these are on that Linux.
static const char *const MODEL = "/home/model.gguf", *const PROMPT = "/home/prompt.txt", *const CACHE = "/home/cache.bin";

int main(int count, char **arguments) {
    const bool writes = count == 5;
    std::ifstream file(writes ? arguments[2] : PROMPT);
    std::vector<llama_token> prompt{std::istream_iterator<llama_token>(file), {}};
    if (writes && prompt.size() > strtoul(arguments[3], nullptr, 10)) prompt.resize(strtoul(arguments[3], nullptr, 10));
    llama_log_set([](ggml_log_level level, const char *text, void *) {
        if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
    }, nullptr);
    llama_backend_init();
    llama_model *model = llama_model_load_from_file(writes ? arguments[1] : MODEL, llama_model_default_params());
    if (!model || prompt.empty()) return 1;
    llama_context_params params = llama_context_default_params();
    params.n_ctx = llama_model_n_ctx_train(model);
    params.n_batch = prompt.size();
    params.n_threads = params.n_threads_batch = 1;
    llama_context *context = llama_init_from_model(model, params);
    if (!context) return 1;
    size_t known = 0;
    std::vector<llama_token> kept(prompt.size());
    if (!writes && access(CACHE, R_OK) == 0 && !llama_state_load_file(context, CACHE, kept.data(), kept.size(), &known)) {
        return 1;
    }
    if (known >= prompt.size() || !std::equal(kept.begin(), kept.begin() + known, prompt.begin())) return 1;
    if (llama_decode(context, llama_batch_get_one(prompt.data() + known, prompt.size() - known))) return 1;
    if (writes) return llama_state_save_file(context, arguments[4], prompt.data(), prompt.size()) ? 0 : 1;
    llama_sampler *greedy = llama_sampler_init_greedy();
    llama_token token = llama_sampler_sample(greedy, context, -1);
    unsigned long long now = __rdtsc();
    printf("first token %d of a prompt of %zu, of which %zu were known, at %llu, %llu of which it was idle\n", token,
           prompt.size(), known, now, idle());
    return 0;
}
