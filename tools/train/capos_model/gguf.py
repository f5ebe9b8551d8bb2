"""Model files: the metadata of a GGUF file, version 3."""

import struct

_UINT32, _INT32, _BOOL, _STRING, _ARRAY = 4, 5, 7, 8, 9
_ALIGNMENT = 32


def _string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value):
    """Type and bytes of a value: truth, a number, a text, or a list of numbers or texts."""
    if isinstance(value, bool):
        return _BOOL, struct.pack("<?", value)
    if isinstance(value, int):
        return _UINT32, struct.pack("<I", value)
    if isinstance(value, str):
        return _STRING, _string(value)
    texts = value and isinstance(value[0], str)
    items = [_string(item) if texts else struct.pack("<i", item) for item in value]
    head = struct.pack("<IQ", _STRING if texts else _INT32, len(items))
    return _ARRAY, head + b"".join(items)


def metadata(values):
    """A file that has these keys and no tensors."""
    parts = [b"GGUF", struct.pack("<IQQ", 3, 0, len(values))]
    for key, value in values.items():
        kind, data = _value(value)
        parts += [_string(key), struct.pack("<I", kind), data]
    data = b"".join(parts)
    return data + bytes(-len(data) % _ALIGNMENT)
