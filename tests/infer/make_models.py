"""Makes the small models with random weights in models/, and what the reference computes with them.

    python3 -m venv venv && venv/bin/pip install gguf numpy
    venv/bin/python tests/infer/make_models.py [NAME …]
"""

import json
import pathlib
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGUFWriter
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize
from make_blocks import SCALES, random_blocks
from reference import Model

HERE = pathlib.Path(__file__).parent / "models"
PROMPT = [3, 1, 4, 15, 9, 26, 5, 35, 8, 9, 7, 9, 3, 23, 8, 46, 2, 6, 43, 38, 32]
GREEDY = 8
# How many other prompts there are: distances from the reference mean something only when there are several.
MORE = 15
# The value of the minima's scales, in scales, so that as many weights are below zero as above.
MINIMA = {Type.Q2_K: 1.5, Type.Q4_K: 7.5, Type.Q5_K: 15.5}


class Maker:
    """A model file with random weights. Shapes are tiny but nothing of them is equal by chance."""

    def __init__(self, path, arch, types, seed, **options):
        self.path = path
        self.rng = np.random.default_rng(seed)
        self.types = types
        self.taken = 0
        self.options = options
        self.writer = GGUFWriter(self.path, arch)
        self.arch = arch

    def matrix(self, name, *shape, scale=1.0, quiet=0):
        # The spread keeps the values that pass through the layers about as large as they came.
        values = self.rng.standard_normal(shape).astype(np.float32) * np.float32(scale / shape[-1] ** 0.5)
        values[:quiet] *= np.float32(0.2)
        kind = self.types[self.taken % len(self.types)]
        self.taken += 1
        if kind in (Type.F32, Type.F16):
            self.writer.add_tensor(name, values.astype(np.float32 if kind == Type.F32 else np.float16))
        elif kind in BLOCKS:
            self.writer.add_tensor(name, blocks(self.rng, kind, shape, scale), raw_dtype=kind)
        else:
            self.writer.add_tensor(name, quantize(values, kind), raw_dtype=kind)

    def vector(self, name, size, around=1.0, spread=0.2):
        values = around + spread * self.rng.standard_normal(size)
        self.writer.add_tensor(name, values.astype(np.float32))

    def make(self):
        o = {"width": 32, "heads": 4, "kv_heads": 2, "inside": 48, "layers": 2, "vocabulary": 48, **self.options}
        w, arch, width = self.writer, self.arch, o["width"]
        size = o.get("head_size", width // o["heads"])
        w.add_name(self.path.stem)
        w.add_context_length(o.get("context", 128))
        w.add_embedding_length(width)
        w.add_block_count(o["layers"])
        w.add_head_count(o["heads"])
        w.add_head_count_kv(o["kv_heads"])
        w.add_layer_norm_rms_eps(1e-5)
        w.add_vocab_size(o["vocabulary"])
        if "words" not in o:
            w.add_tokenizer_model("no_vocab")
        if "head_size" in o:
            w.add_key_length(size)
            w.add_value_length(size)
        for key, value in o.get("entries", {}).items():
            (w.add_float32 if isinstance(value, float) else w.add_string if isinstance(value, str) else w.add_uint32)(
                f"{arch}.{key}", value
            )
        if "experts" in o:
            w.add_expert_count(o["experts"])
            w.add_expert_used_count(2)
            w.add_expert_feed_forward_length(o["inside"])
        else:
            w.add_feed_forward_length(o["inside"])
        if "words" in o:
            self.vocabulary(o["words"])
        # Bytes are hardly ever likely, so that the output is readable.
        quiet = o["vocabulary"] - len(o["words"]) if "words" in o else 0
        self.matrix("token_embd.weight", o["vocabulary"], width, scale=width**0.5, quiet=quiet)
        if not o.get("tied"):
            self.matrix("output.weight", o["vocabulary"], width, scale=3, quiet=quiet)
        self.vector("output_norm.weight", width)
        for name, values in o.get("vectors", {}).items():
            w.add_tensor(name, np.array(values, dtype=np.float32))
        queries, keys = o["heads"] * size, o["kv_heads"] * size
        for layer in range(o["layers"]):
            at = f"blk.{layer}."
            self.vector(f"{at}attn_norm.weight", width)
            self.vector(f"{at}ffn_norm.weight", width)
            if o.get("fused"):
                self.matrix(f"{at}attn_qkv.weight", queries + 2 * keys, width)
                self.matrix(f"{at}ffn_up.weight", 2 * o["inside"], width)
            else:
                for name, rows in (("q", queries), ("k", keys), ("v", keys)):
                    self.matrix(f"{at}attn_{name}.weight", rows, width, scale=1.5)
                    if o.get("biases"):
                        self.vector(f"{at}attn_{name}.bias", rows, around=0)
            self.matrix(f"{at}attn_output.weight", width, queries)
            if o.get("head_norms"):
                self.vector(f"{at}attn_q_norm.weight", size)
                self.vector(f"{at}attn_k_norm.weight", size)
            if o.get("post_norms"):
                self.vector(f"{at}post_attention_norm.weight", width)
                self.vector(f"{at}post_ffw_norm.weight", width)
            if "experts" in o:
                self.matrix(f"{at}ffn_gate_inp.weight", o["experts"], width, scale=2)
                self.matrix(f"{at}ffn_gate_exps.weight", o["experts"], o["inside"], width)
                self.matrix(f"{at}ffn_up_exps.weight", o["experts"], o["inside"], width)
                self.matrix(f"{at}ffn_down_exps.weight", o["experts"], width, o["inside"])
            else:
                if not o.get("fused"):
                    self.matrix(f"{at}ffn_gate.weight", o["inside"], width)
                    self.matrix(f"{at}ffn_up.weight", o["inside"], width)
                self.matrix(f"{at}ffn_down.weight", width, o["inside"])
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()

    def vocabulary(self, words):
        """A tokenizer of single bytes and these words, and a chat template."""
        w = self.writer
        bytes_and_words = [f"<0x{byte:02X}>" for byte in range(256)] + words
        w.add_tokenizer_model("llama")
        w.add_token_list(["<unk>", "<s>", "</s>"] + bytes_and_words)
        w.add_token_scores([0.0] * 259 + [float(len(word)) for word in words])
        w.add_token_types([2, 3, 3] + [6] * 256 + [1] * len(words))
        w.add_bos_token_id(1)
        w.add_eos_token_id(2)
        w.add_unk_token_id(0)
        w.add_add_bos_token(True)
        w.add_chat_template(CHAT)
        w.add_license("CC0-1.0")


def blocks(rng, kind, shape, scale):
    """Random blocks of a type: any bits, under scales that give the weights the spread that they should have."""
    data = random_blocks(kind, int(np.prod(shape)) // GGML_QUANT_SIZES[kind][0], rng)
    # Signs alternate, since quants of some types have more to one side than to the other.
    scales = (0.5 + rng.random(len(data))) * np.where(np.arange(len(data)) % 2, 1, -1)
    first, *minima = SCALES[kind]

    def write(scales):
        for place, share in [(first, 1), *((place, MINIMA[kind]) for place in minima)]:
            data[:, place : place + 2] = (scales * share).astype(np.float16).view(np.uint8).reshape(-1, 2)

    write(scales)
    write(scales * scale / shape[-1] ** 0.5 / dequantize(data, kind).std())
    return data.reshape(*shape[:-1], -1)


CHAT = (
    "{% if tools %}{% for tool in tools %}<tool_call>{{ tool.function.name }}</tool_call>\n{% endfor %}{% endif %}"
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
WORDS = "water the plants on Monday and feed a cat before you go home while it rains or snows in May".split()

F32, F16, BF16, Q8_0 = [Type.F32], [Type.F16], [Type.BF16], [Type.Q8_0]
YARN = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 32,
    "rope.freq_base": 1000.0,
}
# Pairs between fast and slow ones, and queries that grow every eight tokens.
MINISTRAL = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 8,
    "rope.scaling.yarn_beta_fast": 1.5,
    "rope.scaling.yarn_beta_slow": 0.01,
    "rope.scaling.yarn_log_multiplier": 0.5,
    "attention.temperature_scale": 0.3,
    "rope.freq_base": 1000.0,
}
WIDE = {"width": 64, "inside": 96}
# Blocks of K-quants have 256 values.
WIDEST = {"width": 256, "inside": 256, "kv_heads": 1, "layers": 1}
# Types without a quantiser here: their blocks are random bits.
BLOCKS = [Type.Q2_K, Type.Q3_K, Type.Q4_K, Type.Q5_K, Type.Q6_K, Type.IQ4_NL, Type.IQ4_XS]
# Long and short factors; a context of more than 64 tokens takes the long ones.
PHI = {
    "fused": True,
    "kv_heads": 4,
    "entries": {"rope.scaling.original_context_length": 64, "rope.scaling.attn_factor": 1.2},
    "vectors": {
        "rope_factors_long.weight": [1, 1.5, 4, 13],
        "rope_factors_short.weight": [1, 1.1, 1.3, 1.6],
    },
}
MODELS = {
    "llama-f32": ("llama", F32, {"entries": {"rope.dimension_count": 8}}),
    "llama-f16": ("llama", F16, {}),
    "llama-bf16": ("llama", BF16, {}),
    "llama-q8_0": ("llama", Q8_0, WIDE),
    "llama-mixed": ("llama", [Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0], WIDE),
    "llama-tied": ("llama", F16, {"tied": True}),
    "llama-factors": ("llama", F16, {"vectors": {"rope_freqs.weight": [1, 1.5, 4, 8]}}),
    "llama-linear": ("llama", F16, {"entries": {"rope.scaling.type": "linear", "rope.scaling.factor": 2.0}}),
    "llama-yarn": ("llama", F16, {"entries": YARN}),
    "qwen2": ("qwen2", F16, {"biases": True, "tied": True, "entries": {"rope.freq_base": 1e6}}),
    "qwen3": ("qwen3", F16, {"head_norms": True, "head_size": 12}),
    "qwen3moe": ("qwen3moe", F16, {"head_norms": True, "head_size": 12, "experts": 6, "inside": 24}),
    "phi3": ("phi3", F16, PHI),
    "gemma2": (
        "gemma2",
        F16,
        {
            "post_norms": True,
            "tied": True,
            "head_size": 16,
            "entries": {
                "attention.sliding_window": 7,
                "attn_logit_softcapping": 5.0,
                "final_logit_softcapping": 12.0,
            },
        },
    ),
    "gemma3": (
        "gemma3",
        F16,
        {
            "post_norms": True,
            "head_norms": True,
            "tied": True,
            "width": 24,
            "inside": 32,
            "layers": 7,
            "entries": {
                "attention.sliding_window": 7,
                "rope.freq_base": 1e6,
                "rope.scaling.type": "linear",
                "rope.scaling.factor": 8.0,
            },
        },
    ),
    "mistral3": ("mistral3", F16, {"entries": MINISTRAL}),
    "talking": (
        "llama",
        Q8_0,
        {**WIDE, "seed": 15, "context": 4096, "words": ["▁" + word for word in WORDS], "vocabulary": 259 + len(WORDS)},
    ),
}
for kind in (Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.IQ4_NL):
    MODELS[f"llama-{kind.name.lower()}"] = ("llama", [kind], WIDE)
for kind in (Type.Q2_K, Type.Q3_K, Type.Q4_K, Type.Q5_K, Type.Q6_K, Type.IQ4_XS):
    MODELS[f"llama-{kind.name.lower()}"] = ("llama", [kind], WIDEST)
# Entries that llama.cpp does not read in files of this architecture.
MODELS["phi3-window"] = ("phi3", F16, {**PHI, "entries": {**PHI["entries"], "attention.sliding_window": 9}})
# Which folder a model's file is in; those that no folder names lie in models/ itself.
FOLDERS = {
    "architectures": ["gemma2", "gemma3", "mistral3", "phi3", "phi3-window", "qwen2", "qwen3", "qwen3moe"],
    "floats": ["llama-f32", "llama-f16", "llama-bf16"],
    "k-quants": ["llama-q2_k", "llama-q3_k", "llama-q4_k", "llama-q5_k", "llama-q6_k", "llama-iq4_xs"],
    "llama": ["llama-tied", "llama-factors", "llama-linear", "llama-yarn"],
    "quants": ["llama-q4_0", "llama-q4_1", "llama-q5_0", "llama-q5_1", "llama-q8_0", "llama-iq4_nl", "llama-mixed"],
}


def file(name):
    """The path of a model's file."""
    folder = next((folder for folder, names in FOLDERS.items() if name in names), ".")
    return HERE / folder / f"{name}.gguf"


def prompts(vocabulary, count, seed=0):
    """Random prompts, each longer than the one before."""
    rng = np.random.default_rng(seed)
    return [[int(id) for id in rng.integers(0, vocabulary, 2 + 40 * at // count)] for at in range(count)]


def expected(model, ids, count):
    """The reference's results after a prompt."""
    logits = model.logits(ids)[-1]
    greedy, ahead = model.greedy(ids, count)
    return {
        "ids": ids,
        "logits": [float(f"{value:.8g}") for value in logits],
        "greedy": greedy,
        "ahead": [float(f"{value:.8g}") for value in ahead],
    }


def main():
    for seed, (name, (arch, types, options)) in enumerate(MODELS.items()):
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        path = file(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        Maker(path, arch, types, **{"seed": seed, **options}).make()
        model = Model(path)
        first, *more = [expected(model, ids, GREEDY) for ids in [PROMPT, *prompts(model.vocabulary, MORE)]]
        # A line for each list.
        lines = [f'"{key}": {json.dumps(value)}' for key, value in first.items()]
        others = ",\n".join(json.dumps(prompt) for prompt in more)
        path.with_suffix(".json").write_text("{\n" + ",\n".join(lines) + f',\n"more": [\n{others}\n]\n}}\n')
        print(f"{name}: {path.stat().st_size} bytes, logits to {max(first['logits']):.3f}")


if __name__ == "__main__":
    main()
