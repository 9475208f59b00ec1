"""The arithmetic of the threshold-Paillier sum: numbers modulo N^2, no messages, no parties.

A ciphertext of m is (1 + mN) h^r modulo N^2, where r is fresh and of half the key's bits. The
product of ciphertexts is a ciphertext of the sum. A party's partial decryption of c is
c^(2 Delta s_i), with Delta = n! and s_i its share. Raising those of ``threshold`` parties to twice
their Lagrange coefficients and multiplying gives (1 + N)^(4 Delta L m), whose logarithm is easy to
take; L is the common denominator that makes the coefficients integers, because nobody but the
dealer knows the order in which they could be inverted.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

import gmpy2
from gmpy2 import mpz

from sklearn_fedpriv.secure._paillier_keys import PaillierKeyShare, PaillierPublicKey
from sklearn_fedpriv.secure._protocol import Entropy, draw

_WINDOW_BITS = 8  # one table look-up for each byte of the exponent
_POWERS_AT_ONCE = 64


def encrypt(key: PaillierPublicKey, plaintexts: Sequence[mpz], entropy: Entropy) -> list[mpz]:
    """Ciphertexts of ``plaintexts``; all exponents are drawn in one call of ``entropy``."""
    n, square = mpz(key.modulus), mpz(key.modulus) ** 2
    table = _power_table(key.modulus, key.base, key.exponent_bytes)
    step = key.exponent_bytes
    exponents = draw(entropy, len(plaintexts) * step)
    ciphertexts = []
    for i, plaintext in enumerate(plaintexts):
        product, logarithm = mpz(1), plaintext
        for powers, digit in zip(table, exponents[i * step : (i + 1) * step], strict=True):
            residue, part = powers[digit]
            product = product * residue % square
            logarithm += part
        ciphertexts.append(product * (1 + logarithm % n * n) % square)
    return ciphertexts


@lru_cache(maxsize=2)
def _power_table(modulus: int, base: int, n_digits: int) -> tuple[tuple[tuple[mpz, mpz], ...], ...]:
    """``base`` to the power j 256^i, for digit i and its value j: 30 MB, 0.3 s at 2048 bits.

    A power is kept as (b, e), which stands for b (1 + eN) modulo N^2 with b and e below N: the es
    of a product add up, and multiplying by b costs half of multiplying by a number below N^2.

    The table is kept here rather than on the key, so that no pickle or message ever carries it.
    """
    n = mpz(modulus)
    quotient, residue = divmod(mpz(base), n)
    inverse = gmpy2.invert(residue, n)
    generator = (residue, quotient * inverse % n, inverse)
    rows = []
    for _ in range(n_digits):
        residue, part, inverse = mpz(1), mpz(0), mpz(1)
        row = []
        for _ in range(2**_WINDOW_BITS):
            row.append((residue, part))
            # b c = b' + tN, hence b (1 + eN) c (1 + fN) = b' (1 + (e + f + t / b') N) modulo N^2.
            quotient, residue = divmod(residue * generator[0], n)
            inverse = inverse * generator[2] % n
            part = (part + generator[1] + quotient * inverse) % n
        generator = (residue, part, inverse)
        rows.append(tuple(row))
    return tuple(rows)


def multiply(key: PaillierPublicKey, rows: Iterable[Sequence[mpz]]) -> list[mpz]:
    """Products down the columns of ``rows``: ciphertexts of the sums of what the rows carry."""
    square = mpz(key.modulus) ** 2
    first, *others = rows
    products = list(first)
    for row in others:
        products = [a * b % square for a, b in zip(products, row, strict=True)]
    return products


def decrypt_partially(
    key: PaillierPublicKey, share: PaillierKeyShare, ciphertexts: Sequence[mpz]
) -> list[mpz]:
    """``ciphertexts`` to the power 2 Delta s_i: what the holder of the share gives to open them."""
    return _raise(key, ciphertexts, 2 * math.factorial(len(key.parties)) * mpz(share.share))


def combine(key: PaillierPublicKey, partials: Mapping[int, Sequence[mpz]]) -> list[mpz] | None:
    """The plaintexts, or None if the partial decryptions do not fit together.

    Parameters
    ----------
    key : PaillierPublicKey
    partials : mapping of int to sequence of mpz
        Partial decryptions by the index of the share, of ``key.threshold`` shares, all
        invertible modulo N.
    """
    n, square = mpz(key.modulus), mpz(key.modulus) ** 2
    coefficients, denominator = lagrange_coefficients(partials)
    raised: dict[bool, list[list[mpz]]] = {True: [], False: []}
    for index, numbers in partials.items():
        coefficient = coefficients[index]
        raised[coefficient > 0].append(_raise(key, numbers, mpz(2 * abs(coefficient))))
    powers = multiply(key, raised[True])  # never empty: the coefficients add up to L > 0
    if raised[False]:  # one inversion serves all negative coefficients
        below = multiply(key, raised[False])
        powers = [a * gmpy2.invert(b, square) % square for a, b in zip(powers, below, strict=True)]
    if any(power % n != 1 for power in powers):
        return None
    scale = gmpy2.invert(4 * math.factorial(len(key.parties)) * denominator, n)
    return [(power - 1) // n * scale % n for power in powers]


def lagrange_coefficients(indices: Iterable[int]) -> tuple[dict[int, int], int]:
    """Integers l_i and L > 0 with sum of l_i f(i) = L f(0) for any polynomial of that degree.

    L is the least common denominator, which divides Delta, so the exponents are as short as they
    can be: binomial coefficients when the indices are 1, ..., t.
    """
    points = list(indices)
    fractions = {
        i: math.prod((Fraction(j, j - i) for j in points if j != i), start=Fraction(1))
        for i in points
    }
    denominator = math.lcm(*(value.denominator for value in fractions.values()))
    return {i: int(value * denominator) for i, value in fractions.items()}, denominator


def shares_a_factor(key: PaillierPublicKey, numbers: Sequence[mpz]) -> bool:
    """Whether any of ``numbers`` has a common factor with the modulus; one gcd for all."""
    n = mpz(key.modulus)
    product = mpz(1)
    for number in numbers:
        product = product * number % n
    return bool(gmpy2.gcd(product, n) != 1)


def _raise(key: PaillierPublicKey, numbers: Sequence[mpz], exponent: mpz) -> list[mpz]:
    square = mpz(key.modulus) ** 2
    powers: list[mpz] = []
    # gmpy2 lets go of the interpreter meanwhile, so sides may run in threads; in pieces, so that
    # a user can interrupt what may take minutes.
    for at in range(0, len(numbers), _POWERS_AT_ONCE):
        piece = list(numbers[at : at + _POWERS_AT_ONCE])
        powers += gmpy2.powmod_base_list(piece, exponent, square)
    return powers
