"""The encoding is canonical, strict, and runs nothing."""

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_fedpriv._wire import VERSION, digest, from_bytes, record, to_bytes
from sklearn_fedpriv.exceptions import ProtocolError


@record
@dataclass(frozen=True)
class Sample:
    number: int
    names: tuple[str, ...]
    ratio: Fraction | float


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.fractions(),
    lambda inner: st.lists(inner, max_size=4).map(tuple),
    max_leaves=12,
)


@given(values)
def test_values_come_back_exactly(value):
    back = from_bytes(to_bytes(value))
    assert repr(back) == repr(value)


@pytest.mark.parametrize("dtype", ["bool", "u1", "i1", "i2", "i4", "i8", "u4", "u8", "f8", ">i8"])
def test_arrays_come_back_exactly_and_read_only(dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    back = from_bytes(to_bytes(array))
    assert np.array_equal(back, array) and back.shape == (2, 3)
    assert back.dtype == array.dtype.newbyteorder("<")
    with pytest.raises(ValueError, match="read-only"):
        back[0] = 0


def test_whole_numbers_of_numpy_travel_as_plain_ones():
    assert to_bytes((np.int64(5), np.uint8(7))) == to_bytes((5, 7))


def test_empty_arrays_with_huge_sides_are_refused():
    data = to_bytes(np.zeros((0, 7)))
    side = to_bytes(7)[16:]
    with pytest.raises(ProtocolError, match="wrong length"):
        from_bytes(data.replace(side, to_bytes(2**40)[16:]))


def test_a_bool_has_two_forms_only():
    data = to_bytes(np.array([True, False]))
    with pytest.raises(ProtocolError, match="neither 0 nor 1"):
        from_bytes(data[:-2] + b"\x02\x00")


def test_a_record_comes_back_as_its_class():
    sample = Sample(2**200, ("a", "b"), inf)
    assert from_bytes(to_bytes(sample), Sample) == sample
    assert digest(sample) == hashlib.sha256(to_bytes(sample)).digest()


def test_known_answer():
    """Written out by hand: a change here is a change of the wire format."""
    expected = (
        b"sklearn_fedpriv\x01"
        b"L" + bytes(7) + b"\x03"
        b"I" + bytes(7) + b"\x01\x05"
        b"S" + bytes(7) + b"\x02ab"
        b"A" + b"S" + bytes(7) + b"\x03<i2" + b"L" + bytes(7) + b"\x01"
        b"I" + bytes(7) + b"\x01\x02" + bytes(7) + b"\x04\x01\x00\x02\x00"
    )
    assert to_bytes((5, "ab", np.array([1, 2], dtype="i2"))) == expected


@pytest.mark.parametrize(
    "value", [float("nan"), np.float64, {"a": 1}, [1], np.array(["a"]), object(), 1j]
)
def test_what_has_no_form_is_refused(value):
    with pytest.raises((TypeError, ValueError)):
        to_bytes(value)


def _swap(data, old, new):
    assert old in data
    return data.replace(old, new, 1)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda data: data[:-1], "ends too early"),
        (lambda data: data + b"\x00", "1 bytes follow"),
        (lambda data: b"x" + data[1:], "no sklearn_fedpriv message"),
        (lambda data: _swap(data, bytes([VERSION]), b"\x02"), "format 1"),
        (lambda data: _swap(data, b"Sample", b"Simple"), "Unknown kind"),
        (lambda data: _swap(data, b"I" + bytes(7) + b"\x01\x05", b"T"), "wrong type: bool"),
        (
            lambda data: _swap(
                data, b"I" + bytes(7) + b"\x01\x05", b"I" + bytes(7) + b"\x02\x00\x05"
            ),
            "canonical",
        ),
        (lambda data: _swap(data, b"Sa", b"S\xff"), "not UTF-8|ends too early|Unknown"),
        (lambda data: data[:16] + b"L" + b"\xff" * 8, "ends too early"),
        (lambda data: data[:16] + (b"L" + bytes(7) + b"\x01") * 40 + b"N", "nested too deeply"),
        (lambda data: data[:16] + b"Z", "Unknown tag"),
        (lambda data: data[:16] + b"D" + b"\xff" * 8, "is NaN"),
        (lambda data: to_bytes(np.zeros((0, 7)))[:-16].replace(b"\x07", b"\x7f" * 1), "ends too"),
    ],
)
def test_a_spoilt_message_is_refused(spoil, message):
    data = to_bytes(Sample(5, ("a",), Fraction(1, 2)))
    with pytest.raises(ProtocolError, match=message):
        from_bytes(spoil(data), Sample)


def test_another_kind_is_refused():
    with pytest.raises(ProtocolError, match="Expected a Sample; got a int"):
        from_bytes(to_bytes(1), Sample)


@given(st.data())
def test_no_flipped_bit_goes_unnoticed(data):
    """A changed byte is refused, or read as another value; it never passes as the same one."""
    sample = Sample(12345, ("alpha", "beta"), Fraction(22, 7))
    encoded = bytearray(to_bytes(sample))
    bit = data.draw(st.integers(0, 8 * len(encoded) - 1))
    encoded[bit // 8] ^= 1 << (bit % 8)
    try:
        assert from_bytes(bytes(encoded), Sample) != sample
    except ProtocolError:
        pass


def test_a_name_is_registered_once():
    @dataclass(frozen=True)
    class Other:
        x: int

    Other.__name__ = "Sample"
    with pytest.raises(TypeError, match="registered already"):
        record(Other)
    with pytest.raises(TypeError, match="must be a dataclass"):
        record(object)
