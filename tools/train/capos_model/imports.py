"""From a model file back to a network: what `export` wrote, to the precision of Q8_0."""

import math
import struct

import torch

from . import export, gguf
from .model import Network, Shape

# Sizes of a network, and the keys that a file has for them behind its architecture.
_SIZES = {
    "vocabulary": "vocab_size",
    "width": "embedding_length",
    "layers": "block_count",
    "inner": "feed_forward_length",
    "heads": "attention.head_count",
    "kv_heads": "attention.head_count_kv",
    "head": "attention.key_length",
}
_REALS = {"rope_base": "rope.freq_base", "norm_epsilon": "attention.layer_norm_rms_epsilon"}
# The architectures, and whether queries and keys are normed in them.
_NORMED = {"qwen3": True, "llama": False}
_LARGEST = 1 << 20
# Entries that describe the file, which are unrelated to the training method.
_FREE = {"capos.asked_with", "capos.not_names", "capos.function_words", "tokenizer.chat_template"}
_FREE |= {f"general.{key}" for key in ("name", "license", "description", "base_model.count")}
_FREE |= {f"general.base_model.0.{key}" for key in ("name", "organization", "version")}


def numbers(tensor):
    """The numbers of a tensor, in 32 bits."""
    data = torch.frombuffer(bytearray(tensor.data), dtype=torch.uint8)
    if tensor.kind == gguf.F32:
        return data.view(torch.float32).view(*reversed(tensor.sizes))
    if tensor.kind == gguf.Q4_1:
        blocks = data.view(-1, 20)
        scales, least = (blocks[:, at : at + 2].contiguous().view(torch.float16).float() for at in (0, 2))
        whole = torch.cat((blocks[:, 4:] & 15, blocks[:, 4:] >> 4), 1).float()
        return (whole * scales + least).view(*reversed(tensor.sizes))
    blocks = data.view(-1, 34)
    scales = blocks[:, :2].contiguous().view(torch.float16).float()
    return (blocks[:, 2:].contiguous().view(torch.int8).float() * scales).view(*reversed(tensor.sizes))


def network(data, tokenizer, template):
    """The network of a model file's bytes; a ValueError says why a file is not one that `export` made."""
    values, tensors = gguf.read(data)
    kind = values.get("general.architecture")
    if kind not in _NORMED:
        raise ValueError(f"the file's general.architecture is {kind}, and not {' or '.join(_NORMED)}")
    sizes = {name: f"{kind}.{key}" for name, key in _SIZES.items()}
    for key in sizes.values():
        # True and false are not numbers, although Python treats them as such.
        if type(values.get(key)) is not int or not 0 < values[key] <= _LARGEST:
            raise ValueError(f"the file does not say its {key}, from 1 to {_LARGEST}")
    reals = {name: values.get(f"{kind}.{key}") for name, key in _REALS.items()}
    for name, value in reals.items():
        if type(value) is not float or not 0.0 < value < math.inf:
            raise ValueError(f"the file does not say its {kind}.{_REALS[name]}, more than 0")
    shape = Shape(**{name: values[key] for name, key in sizes.items()}, **{name: _written(value) for name, value in reals.items()}, normed=_NORMED[kind])
    if shape.heads % shape.kv_heads:
        raise ValueError(f"{shape.heads} heads cannot share those of {shape.kv_heads} keys and values")
    known = export.about(shape, {}) | tokenizer.metadata(template)
    for key in values:
        if key not in known and key not in _FREE:
            raise ValueError(f"{key} is no key of this project's files: training does not know it")
    for key, value in known.items():
        if key not in _FREE and values.get(key) != _stored(value):
            raise ValueError(f"{key} is not what this project's files have: training could not go on from it")
    # Before any room is made for it: the sizes are the file's.
    if len(tensors) != 2 + (11 if shape.normed else 9) * shape.layers:
        raise ValueError(f"the file has {len(tensors)} tensors, which are not those of {shape.layers} layers")
    with torch.device("meta"):
        wanted = {name: export.form(part) for name, part in export.parts(Network(shape)).items()}
    for name, form in wanted.items():
        if name not in tensors or (tensors[name].sizes, tensors[name].kind) != form:
            raise ValueError(f"tensor {name} is not there in the sizes and the type that {shape} has")
    found = Network(shape)
    with torch.no_grad():
        for name, part in export.parts(found).items():
            weights = numbers(tensors[name])
            if not weights.isfinite().all():
                raise ValueError(f"tensor {name} has weights that are no numbers")
            part.copy_(export.unturned(shape, name, weights))
    return found


def _stored(value):
    """A value as it comes back from a file: numbers with a point have 32 bits there."""
    return struct.unpack("<f", struct.pack("<f", value))[0] if isinstance(value, float) else value


def _written(value):
    """The short number that a number of 32 bits stands for."""
    return float(f"{value:.7g}")
