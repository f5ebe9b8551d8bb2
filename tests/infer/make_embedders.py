"""Makes the small embedders with random weights in embedders/, and what the reference computes with them.

    venv/bin/python tests/infer/make_embedders.py [NAME …]

Of the language models in models/ the file embedders/language_models.json has the vectors.
"""

import json
import pathlib
import sys

import numpy as np
from embedder_reference import FIRST, LAST, MEAN, Embedder
from gguf import GGMLQuantizationType as Type
from make_models import BF16, BLOCKS, F16, F32, Maker, file, prompts

HERE = pathlib.Path(__file__).parent / "embedders"
# How many lists of tokens there are for each language model, and how many random texts for each embedder.
PROMPTS = 8
MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = "water the plants on monday and feed a cat before you go home while it rain snow in may".split()
PIECES = ["s", "ing", "ed", "er"]
TEXTS = [
    "Water the plants on Monday.",
    "feed the cats, and go home before it rains",
    "It is snowing in May!",
    "",
]


class EmbedderMaker(Maker):
    """A file as those of models/, of an architecture whose tokens see all others."""

    def make(self):
        o = {"width": 32, "heads": 4, "inside": 48, "layers": 2, "context": 64, "types": 2, **self.options}
        w, width, inside, gated = self.writer, o["width"], o["inside"], self.arch == "nomic-bert"
        w.add_name(self.path.stem)
        w.add_license("CC0-1.0")
        w.add_context_length(o["context"])
        w.add_embedding_length(width)
        w.add_block_count(o["layers"])
        w.add_head_count(o["heads"])
        w.add_feed_forward_length(inside)
        w.add_layer_norm_eps(1e-12)
        w.add_causal_attention(False)
        w.add_token_type_count(o["types"])
        if "pooling" in o:
            w.add_uint32(f"{self.arch}.pooling_type", o["pooling"])
        if gated:
            w.add_rope_freq_base(1000.0)
        tokens = self.vocabulary()
        self.matrix("token_embd.weight", tokens, width, scale=width**0.5)
        self.matrix("token_types.weight", o["types"], width, scale=width**0.5)
        if not gated:
            self.matrix("position_embd.weight", o["context"], width, scale=width**0.5)
        self.norm("token_embd_norm", width)
        for layer in range(o["layers"]):
            at = f"blk.{layer}."
            if gated:
                self.matrix(f"{at}attn_qkv.weight", 3 * width, width, scale=1.5)
            for name in () if gated else "qkv":
                self.linear(f"{at}attn_{name}", width, width, scale=1.5)
            self.linear(f"{at}attn_output", width, width)
            self.norm(f"{at}attn_output_norm", width)
            if gated:
                self.linear(f"{at}ffn_gate", inside, width)
            self.linear(f"{at}ffn_up", inside, width)
            self.linear(f"{at}ffn_down", width, inside)
            self.norm(f"{at}layer_output_norm", width)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()

    def linear(self, name, rows, columns, scale=1.0):
        self.matrix(f"{name}.weight", rows, columns, scale=scale)
        if self.arch == "bert":
            self.vector(f"{name}.bias", rows, around=0)

    def norm(self, name, size):
        self.vector(f"{name}.weight", size)
        self.vector(f"{name}.bias", size, around=0)

    def vocabulary(self):
        """Words, pieces of words, letters; says how many tokens there are."""
        w = self.writer
        letters = [chr(letter) for letter in range(ord("a"), ord("z") + 1)]
        first = WORDS + [letter for letter in letters if letter not in WORDS] + [".", ",", "!"]
        tokens = MARKS + ["▁" + word for word in first] + PIECES + [letter for letter in letters if letter not in PIECES]
        w.add_tokenizer_model("bert")
        w.add_tokenizer_pre("jina-v2-en")
        w.add_token_list(tokens)
        w.add_token_types([3] * len(MARKS) + [1] * (len(tokens) - len(MARKS)))
        w.add_pad_token_id(0)
        w.add_unk_token_id(1)
        w.add_bos_token_id(2)
        w.add_sep_token_id(3)
        w.add_mask_token_id(4)
        return len(tokens)


def encode(text, tokens):
    """The ids of a text of plain letters: the longest pieces that each word begins with."""
    places = {token: place for place, token in enumerate(tokens)}
    for mark in ".,!":
        text = text.replace(mark, f" {mark} ")
    ids = []
    for word in text.lower().split():
        rest = "▁" + word
        while rest:
            size = next(size for size in range(len(rest), 0, -1) if rest[:size] in places)
            ids.append(places[rest[:size]])
            rest = rest[size:]
    return [places["[CLS]"], *ids, places["[SEP]"]]


WIDE = {"width": 64, "inside": 96}
# Blocks of K-quants have 256 values.
WIDEST = {"width": 256, "inside": 256, "layers": 1}
EMBEDDERS = {
    "bert": ("bert", F16, {"pooling": MEAN}),
    "bert-f32": ("bert", F32, {"pooling": FIRST}),
    "bert-bf16": ("bert", BF16, {}),
    "bert-mixed": ("bert", [Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.IQ4_NL], {**WIDE, "pooling": FIRST}),
    "bert-k": ("bert", [kind for kind in BLOCKS if kind != Type.IQ4_NL], {**WIDEST, "pooling": FIRST}),
    "nomic-bert": ("nomic-bert", F16, {"pooling": MEAN}),
    "nomic-bert-q8_0": ("nomic-bert", [Type.Q8_0], {**WIDE, "pooling": MEAN}),
}
# A language model that is made to embed.
LAST_TOKEN = ("qwen3", F16, {"head_norms": True, "head_size": 12, "entries": {"pooling_type": LAST}})
LANGUAGE_MODELS = ["llama-f32", "llama-q8_0", "qwen2", "qwen3", "qwen3moe", "phi3-window", "gemma2", "gemma3", "mistral3"]


def numbers(vector):
    return [float(f"{value:.8g}") for value in vector]


def listed(members):
    """JSON with a line for each list of each member."""
    lists = lambda rows: "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]"
    return "{\n" + ",\n".join(f'"{name}": {lists(rows)}' for name, rows in members.items()) + "\n}\n"


def random_texts(seed):
    """Random texts, each longer than the one before."""
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, 2 + 48 * at // PROMPTS)) for at in range(PROMPTS)]


def vectors(model, ids):
    return [numbers(model.vector(list)) for list in ids]


def main():
    HERE.mkdir(exist_ok=True)
    for seed, (name, (arch, types, options)) in enumerate(EMBEDDERS.items(), 100):
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        path = HERE / f"{name}.gguf"
        EmbedderMaker(path, arch, types, seed, **options).make()
        model = Embedder(path)
        texts = TEXTS + random_texts(seed)
        ids = [encode(text, model.fields["tokenizer.ggml.tokens"]) for text in texts]
        path.with_suffix(".json").write_text(listed({"texts": texts, "ids": ids, "vectors": vectors(model, ids)}))
        print(f"{name}: {path.stat().st_size} bytes")
    if not sys.argv[1:]:
        arch, types, options = LAST_TOKEN
        Maker(HERE / "qwen3-last.gguf", arch, types, 99, **options).make()
        paths = [file(name) for name in LANGUAGE_MODELS] + [HERE / "qwen3-last.gguf"]
        lines = []
        for seed, path in enumerate(paths):
            model = Embedder(path)
            ids = prompts(model.vocabulary, PROMPTS, seed)
            lines.append(f'"{path.stem}": {json.dumps({"ids": ids, "vectors": vectors(model, ids)})}')
        (HERE / "language_models.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
