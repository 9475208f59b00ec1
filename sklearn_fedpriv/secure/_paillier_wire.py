"""Numbers modulo N^2 in the payload of a message: the id of the key, then fixed widths."""

from collections.abc import Iterable

from gmpy2 import mpz

from sklearn_fedpriv.exceptions import ProtocolError
from sklearn_fedpriv.secure._paillier_arithmetic import shares_a_factor
from sklearn_fedpriv.secure._paillier_keys import KEY_ID_BYTES, PaillierPublicKey
from sklearn_fedpriv.secure._protocol import Opening, Protected


def numbers_to_payload(key: PaillierPublicKey, numbers: Iterable[mpz]) -> bytes:
    """Write numbers below N^2.

    Parameters
    ----------
    key : PaillierPublicKey
    numbers : iterable of mpz

    Returns
    -------
    bytes
    """
    return key.key_id + b"".join(number.to_bytes(key.number_bytes, "big") for number in numbers)


def payload_to_numbers(
    key: PaillierPublicKey, message: Protected | Opening, n_expected: int
) -> list[mpz]:
    """Read the numbers of a message: of this key, as many as expected, invertible modulo N^2.

    Parameters
    ----------
    key : PaillierPublicKey
    message : Protected or Opening
    n_expected : int

    Returns
    -------
    list of mpz

    Raises
    ------
    ProtocolError
        Names the release, the kind of message and its sender.
    """
    release, kind = message.binding.release, type(message).__name__
    what = f"Release {release}: {kind} of party {message.sender!r}"
    if message.payload[:KEY_ID_BYTES] != key.key_id:
        raise ProtocolError(
            f"{what} was not made with the key {key.key_id.hex()}. Give all parties and the "
            "server the files of one dealing."
        )
    step, data = key.number_bytes, message.payload[KEY_ID_BYTES:]
    if len(data) != n_expected * step:
        raise ProtocolError(
            f"{what} has {len(data)} bytes of numbers; {n_expected} numbers of {step} bytes "
            "were expected."
        )
    numbers = [mpz.from_bytes(data[at : at + step], "big") for at in range(0, len(data), step)]
    square = mpz(key.modulus) ** 2
    if not all(0 < number < square for number in numbers):
        raise ProtocolError(f"{what} holds a number outside (0, modulus^2).")
    if shares_a_factor(key, numbers):
        raise ProtocolError(f"{what} holds a number that shares a factor with the modulus.")
    return numbers
