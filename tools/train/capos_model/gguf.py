"""Model files: GGUF, version 3."""

import struct
from dataclasses import dataclass

_UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
_ALIGNMENT = 32


def _string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value):
    """Type and bytes of a value: truth, a number, a text, or a list of whole numbers or texts."""
    if isinstance(value, bool):
        return _BOOL, struct.pack("<?", value)
    if isinstance(value, int):
        return _UINT32, struct.pack("<I", value)
    if isinstance(value, float):
        return _FLOAT32, struct.pack("<f", value)
    if isinstance(value, str):
        return _STRING, _string(value)
    texts = value and isinstance(value[0], str)
    items = [_string(item) if texts else struct.pack("<i", item) for item in value]
    head = struct.pack("<IQ", _STRING if texts else _INT32, len(items))
    return _ARRAY, head + b"".join(items)


# Types of tensors.
F32, Q8_0 = 0, 8


@dataclass(frozen=True)
class Tensor:
    """A tensor of a file: its name, its sizes from the innermost on, its type, and its bytes."""

    name: str
    sizes: tuple
    kind: int
    data: bytes


def _padded(data):
    return data + bytes(-len(data) % _ALIGNMENT)


def keys(values):
    """The bytes of keys and their values."""
    parts = []
    for key, value in values.items():
        kind, data = _value(value)
        parts += [_string(key), struct.pack("<I", kind), data]
    return b"".join(parts)


def file(values, tensors=()):
    """A file of these keys and tensors."""
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(values)), keys(values)]
    at = 0
    for tensor in tensors:
        count = len(tensor.sizes)
        parts += [_string(tensor.name), struct.pack(f"<I{count}QIQ", count, *tensor.sizes, tensor.kind, at)]
        at += len(_padded(tensor.data))
    return _padded(b"".join(parts)) + b"".join(_padded(tensor.data) for tensor in tensors)
