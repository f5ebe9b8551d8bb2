"""Makes blocks.json: random blocks of every quantised type, and the values that they stand for.

    venv/bin/python tests/infer/make_blocks.py
"""

import json
import pathlib

import numpy as np
from gguf import GGML_QUANT_SIZES
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize

VALUES = 512

# Where in a block the scales of 16 bits lie.
SCALES = {
    Type.Q4_0: [0],
    Type.Q4_1: [0, 2],
    Type.Q5_0: [0],
    Type.Q5_1: [0, 2],
    Type.Q8_0: [0],
    Type.Q2_K: [80, 82],
    Type.Q3_K: [108],
    Type.Q4_K: [0, 2],
    Type.Q5_K: [0, 2],
    Type.Q6_K: [208],
    Type.IQ4_NL: [0],
    Type.IQ4_XS: [0],
}


def random_blocks(kind, count, rng, spread=1.0):
    """Blocks of any bits, with scales that are numbers."""
    values, size = GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for place in SCALES[kind]:
        scales = (spread * rng.standard_normal(count)).astype(np.float16)
        blocks[:, place : place + 2] = scales.view(np.uint8).reshape(count, 2)
    return blocks


def main():
    rng = np.random.default_rng(1)
    fixtures = {}
    for kind in SCALES:
        blocks = random_blocks(kind, VALUES // GGML_QUANT_SIZES[kind][0], rng)
        values = dequantize(blocks, kind).reshape(-1)
        fixtures[kind.name] = {"bytes": blocks.tobytes().hex(), "values": [float(f"{v:.8g}") for v in values]}
    path = pathlib.Path(__file__).parent / "blocks.json"
    lines = [f"{json.dumps(name)}: {json.dumps(fixture)}" for name, fixture in fixtures.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
