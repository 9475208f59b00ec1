"""To and from the objects of ``phe`` (python-paillier), for those who already have such code.

Our ciphertexts are ordinary Paillier ciphertexts of packed plaintexts, so ``phe`` can add them,
and what ``phe`` encrypts under our modulus can be opened by our parties. ``phe`` is under the GPL;
it is imported when a function of this module is called, and nowhere else.
"""

from collections.abc import Sequence
from typing import Any

from gmpy2 import mpz

from sklearn_fedpriv.secure._paillier_keys import KEY_ID_BYTES, PaillierPublicKey
from sklearn_fedpriv.secure._paillier_wire import numbers_to_payload, payload_to_numbers
from sklearn_fedpriv.secure._protocol import Protected


def to_phe_key(key: PaillierPublicKey) -> Any:
    """The modulus as a ``phe.PaillierPublicKey``, which encrypts with full-length exponents."""
    return _import_phe().PaillierPublicKey(key.modulus)


def to_phe_numbers(key: PaillierPublicKey, protected: Protected) -> list[Any]:
    """A contribution as ``phe.EncryptedNumber`` of exponent 0, one a packed plaintext.

    Parameters
    ----------
    key : PaillierPublicKey
    protected : Protected

    Returns
    -------
    list of phe.EncryptedNumber
    """
    paillier = _import_phe()
    public = paillier.PaillierPublicKey(key.modulus)
    n_numbers = (len(protected.payload) - KEY_ID_BYTES) // key.number_bytes
    return [
        paillier.EncryptedNumber(public, int(number), 0)
        for number in payload_to_numbers(key, protected, n_numbers)
    ]


def from_phe_numbers(key: PaillierPublicKey, numbers: Sequence[Any]) -> bytes:
    """The payload of a ``Protected`` that carries ``numbers``.

    Parameters
    ----------
    key : PaillierPublicKey
    numbers : sequence of phe.EncryptedNumber
        Under the modulus of ``key``, of exponent 0: one a packed plaintext. Sums that were not
        blinded since are blinded here.

    Returns
    -------
    bytes
    """
    for i, number in enumerate(numbers):
        if number.public_key.n != key.modulus:
            raise ValueError(f"Number {i} is encrypted under another modulus than the key's.")
        if number.exponent != 0:
            raise ValueError(
                f"Number {i} must have exponent 0, an integer; got {number.exponent}. Encode "
                "with a public step first."
            )
    return numbers_to_payload(key, [mpz(number.ciphertext()) for number in numbers])


def _import_phe() -> Any:
    try:
        import phe
    except ImportError as error:
        raise ImportError(
            "Conversions to phe need the package phe, which is not installed: "
            'pip install "sklearn-fedpriv[phe]".'
        ) from error
    return phe
