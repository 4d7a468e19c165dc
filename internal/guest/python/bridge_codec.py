"""Values and frames of the Toolroom bridge, for guests written in Python.

A frame is a 4-byte big-endian length and a CBOR array [kind, id, token, body];
values are the subset of CBOR (RFC 8949) that docs/bridge.md describes. Only
the standard library is used, and of it only what CPython for WASI has too.
"""

import struct
import sys

MAX_NESTING = 100
MAX_INTEGER = 1 << 16  # bytes
INFINITY = float("inf")
PLAIN = frozenset((int, float, str, bytes, dict, list, tuple))


class Handle:
    """A handle of bytes that are kept outside the program: an artifact, or a truncated result."""

    def __init__(self, handle, media_type="", size=0):
        self.handle = handle
        self.media_type = media_type
        self.size = size

    def __repr__(self):
        return f"Handle({self.handle!r}, {self.media_type!r}, {self.size})"


class ValueProblem(Exception):
    """A value cannot leave the program; the message says which part."""


def _head(out, major, n):
    if n < 24:
        out.append(major << 5 | n)
    elif n < 1 << 8:
        out += bytes((major << 5 | 24, n))
    elif n < 1 << 16:
        out += struct.pack(">BH", major << 5 | 25, n)
    elif n < 1 << 32:
        out += struct.pack(">BI", major << 5 | 26, n)
    else:
        out += struct.pack(">BQ", major << 5 | 27, n)


def encode(value, path="value"):
    out = bytearray()
    _encode(out, value, path, 0)
    return bytes(out)


def _encode(out, v, path, depth):
    if depth > MAX_NESTING:
        raise ValueProblem(f"{path if len(path) < 60 else path[:57] + '…'} nests deeper than {MAX_NESTING}, or holds itself")
    if v is None:
        out.append(0xF6)
    elif v is True:
        out.append(0xF5)
    elif v is False:
        out.append(0xF4)
    elif type(v) not in PLAIN and isinstance(v, _type("enum", "Enum")):
        _encode(out, v.value, path, depth + 1)
    elif isinstance(v, int):
        if v.bit_length() > 8 * MAX_INTEGER:
            raise ValueProblem(f"{path} is an integer of more than {MAX_INTEGER >> 10} KiB, which cannot leave the program: use a text instead")
        _encode_int(out, int(v))
    elif isinstance(v, float):
        if v != v or v in (INFINITY, -INFINITY):
            raise ValueProblem(f"{path} is {v}, which cannot leave the program: use None instead")
        out += struct.pack(">Bd", 0xFB, v)
    elif isinstance(v, str):
        try:
            raw = v.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueProblem(f"{path} contains half a surrogate pair, which is not valid text") from None
        _head(out, 3, len(raw))
        out += raw
    elif isinstance(v, (bytes, bytearray, memoryview)):
        raw = bytes(v)
        _head(out, 2, len(raw))
        out += raw
    elif isinstance(v, dict):
        _head(out, 5, len(v))
        for key, item in v.items():
            if not isinstance(key, str):
                raise ValueProblem(f"{path} has the key {key!r}, and keys must be text")
            _encode(out, key, path, depth + 1)
            _encode(out, item, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(v, (list, tuple, set, frozenset)):
        _head(out, 4, len(v))
        for i, item in enumerate(v):
            _encode(out, item, f"{path}[{i}]", depth + 1)
    elif isinstance(v, _type("datetime", "datetime")):
        if v.tzinfo is None:
            v = v.replace(tzinfo=sys.modules["datetime"].timezone.utc)
        out.append(0xC0)
        _encode(out, v.isoformat().replace("+00:00", "Z"), path, depth + 1)
    elif isinstance(v, (_type("datetime", "date"), _type("datetime", "time"))):
        _encode(out, v.isoformat(), path, depth + 1)
    elif isinstance(v, Handle):
        _head(out, 6, 39)
        _encode(out, {"handle": v.handle, "media_type": v.media_type, "size": v.size}, path, depth + 1)
    elif hasattr(type(v), "__dataclass_fields__"):
        _encode(out, {f.name: getattr(v, f.name) for f in sys.modules["dataclasses"].fields(v)}, path, depth + 1)
    elif callable(getattr(v, "tolist", None)) and type(v).__module__.partition(".")[0] == "numpy":
        _encode(out, v.tolist(), path, depth + 1)
    elif isinstance(v, _type("pathlib", "PurePath")):
        _encode(out, str(v), path, depth + 1)
    else:
        raise ValueProblem(
            f"{path} is a {type(v).__qualname__}, which cannot leave the program: "
            "make it numbers, text, bytes, date-times, lists and dicts"
        )


def _type(module, name):
    """Returns the named type, or () if its module was never loaded: then no value is of that type."""
    found = getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, type) else ()


def _encode_int(out, n):
    if 0 <= n < 1 << 64:
        _head(out, 0, n)
    elif -(1 << 64) <= n < 0:
        _head(out, 1, -1 - n)
    else:
        tag, magnitude = (2, n) if n >= 0 else (3, -1 - n)
        raw = magnitude.to_bytes((magnitude.bit_length() + 7) // 8, "big")
        _head(out, 6, tag)
        _head(out, 2, len(raw))
        out += raw


def decode(data):
    value, end = _decode(memoryview(data), 0)
    if end != len(data):
        raise ValueError("bytes after the value")
    return value


def _decode_head(data, pos):
    first = data[pos]
    major, info = first >> 5, first & 31
    if info < 24:
        return major, info, pos + 1
    if info > 27:
        raise ValueError(f"length 0x{first:02x} means nothing here")
    size = 1 << (info - 24)
    return major, int.from_bytes(data[pos + 1 : pos + 1 + size], "big"), pos + 1 + size


def _decode(data, pos):
    first = data[pos]
    if first >= 0xE0:
        return _decode_simple(data, pos)
    major, n, pos = _decode_head(data, pos)
    if major == 0:
        return n, pos
    if major == 1:
        return -1 - n, pos
    if major == 2:
        return bytes(data[pos : pos + n]), pos + n
    if major == 3:
        return str(data[pos : pos + n], "utf-8"), pos + n
    if major == 4:
        items = []
        for _ in range(n):
            item, pos = _decode(data, pos)
            items.append(item)
        return items, pos
    if major == 5:
        members = {}
        for _ in range(n):
            key, pos = _decode(data, pos)
            members[key], pos = _decode(data, pos)
        return members, pos
    content, pos = _decode(data, pos)
    if n == 0:
        import datetime

        return datetime.datetime.fromisoformat(_trim_fraction(content)), pos
    if n == 2:
        return int.from_bytes(content, "big"), pos
    if n == 3:
        return -1 - int.from_bytes(content, "big"), pos
    if n == 39:
        return Handle(**content), pos
    raise ValueError(f"tag {n} means nothing here")


def _trim_fraction(text):
    """Cuts the fraction to microseconds, the resolution of datetime; before Python 3.11 it accepted neither Z nor other numbers of digits."""
    text = text.replace("Z", "+00:00")
    head, dot, tail = text.partition(".")
    if not dot:
        return text
    digits = tail[: len(tail) - len(tail.lstrip("0123456789"))]
    return f"{head}.{digits[:6].ljust(6, '0')}{tail[len(digits):]}"


def _decode_simple(data, pos):
    first = data[pos]
    if first in (0xF4, 0xF5):
        return first == 0xF5, pos + 1
    if first in (0xF6, 0xF7):
        return None, pos + 1
    if first == 0xFB:
        return struct.unpack(">d", data[pos + 1 : pos + 9])[0], pos + 9
    raise ValueError(f"simple value 0x{first:02x} means nothing here")


# The largest frame of the bridge, without its head.
MAX_BODY = 16 * 1024 * 1024 - 4096


def fits(encoded):
    """Rejects values that are too large for a frame."""
    if len(encoded) > MAX_BODY:
        raise ValueProblem(f"the value is larger than the {MAX_BODY} bytes that cross the bridge at once: keep it as an artifact (artifacts.put) and give back the handle")
    return encoded


def encode_frame(kind, id, token, body):
    out = bytearray((0, 0, 0, 0, 0x84))
    _head(out, 0, kind)
    _head(out, 0, id)
    _head(out, 2, len(token))
    out += token
    _encode(out, body, "", -1)
    struct.pack_into(">I", out, 0, len(fits(out)) - 4)
    return bytes(out)
