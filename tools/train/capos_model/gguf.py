"""Model files: GGUF, version 3."""

import math
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


# Types of tensors, and the size of a block of each: how many numbers, in how many bytes.
F32, Q4_1, Q8_0 = 0, 3, 8
_BLOCKS = {F32: (1, 4), Q4_1: (32, 20), Q8_0: (32, 34)}


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


def asked_with(words):
    """The words with which people ask for tools, as a file lists them: a text for each tool, its name first."""
    return [" ".join((tool, *those)) for tool, those in words.items()]


def file(values, tensors=()):
    """A file of these keys and tensors."""
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(values)), keys(values)]
    at = 0
    for tensor in tensors:
        count = len(tensor.sizes)
        parts += [_string(tensor.name), struct.pack(f"<I{count}QIQ", count, *tensor.sizes, tensor.kind, at)]
        at += len(_padded(tensor.data))
    return _padded(b"".join(parts)) + b"".join(_padded(tensor.data) for tensor in tensors)


class _Reader:
    """Takes one thing after another from the bytes of a file."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def bytes(self, count):
        if count > len(self.data) - self.at:
            raise ValueError("the file ends too early")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form):
        return struct.unpack("<" + form, self.bytes(struct.calcsize("<" + form)))[0]

    def text(self):
        return self.bytes(self.number("Q")).decode()

    def value(self, kind=None):
        """A value as `_value` writes it."""
        kind = self.number("I") if kind is None else kind
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            of, count = self.number("I"), self.number("Q")
            if of not in (_STRING, _INT32):
                raise ValueError(f"a list of values of type {of}")
            return [self.value(of) for _ in range(count)]
        forms = {_UINT32: "I", _INT32: "i", _FLOAT32: "f", _BOOL: "?"}
        if kind not in forms:
            raise ValueError(f"a value of type {kind}")
        return self.number(forms[kind])


def read(data):
    """Keys with their values, and tensors by their names, of a file such as `file` makes; a ValueError says what is
    not so."""
    reader = _Reader(data)
    if reader.bytes(4) != b"GGUF" or reader.number("I") != 3:
        raise ValueError("it is no GGUF file of version 3")
    tensors, keys = reader.number("Q"), reader.number("Q")
    values = _named((reader.text(), reader.value()) for _ in range(keys))
    places = [_place(reader) for _ in range(tensors)]
    start = -(-reader.at // _ALIGNMENT) * _ALIGNMENT
    found, end = [], 0
    for name, sizes, kind, at in places:
        # So no byte is taken twice, however many tensors there are.
        if at < end:
            raise ValueError(f"tensor {name} begins before the one before it ends")
        if kind not in _BLOCKS:
            raise ValueError(f"tensor {name} is of type {kind}, which is neither F32, Q4_1 nor Q8_0")
        numbers, size = _BLOCKS[kind]
        count, rest = divmod(math.prod(sizes), numbers)
        reader.at = start + at
        if rest or reader.at > len(data):
            raise ValueError(f"tensor {name} is not whole")
        found.append((name, Tensor(name, sizes, kind, reader.bytes(count * size))))
        end = at + count * size
    return values, _named(found)


def _named(pairs):
    """Things by their names, each of which there is once."""
    found = {}
    for name, thing in pairs:
        if name in found:
            raise ValueError(f"{name} is there twice")
        found[name] = thing
    return found


def _place(reader):
    """A tensor's name, sizes and type, and where its bytes are."""
    name, count = reader.text(), reader.number("I")
    if count > 4:
        raise ValueError(f"tensor {name} has {count} sizes, which are more than 4")
    return name, tuple(reader.number("Q") for _ in range(count)), reader.number("I"), reader.number("Q")
