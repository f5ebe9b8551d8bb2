"""Model files with random weights, in the shapes and mixtures of types that people's small models have.

    python3 models.py DIR [NAME …]

What weights say does not change how long a product takes, so blocks are random bits under scales that keep numbers in
range. An existing file is left unchanged.
"""

import pathlib
import sys
from dataclasses import dataclass

import numpy as np
from gguf import GGML_QUANT_SIZES, GGUFWriter
from gguf import GGMLQuantizationType as Type

# Where the scales of a block of a type are: offsets of numbers of 16 bits.
SCALES = {
    Type.Q8_0: [0],
    Type.Q4_0: [0],
    Type.Q5_0: [0],
    Type.Q5_1: [0, 2],
    Type.Q4_K: [0, 2],
    Type.Q5_K: [0, 2],
    Type.Q6_K: [208],
}
# Quants are about this large, so that weights come out near the inverse root of the width.
SPREAD = {
    Type.Q8_0: 74,
    Type.Q4_0: 5,
    Type.Q5_0: 9,
    Type.Q5_1: 18,
    Type.Q4_K: 32 * 9,
    Type.Q5_K: 32 * 18,
    Type.Q6_K: 64 * 19,
}
# A type's replacement in rows that are not a multiple of 256 values, as in llama.cpp's quantiser.
NARROW = {Type.Q4_K: Type.Q5_0, Type.Q5_K: Type.Q5_1, Type.Q6_K: Type.Q8_0}


@dataclass(frozen=True)
class Shape:
    arch: str
    width: int
    layers: int
    heads: int
    kv_heads: int
    inside: int
    vocabulary: int
    biases: bool = False


LLAMA_15M = Shape("llama", 256, 8, 8, 4, 768, 32000)
SMOLLM2_135M = Shape("llama", 576, 30, 9, 3, 1536, 49152)
QWEN25_500M = Shape("qwen2", 896, 24, 14, 2, 4864, 151936, biases=True)
QWEN25_1500M = Shape("qwen2", 1536, 28, 12, 2, 8960, 151936, biases=True)

FILES = {
    "15m-q4_k_m": (LLAMA_15M, "Q4_K_M"),
    "15m-q8_0": (LLAMA_15M, "Q8_0"),
    "135m-q8_0": (SMOLLM2_135M, "Q8_0"),
    "135m-q4_k_m": (SMOLLM2_135M, "Q4_K_M"),
    "500m-q8_0": (QWEN25_500M, "Q8_0"),
    "500m-q4_k_m": (QWEN25_500M, "Q4_K_M"),
    "500m-q4_0": (QWEN25_500M, "Q4_0"),
    "500m-f16": (QWEN25_500M, "F16"),
    "1500m-q4_k_m": (QWEN25_1500M, "Q4_K_M"),
}


def kind_of(mixture, name, layer, layers, columns):
    """The type that a matrix has in a mixture, as llama.cpp's quantiser chooses it."""
    if mixture == "F16":
        return Type.F16
    if mixture == "Q8_0":
        return Type.Q8_0
    kind = Type.Q4_0 if mixture == "Q4_0" else Type.Q4_K
    # Models whose output is the embedding: it counts as the output.
    if name == "token_embd":
        kind = Type.Q6_K
    elif mixture == "Q4_K_M" and name in ("attn_v", "ffn_down"):
        eighth = layers // 8
        more = layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2
        kind = Type.Q6_K if more else kind
    return kind if columns % 256 == 0 else NARROW.get(kind, kind)


def blocks(rng, kind, rows, columns):
    """Random blocks of a type: a row of bytes for each row."""
    values, size = GGML_QUANT_SIZES[kind]
    data = rng.integers(0, 256, (rows, columns // values, size), dtype=np.uint8)
    scale = np.float16(1 / SPREAD[kind] / columns**0.5)
    for at in SCALES[kind]:
        data[:, :, at : at + 2] = np.frombuffer(scale.tobytes(), dtype=np.uint8)
    return data.reshape(rows, -1)


def make(path, shape, mixture):
    rng = np.random.default_rng(7)
    writer = GGUFWriter(path, shape.arch)
    writer.add_name(path.stem)
    writer.add_context_length(2048)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.inside)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(shape.width // shape.heads)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_tokenizer_model("no_vocab")

    def matrix(name, layer, rows, columns):
        kind = kind_of(mixture, name, layer, shape.layers, columns)
        prefix = "" if layer is None else f"blk.{layer}."
        if kind == Type.F16:
            values = rng.standard_normal((rows, columns), dtype=np.float32) / columns**0.5
            writer.add_tensor(f"{prefix}{name}.weight", values.astype(np.float16))
        else:
            writer.add_tensor(f"{prefix}{name}.weight", blocks(rng, kind, rows, columns), raw_dtype=kind)

    def vector(name, size, around):
        values = around + 0.1 * rng.standard_normal(size)
        writer.add_tensor(name, values.astype(np.float32))

    keys = shape.width // shape.heads * shape.kv_heads
    matrix("token_embd", None, shape.vocabulary, shape.width)
    vector("output_norm.weight", shape.width, 1.0)
    for layer in range(shape.layers):
        vector(f"blk.{layer}.attn_norm.weight", shape.width, 1.0)
        vector(f"blk.{layer}.ffn_norm.weight", shape.width, 1.0)
        for name, rows in (("attn_q", shape.width), ("attn_k", keys), ("attn_v", keys)):
            matrix(name, layer, rows, shape.width)
            if shape.biases:
                vector(f"blk.{layer}.{name}.bias", rows, 0.0)
        matrix("attn_output", layer, shape.width, shape.width)
        matrix("ffn_gate", layer, shape.inside, shape.width)
        matrix("ffn_up", layer, shape.inside, shape.width)
        matrix("ffn_down", layer, shape.width, shape.inside)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(arguments):
    folder = pathlib.Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, (shape, mixture) in FILES.items():
        path = folder / f"{name}.gguf"
        if (arguments[1:] and name not in arguments[1:]) or path.exists():
            continue
        # Under its name only when it is whole.
        partial = path.with_suffix(".partial")
        make(partial, shape, mixture)
        partial.rename(path)
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
