"""Settings and public rows, checked before anything is charged."""

from collections.abc import Callable
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import check_consistent_length, column_or_1d

from sklearn_fedpriv._warnings import warn
from sklearn_fedpriv.exceptions import NoiseWarning
from sklearn_fedpriv.svm._queries import LEVELS
from sklearn_fedpriv.svm._rows import ROW_TICKS, RowCoder
from sklearn_fedpriv.svm._training import Problem


def check_class_weight(given: Any, classes: tuple, name: str) -> tuple[float, ...]:
    """The weight of each class.

    Parameters
    ----------
    given : dict, "balanced" or None
    classes : tuple of labels
    name : str
        The estimator's, for the error text.
    """
    if given is None:
        given = {}
    if isinstance(given, str):
        raise ValueError(
            f"class_weight='balanced' of {name} would weigh classes by how frequent they are in "
            "the rows, which is private. Give a dict: label -> weight."
        )
    sizes = all(isinstance(w, Real) and 1e-100 <= w <= 1e100 for w in given.values())
    if set(given) - set(classes) or not sizes:
        raise ValueError(
            f"class_weight of {name} must map classes {list(classes)} to positive numbers, from "
            f"1e-100 to 1e100; got {given!r}."
        )
    weights = tuple(float(given.get(label, 1.0)) for label in classes)
    if max(weights) > LEVELS * min(weights):
        warn(
            f"class_weight of {name} has a weight above {LEVELS} times another. The noise is "
            f"sized for the largest, and lighter ones count as 1/{LEVELS} of it. Bring them closer "
            "together, unless the light classes should hardly count.",
            NoiseWarning,
        )
    return weights


def public_loss(
    owner: Any, coder: RowCoder, problem: Problem, X_val: Any, y_val: Any
) -> Callable[[np.ndarray], float] | None:
    """Mean loss on public rows as a function of weights, or None without such rows.

    Parameters
    ----------
    owner : FederatedDPSVC
        Knows the columns.
    coder : RowCoder
    problem : Problem
    X_val, y_val
        As given to ``fit``.
    """
    if X_val is None and y_val is None:
        return None
    if X_val is None or y_val is None:
        came, missing = ("y_val", "X_val") if X_val is None else ("X_val", "y_val")
        raise ValueError(f"{came} came without {missing}. Give both to fit, or neither.")
    table = owner._check_table(X_val, accept_sparse="csr")
    labels = column_or_1d(y_val, warn=True)
    check_consistent_length(table, labels)
    places = {label: place for place, label in enumerate(coder.classes)}
    strange = [label for label in labels.tolist() if label not in places]
    if strange:
        raise ValueError(
            f"y_val holds labels outside the classes {list(coder.classes)}, such as "
            f"{strange[0]!r}. Drop their rows, or declare them in classes."
        )
    codes = np.array([places[label] for label in labels.tolist()])
    return partial(mean_loss, problem, coder.code(table) * (coder.row_bound / ROW_TICKS), codes)


def mean_loss(problem: Problem, rows: Any, codes: np.ndarray, weights: np.ndarray) -> float:
    """Mean hinge loss on public rows.

    Parameters
    ----------
    problem : Problem
    rows : ndarray or CSR matrix of shape (n, n_columns)
        In data units.
    codes : ndarray of shape (n,), int
        Places of their classes.
    weights : ndarray of shape (n_blocks, n_columns + 1)
    """
    scores = np.asarray(rows @ weights[:, :-1].T) + weights[:, -1]
    if scores.shape[1] == 1:
        lead = np.where(codes == 1, scores[:, 0], -scores[:, 0])
    else:
        here = np.arange(len(codes)), codes
        own = scores[here]
        scores[here] = -np.inf
        lead = own - scores.max(axis=1)
    return float(np.mean(np.asarray(problem.class_weights)[codes] * np.maximum(1 - lead, 0)))
