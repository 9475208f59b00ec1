"""Made-up parties that follow one of several linear laws."""

import numpy as np
from sklearn.utils import Bunch

from sklearn_fedpriv.datasets._partition import is_int, make_generator

LAWS = ((5.0, 6.0), (4.0, -4.5))  # Galli et al. 2023, synthetic experiment


def make_two_laws(
    *, n_parties=100, n_rows=10, noise=0.5, laws=LAWS, shuffle=True, random_state=None
):
    """Make parties each of which follows one of a few linear laws, nobody saying which.

    The rows are standard normal, ``y = X @ law`` plus normal noise. Parties take turns among the
    laws, and are then shuffled.

    Parameters
    ----------
    n_parties : int, default=100
    n_rows : int, default=10
        Of each party.
    noise : float, default=0.5
        Standard deviation of the noise in a target.
    laws : array-like of shape (n_laws, n_features), default=((5, 6), (4, -4.5))
    shuffle : bool, default=True
        Whether the order of the parties says nothing about their law.
    random_state : int, numpy Generator, RandomState or None, default=None

    Returns
    -------
    laws : Bunch
        - ``parties`` : list of n_parties tuples (X, y)
        - ``members`` : ndarray of shape (n_parties,), the index of each party's law
        - ``laws`` : ndarray of shape (n_laws, n_features)

    Examples
    --------
    >>> made = make_two_laws(n_parties=4, n_rows=3, random_state=0)
    >>> [X.shape for X, _ in made.parties]
    [(3, 2), (3, 2), (3, 2), (3, 2)]
    """
    for name, value in (("n_parties", n_parties), ("n_rows", n_rows)):
        if not is_int(value) or value < 1:
            raise ValueError(f"{name} of make_two_laws must be an int of at least 1; got {value!r}")
    if not noise >= 0:
        raise ValueError(f"noise of make_two_laws must be 0 or more; got {noise!r}")
    rng = make_generator(random_state)
    laws = np.array(laws, dtype=np.float64)
    members = np.arange(n_parties) % len(laws)
    if shuffle:
        members = rng.permutation(members)
    parties = []
    for law in laws[members]:
        X = rng.standard_normal((n_rows, laws.shape[1]))
        parties.append((X, X @ law + noise * rng.standard_normal(n_rows)))
    return Bunch(parties=parties, members=members, laws=laws)
