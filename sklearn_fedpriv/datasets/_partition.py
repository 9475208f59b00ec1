"""Cut one table among parties, for rehearsals in one process."""

from numbers import Integral, Real

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

HOW = ("iid", "dirichlet", "by_label", "sizes")


def partition(X, y, n_parties, how="iid", *, alpha=0.5, sizes=None, random_state=None):
    """Cut rows among parties: every row goes to exactly one party, and none gets no row.

    Within a party the rows keep the order they have in `X`.

    Parameters
    ----------
    X : array, list, frame or sparse matrix of shape (n_rows, ...)
        The rows. Parties get the same type, and a frame keeps its index and column names.
    y : array, list or series of shape (n_rows,)
        One label or target a row.
    n_parties : int
        Number of parties, in [1, n_rows].
    how : {"iid", "dirichlet", "by_label", "sizes"}, default="iid"
        How the rows are dealt out.

        - ``"iid"``: at random, all parties of one size (give or take one row).
        - ``"dirichlet"``: for each label, the parties' shares are drawn from a symmetric Dirichlet
          law of concentration `alpha` [1]_: label mix and size differ between parties. A party
          that would get no row takes one, drawn at random, from the party that has most.
        - ``"by_label"``: the rows are sorted by label and cut into two runs a party (one, when
          there are fewer than two rows a party), which are dealt out at random [2]_: each party
          holds few labels, all have about one size.
        - ``"sizes"``: at random, of the given `sizes`.

        ``"dirichlet"`` and ``"by_label"`` need class labels.
    alpha : float, default=0.5
        Concentration of ``how="dirichlet"``, in (0, inf), dimensionless: near 0 a label sits with
        one party, large values approach equal shares. The other ways do not read it.
    sizes : array-like of shape (n_parties,), default=None
        For ``how="sizes"`` only: integers are numbers of rows, each at least 1, and sum to
        n_rows; floats are shares in (0, 1] of the rows and sum to 1 (rounded so that every party
        has at least one row).
    random_state : int, numpy Generator, RandomState or None, default=None
        Seed of the cut. An int gives the same cut every time.

    Returns
    -------
    parties : list of n_parties tuples (X_i, y_i)
        What ``fit`` accepts.

    Raises
    ------
    ValueError
        If a parameter is out of its range, `X` and `y` differ in length, or the labels are not
        class labels where `how` needs them.

    References
    ----------
    .. [1] T.-M. H. Hsu, H. Qi, M. Brown, "Measuring the Effects of Non-Identical Data Distribution
       for Federated Visual Classification", 2019.
    .. [2] B. McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized
       Data", AISTATS 2017.

    Examples
    --------
    >>> from sklearn_fedpriv.datasets import partition
    >>> X, y = [[0], [1], [2], [3], [4], [5]], list("aabbcc")
    >>> for X_i, y_i in partition(X, y, 3, "sizes", sizes=[1, 2, 3], random_state=0):
    ...     print(len(X_i), len(y_i))
    1 1
    2 2
    3 3
    """
    if y is None:
        raise ValueError("partition requires y to be passed, but the target y is None.")
    check_consistent_length(X, y)
    n_rows = _n_rows(X)
    if not is_int(n_parties) or n_parties < 1:
        raise ValueError(
            "The 'n_parties' parameter of partition must be an int in the range [1, inf). "
            f"Got {n_parties!r} instead."
        )
    if n_parties > n_rows:
        raise ValueError(
            f"Cannot give n_parties={n_parties} parties at least one row each: n_rows={n_rows}."
        )
    if not isinstance(how, str) or how not in HOW:
        raise ValueError(
            "The 'how' parameter of partition must be a str among "
            f"{{{', '.join(map(repr, HOW))}}}. Got {how!r} instead."
        )
    if isinstance(alpha, bool) or not isinstance(alpha, Real) or not 0 < alpha < np.inf:
        raise ValueError(
            "The 'alpha' parameter of partition must be a float in the range (0, inf). "
            f"Got {alpha!r} instead."
        )
    if (sizes is not None) != (how == "sizes"):
        raise ValueError(
            "The 'sizes' parameter of partition goes with how='sizes', and only with it. "
            f"Got sizes={sizes!r} with how={how!r}."
        )

    rng = make_generator(random_state)
    if how == "iid":
        owner = _deal(np.full(n_parties, n_rows // n_parties), n_rows, rng)
    elif how == "sizes":
        owner = _deal(_check_sizes(sizes, n_parties, n_rows), n_rows, rng)
    else:
        labels = column_or_1d(y)
        check_classification_targets(labels)
        codes = np.unique(labels, return_inverse=True)[1]
        if how == "dirichlet":
            owner = _deal_dirichlet(codes, n_parties, float(alpha), rng)
        else:
            owner = _deal_by_label(codes, n_parties, rng)

    rows = [np.flatnonzero(owner == party) for party in range(n_parties)]
    return [(_take(X, chosen), _take(y, chosen)) for chosen in rows]


def is_int(value):
    """Return whether `value` is an integer of Python or numpy, and not a bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def make_generator(random_state):
    """Return a numpy Generator for what scikit-learn calls `random_state`.

    None takes fresh entropy (numpy's global state is neither read nor moved), a Generator is
    used as it is, anything else goes through scikit-learn's ``check_random_state``.
    """
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    seed = check_random_state(random_state).randint(2**32, size=4, dtype=np.uint32)
    return np.random.default_rng(seed)


def round_shares(shares, n_rows):
    """Return whole numbers of rows, at least 1 each, in proportion to `shares`.

    Parameters
    ----------
    shares : ndarray of shape (n_parties,)
        Positive, sum 1; n_parties <= n_rows.
    n_rows : int

    Returns
    -------
    counts : ndarray of shape (n_parties,)
        Integers that sum to `n_rows`. The largest remainders are rounded up; a party that would
        get nothing takes one row from the largest.
    """
    exact = shares / shares.sum() * n_rows
    counts = np.floor(exact).astype(np.int64)
    left = n_rows - counts.sum()
    counts[np.argsort(counts - exact, kind="stable")[:left]] += 1
    while counts.min() == 0:
        counts[counts.argmax()] -= 1
        counts[counts.argmin()] += 1
    return counts


def _deal(counts, n_rows, rng):
    """Return the owner of each row: `counts` at random, what is left over one each in turn."""
    owner = np.repeat(np.arange(len(counts)), counts)
    owner = np.concatenate([owner, np.arange(n_rows - len(owner))])
    return rng.permutation(owner)


def _deal_dirichlet(codes, n_parties, alpha, rng):
    """Return the owner of each row: label by label, by shares from a Dirichlet law."""
    owner = np.empty(len(codes), dtype=np.int64)
    for code in range(codes.max() + 1):
        rows = rng.permutation(np.flatnonzero(codes == code))
        # Beyond 1e9 the shares are equal to any row anyone has; much beyond, numpy overflows.
        shares = rng.dirichlet(np.full(n_parties, min(alpha, 1e9)))
        cuts = np.rint(np.cumsum(shares)[:-1] * len(rows)).astype(np.int64)
        for party, chosen in enumerate(np.split(rows, cuts)):
            owner[chosen] = party
    counts = np.bincount(owner, minlength=n_parties)
    for party in np.flatnonzero(counts == 0):
        row = rng.choice(np.flatnonzero(owner == counts.argmax()))
        counts[owner[row]] -= 1
        counts[party] += 1
        owner[row] = party
    return owner


def _deal_by_label(codes, n_parties, rng):
    """Return the owner of each row: runs of the rows sorted by label, dealt out at random."""
    shuffled = rng.permutation(len(codes))
    by_label = shuffled[np.argsort(codes[shuffled], kind="stable")]
    runs_each = 2 if len(codes) >= 2 * n_parties else 1
    run_owner = rng.permutation(np.repeat(np.arange(n_parties), runs_each))
    owner = np.empty(len(codes), dtype=np.int64)
    for party, rows in zip(run_owner, np.array_split(by_label, len(run_owner)), strict=True):
        owner[rows] = party
    return owner


def _check_sizes(sizes, n_parties, n_rows):
    """Return the numbers of rows that `sizes`, numbers or shares, stand for."""
    given = np.asarray(sizes)
    if given.shape != (n_parties,) or given.dtype.kind not in "iuf":
        raise ValueError(
            "The 'sizes' parameter of partition must be an array-like of n_parties="
            f"{n_parties} numbers. Got {sizes!r} instead."
        )
    if given.dtype.kind == "f":
        if not (np.all(given > 0) and abs(given.sum() - 1) <= 1e-6):
            raise ValueError(
                "Floats in 'sizes' are shares of the rows: each in (0, 1], with sum 1. "
                f"Got {sizes!r}, sum {given.sum()}. For numbers of rows give integers."
            )
        return round_shares(given.astype(float), n_rows)
    if given.min() < 1 or given.sum() != n_rows:
        raise ValueError(
            "Integers in 'sizes' are numbers of rows: each at least 1, with sum "
            f"n_rows={n_rows}. Got {sizes!r}, sum {given.sum()}. For shares give floats."
        )
    return given.astype(np.int64)


def _n_rows(X):
    return X.shape[0] if hasattr(X, "shape") else len(X)


def _take(table, rows):
    """Return the given rows of a frame, sparse matrix, list or array, in the type it has."""
    if hasattr(table, "iloc"):
        return table.iloc[rows]
    if issparse(table):
        return table.tocsr()[rows].asformat(table.format)
    if hasattr(table, "shape"):
        return table[rows]
    return [table[row] for row in rows]
