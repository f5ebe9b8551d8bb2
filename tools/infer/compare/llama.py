"""llama.cpp, as the package llama-cpp-python has it, through its C interface: nothing of Python is in what is timed."""

import ctypes
import time

import llama_cpp
import numpy as np


class Peer:
    """A model file, open for one sequence."""

    def __init__(self, path, threads, context=512, flash_attention=True):
        self.model = _open(path)
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = context
        params.n_batch = params.n_ubatch = context
        params.n_threads = params.n_threads_batch = threads
        if not flash_attention:
            params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        if not self.context:
            raise RuntimeError(f"llama.cpp makes no context for {path}")
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))

    def reset(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def feed(self, ids):
        """The logits after the last of some more tokens."""
        tokens = (llama_cpp.llama_token * len(ids))(*ids)
        if llama_cpp.llama_decode(self.context, llama_cpp.llama_batch_get_one(tokens, len(ids))) != 0:
            raise RuntimeError("llama.cpp cannot take the tokens")
        return np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(self.context, -1), (self.vocabulary,))

    def greedy(self, ids, count):
        """The likeliest tokens that follow."""
        self.reset()
        found = []
        for _ in range(count):
            found.append(int(self.feed(found[-1:] or ids).argmax()))
        return found

    def speed(self, prompt, count):
        """Tokens a second: of a prompt, and of those that follow."""
        self.reset()
        ids = [index * 7919 % self.vocabulary for index in range(prompt)]
        began = time.perf_counter()
        next_id = int(self.feed(ids).argmax())
        prefill = prompt / (time.perf_counter() - began)
        began = time.perf_counter()
        for _ in range(count):
            next_id = int(self.feed([next_id]).argmax())
        return prefill, count / (time.perf_counter() - began)

    def passes(self, prompt, most, repeat):
        """Seconds that a pass of 1, 2, and so on up to `most` tokens takes after a prompt, with logits after each."""
        self.reset()
        ids = [index * 7919 % self.vocabulary for index in range(prompt)]
        self.feed(ids)
        memory, found = llama_cpp.llama_get_memory(self.context), []
        batch = llama_cpp.llama_batch_init(most, 0, 1)
        for index in range(most):
            batch.token[index], batch.pos[index], batch.logits[index] = ids[index % prompt], prompt + index, 1
            batch.n_seq_id[index], batch.seq_id[index][0] = 1, 0
        for count in range(1, most + 1):
            batch.n_tokens, least = count, float("inf")
            for _ in range(repeat):
                began = time.perf_counter()
                if llama_cpp.llama_decode(self.context, batch) != 0:
                    raise RuntimeError("llama.cpp cannot take the tokens")
                llama_cpp.llama_get_logits(self.context)
                least = min(least, time.perf_counter() - began)
                llama_cpp.llama_memory_seq_rm(memory, 0, prompt, -1)
            found.append(least)
        llama_cpp.llama_batch_free(batch)
        return found

    def close(self):
        llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)


class Vocabulary:
    """A model file's vocabulary; the file needs no weights."""

    def __init__(self, path):
        self.model = _open(path, vocab_only=True)
        self.vocabulary = llama_cpp.llama_model_get_vocab(self.model)

    def tokens(self, text, special, surrounded=False):
        """The tokens of a text: with marks found in it or not, and with what the file puts around texts or without."""
        data = text.encode()
        found = (llama_cpp.llama_token * (2 * len(data) + 8))()
        count = llama_cpp.llama_tokenize(self.vocabulary, data, len(data), found, len(found), surrounded, special)
        if count < 0:
            raise RuntimeError(f"llama.cpp makes {-count} tokens of {text!r}")
        return found[:count]

    def close(self):
        llama_cpp.llama_model_free(self.model)


def _open(path, vocab_only=False):
    llama_cpp.llama_log_set(_quiet, ctypes.c_void_p())
    llama_cpp.llama_backend_init()
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = vocab_only
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    if not model:
        raise RuntimeError(f"llama.cpp cannot open {path}")
    return model


@llama_cpp.llama_log_callback
def _quiet(_level, _text, _data):
    pass
