"""Breast cancer data cut into hospitals, the example of the first page."""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.utils import Bunch

from sklearn_fedpriv.datasets._partition import is_int, make_generator, round_shares

# Ranges that a pathologist could give without seeing these patients: round numbers, written down
# here and never computed from rows, of the order that the data set's documentation prints. They
# follow from what is measured. A nucleus in these images has a radius of about 5 to 25; its
# perimeter is near 2 pi r (31 to 157), longer if ragged; its area near pi r ** 2 (79 to 1963).
# "worst" is the mean of the three largest nuclei of an image and reaches further up; "error" is
# the standard error over the nuclei, a small part of the range. The ranges are tight enough for
# 16 equal bins to be useful; the few values beyond (below 3 % in any column) count as at the end.
BOUNDS = {
    #                    mean          error      worst
    "radius": ((5, 25), (0, 1.5), (5, 35)),  # length in the image
    "texture": ((10, 35), (0, 3), (10, 45)),  # grey levels
    "perimeter": ((40, 180), (0, 10), (40, 240)),  # length
    "area": ((100, 2000), (0, 200), (100, 3000)),  # length squared
    "smoothness": ((0.05, 0.15), (0, 0.02), (0.05, 0.2)),  # the rest have no unit
    "compactness": ((0, 0.3), (0, 0.1), (0, 0.8)),
    "concavity": ((0, 0.4), (0, 0.1), (0, 1)),
    "concave points": ((0, 0.2), (0, 0.03), (0, 0.3)),
    "symmetry": ((0.1, 0.3), (0, 0.05), (0.1, 0.5)),
    "fractal dimension": ((0.05, 0.1), (0, 0.01), (0.05, 0.15)),
}
CLASSES = (0, 1)  # malignant, benign, as in scikit-learn

TEST_SHARE = 0.25
# The rows queue in random order (standard normal keys) and the largest hospital takes the front.
# Benign cases stand this much further back.
SKEW = 0.6

DESCR = """\
Hospitals: the Wisconsin diagnostic breast cancer data, cut among hospitals
----------------------------------------------------------------------------

569 tumours, 30 numbers a tumour, measured on the cell nuclei of a fine needle aspirate; the label
is 0 (malignant, 212) or 1 (benign, 357). A quarter of the rows, stratified, is held out as a
public test set; the others are cut among hospitals. The cut is made up (the publishers do not
name hospitals): the first hospital is the largest, and larger hospitals see more malignant cases.

The public bounds are round numbers written in the source, not read off the rows.

Source: W. Wolberg, O. Mangasarian, N. Street, W. Street, Breast Cancer Wisconsin (Diagnostic),
UCI Machine Learning Repository, 1995. Licence: CC BY 4.0. Copy: scikit-learn.
"""


def load_hospitals(*, n_parties=5, random_state=0):
    """Load the breast cancer data as a few hospitals hold it (classification).

    Nothing is downloaded: the rows come with scikit-learn. Hospital i (from 0) has a share of the
    rows proportional to ``1 / (i + 2)``: 34, 23, 17, 14 and 11 percent for five. Larger
    hospitals see somewhat more malignant cases, as if the harder ones were sent to them.

    Parameters
    ----------
    n_parties : int, default=5
        Number of hospitals, in [1, 426].
    random_state : int, numpy Generator, RandomState or None, default=0
        Seed of the held-out rows and of the cut. The default gives the same data every time.

    Returns
    -------
    hospitals : Bunch
        - ``parties`` : list of n_parties tuples (X, y), X an ndarray of shape (n_rows, 30) of
          floats, y an ndarray of shape (n_rows,) of 0 (malignant) and 1 (benign); together 426
          rows
        - ``data`` : ndarray of shape (426, 30), ``target`` : ndarray of shape (426,), the same rows
          pooled, for comparison
        - ``X_test`` : ndarray of shape (143, 30), ``y_test`` : ndarray of shape (143,), held out,
          stratified by label
        - ``public`` : dict with ``bounds``, a list of 30 pairs (low, high) in the order of the
          columns and in their units, and ``classes``, the list [0, 1]
        - ``feature_names`` : list of 30 str
        - ``target_names`` : list of 2 str
        - ``DESCR`` : str, with source, licence and citation

    Raises
    ------
    ValueError
        If `n_parties` is not an int in [1, 426].

    Examples
    --------
    >>> from sklearn_fedpriv.datasets import load_hospitals
    >>> hospitals = load_hospitals()
    >>> for X, y in hospitals.parties:
    ...     print(X.shape)
    (147, 30)
    (98, 30)
    (73, 30)
    (59, 30)
    (49, 30)
    """
    rng = make_generator(random_state)
    cancer = load_breast_cancer()
    X, X_test, y, y_test = train_test_split(
        cancer.data,
        cancer.target,
        test_size=TEST_SHARE,
        stratify=cancer.target,
        random_state=int(rng.integers(2**31)),
    )
    if not is_int(n_parties) or not 1 <= n_parties <= len(X):
        raise ValueError(
            "The 'n_parties' parameter of load_hospitals must be an int in the range "
            f"[1, {len(X)}]. Got {n_parties!r} instead."
        )

    queue = np.argsort(rng.standard_normal(len(X)) + SKEW * y, kind="stable")
    weights = 1 / np.arange(2, n_parties + 2)
    counts = round_shares(weights / weights.sum(), len(X))
    parties = [(X[rows], y[rows]) for rows in np.split(queue, np.cumsum(counts)[:-1])]
    return Bunch(
        parties=parties,
        data=X,
        target=y,
        X_test=X_test,
        y_test=y_test,
        public={"bounds": _bounds(cancer.feature_names), "classes": list(CLASSES)},
        feature_names=[str(name) for name in cancer.feature_names],
        target_names=[str(name) for name in cancer.target_names],
        DESCR=DESCR,
    )


def _bounds(feature_names):
    """Return one pair a column; the names read "mean radius", "radius error", "worst radius"."""
    by_name = {}
    for measure, (mean, error, worst) in BOUNDS.items():
        by_name |= {f"mean {measure}": mean, f"{measure} error": error, f"worst {measure}": worst}
    return [by_name[name] for name in feature_names]
