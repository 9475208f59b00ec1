"""The one encoding of everything that crosses a party's wall.

A *record* is a frozen dataclass registered under a name: queries, terms, messages, keys. It is
written as a canonical byte string (one value, one encoding), so that digests can bind messages
to each other, and read back by a strict reader: unknown names, missing or surplus fields, fields
of another type, trailing bytes and non-canonical forms are refused. Nothing is executed and no
code travels; ``pickle`` is never involved.

Values: ``None``, ``bool``, ``int`` of any size, finite or infinite ``float``, ``str``, ``bytes``,
``Fraction``, ``tuple``, arrays of a few fixed-width types, and records.
"""

import hashlib
import struct
import types
import typing
from dataclasses import fields, is_dataclass
from fractions import Fraction
from numbers import Integral
from typing import Any, TypeVar

import numpy as np

from sklearn_fedpriv.exceptions import ProtocolError

VERSION = 1
_MAGIC = b"sklearn_fedpriv"
_DTYPES = ("|b1", "|u1", "|i1", "<i2", "<i4", "<i8", "<u4", "<u8", "<f8")
_MAX_DEPTH = 32
_RECORDS: dict[str, type] = {}

R = TypeVar("R", bound=type)


def record(cls: R) -> R:
    """Register a frozen dataclass under its class name."""
    if not is_dataclass(cls):
        raise TypeError(f"{cls.__name__} must be a dataclass to be a record.")
    if _RECORDS.setdefault(cls.__name__, cls) is not cls:
        raise TypeError(f"A record named {cls.__name__!r} is registered already.")
    return cls


def to_bytes(value: Any) -> bytes:
    """Canonical encoding of ``value``, with the format's version in front."""
    return _MAGIC + bytes([VERSION]) + b"".join(_encode(value))


def from_bytes(data: bytes, kind: type | None = None) -> Any:
    """Read one value; with ``kind``, refuse a record of any other class."""
    start = len(_MAGIC) + 1
    if data[: len(_MAGIC)] != _MAGIC:
        raise ProtocolError("These bytes are no sklearn_fedpriv message.")
    if len(data) <= start or data[start - 1] != VERSION:
        found = data[start - 1] if len(data) >= start else "none"
        raise ProtocolError(f"Message format {VERSION} is understood here; got {found}.")
    value, end = _decode(memoryview(data), start, 0)
    if end != len(data):
        raise ProtocolError(f"{len(data) - end} bytes follow the end of the message.")
    if to_bytes(value) != data:
        raise ProtocolError("The message is not in canonical form.")
    if kind is not None and not isinstance(value, kind):
        raise ProtocolError(f"Expected a {kind.__name__}; got a {type(value).__name__}.")
    return value


def digest(value: Any) -> bytes:
    """SHA-256 of the canonical encoding, 32 bytes."""
    return hashlib.sha256(to_bytes(value)).digest()


def _encode(value: Any) -> list[bytes]:
    if value is None:
        return [b"N"]
    if isinstance(value, bool):
        return [b"T" if value else b"F"]
    if isinstance(value, Integral):  # whole numbers of numpy become plain ones
        value = int(value)
        return [b"I", *_sized(value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))]
    if isinstance(value, float):
        if value != value:
            raise ValueError("NaN cannot be sent.")
        return [b"D", struct.pack(">d", value)]
    if isinstance(value, str):
        return [b"S", *_sized(value.encode())]
    if isinstance(value, bytes):
        return [b"B", *_sized(value)]
    if isinstance(value, Fraction):
        return [b"Q", *_encode(value.numerator), *_encode(value.denominator)]
    if isinstance(value, tuple):
        return [b"L", _length(len(value)), *(part for item in value for part in _encode(item))]
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"), copy=False)
        if array.dtype.str not in _DTYPES:
            raise TypeError(f"Arrays of type {value.dtype} cannot be sent.")
        head = _encode(array.dtype.str) + _encode(tuple(int(n) for n in value.shape))
        return [b"A", *head, *_sized(array.tobytes())]
    if is_dataclass(value) and type(value) is _RECORDS.get(type(value).__name__):
        parts = [b"R", *_encode(type(value).__name__)]
        for field in fields(value):
            parts += _encode(getattr(value, field.name))
        return parts
    raise TypeError(f"A {type(value).__name__} cannot be sent.")


def _length(n: int) -> bytes:
    return n.to_bytes(8, "big")


def _sized(data: bytes) -> tuple[bytes, bytes]:
    return _length(len(data)), data


def _take(data: memoryview, at: int, n: int) -> tuple[bytes, int]:
    if at + n > len(data):
        raise ProtocolError("The message ends too early.")
    return bytes(data[at : at + n]), at + n


def _take_sized(data: memoryview, at: int) -> tuple[bytes, int]:
    head, at = _take(data, at, 8)
    return _take(data, at, int.from_bytes(head, "big"))


def _decode(data: memoryview, at: int, depth: int) -> tuple[Any, int]:
    if depth > _MAX_DEPTH:
        raise ProtocolError("The message is nested too deeply.")
    tag, at = _take(data, at, 1)
    if tag in b"NTF":
        return {b"N": None, b"T": True, b"F": False}[tag], at
    if tag == b"D":
        raw, at = _take(data, at, 8)
        number = struct.unpack(">d", raw)[0]
        if number != number:
            raise ProtocolError("A number in the message is NaN.")
        return number, at
    if tag in b"ISB":
        raw, at = _take_sized(data, at)
        if tag == b"I":
            return int.from_bytes(raw, "big", signed=True), at
        try:
            return (raw.decode() if tag == b"S" else raw), at
        except UnicodeDecodeError as error:
            raise ProtocolError("A text in the message is not UTF-8.") from error
    if tag == b"Q":
        numerator, at = _decode(data, at, depth + 1)
        denominator, at = _decode(data, at, depth + 1)
        if type(numerator) is not int or type(denominator) is not int or denominator < 1:
            raise ProtocolError("A fraction in the message is malformed.")
        return Fraction(numerator, denominator), at
    if tag == b"L":
        head, at = _take(data, at, 8)
        items = []
        for _ in range(int.from_bytes(head, "big")):
            item, at = _decode(data, at, depth + 1)
            items.append(item)
        return tuple(items), at
    if tag == b"A":
        dtype, at = _decode(data, at, depth + 1)
        shape, at = _decode(data, at, depth + 1)
        raw, at = _take_sized(data, at)
        return _array(dtype, shape, raw), at
    if tag == b"R":
        name, at = _decode(data, at, depth + 1)
        cls = _RECORDS.get(name) if isinstance(name, str) else None
        if cls is None:
            raise ProtocolError(f"Unknown kind of message: {name!r}.")
        values = {}
        hints = typing.get_type_hints(cls)
        for field in fields(cls):
            value, at = _decode(data, at, depth + 1)
            if not _matches(value, hints[field.name]):
                raise ProtocolError(
                    f"{name}.{field.name} has the wrong type: {type(value).__name__}."
                )
            values[field.name] = value
        try:
            return cls(**values), at
        except (TypeError, ValueError, ArithmeticError, MemoryError) as error:
            raise ProtocolError(f"{name} is malformed: {error}") from error
    raise ProtocolError(f"Unknown tag {tag!r} in the message.")


def _array(dtype: Any, shape: Any, raw: bytes) -> np.ndarray:
    sound = dtype in _DTYPES and isinstance(shape, tuple)
    if not (sound and all(type(n) is int and n >= 0 for n in shape)):
        raise ProtocolError("An array in the message is malformed.")
    size = 1
    for n in shape:
        size *= n
    if size * np.dtype(dtype).itemsize != len(raw) or max(shape, default=0) > max(size, 2**16):
        raise ProtocolError("An array in the message has the wrong length.")
    array = np.frombuffer(raw, dtype=dtype).reshape(shape)
    if dtype == "|b1" and (array.view(np.uint8) > 1).any():
        raise ProtocolError("An array of the message holds a bool that is neither 0 nor 1.")
    return array


def _matches(value: Any, hint: Any) -> bool:
    """Whether ``value`` is of the annotated type; only the forms that records use."""
    if hint is Any:
        return True
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_matches(value, arg) for arg in args)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(args) == 2 and args[1] is Ellipsis:
            return all(_matches(item, args[0]) for item in value)
        return len(value) == len(args) and all(map(_matches, value, args))
    if hint in (int, float, bool, str, bytes, tuple):
        return type(value) is hint
    if hint is None or hint is type(None):
        return value is None
    return isinstance(value, origin or hint)
