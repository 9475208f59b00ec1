"""What a search checks of the parties' rows, before anything is charged.

A search takes any rows that its estimator takes, so they are looked at and left as they came. What
is refused here would make every candidate fail.
"""

from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import check_array, get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets

from sklearn_fedpriv._sklearn import get_feature_names, n_rows_of
from sklearn_fedpriv.federation._federation import Federation


def checked_rows(owner: Any, federation: Federation) -> Federation:
    """Refuse rows that no candidate could be fitted to, naming the party; make rows indexable.

    Parameters
    ----------
    owner : estimator
        Its tags say what it takes.
    federation : Federation
    """
    columns: Any = None
    rows = []
    for name, (X, y) in zip(federation.names, federation.transformed(), strict=True):
        try:
            X, y = _checked(owner, X, y)
            rows.append((X, y))
            names = get_feature_names(X)
            mine = _n_columns(X) if names is None else tuple(names)
            if columns is not None and mine != columns:
                raise ValueError(f"has other columns than the first party: {mine}, not {columns}.")
            columns = mine
        except (ValueError, TypeError) as error:
            if len(federation.names) == 1:
                raise
            raise type(error)(f"Party {name!r}: {error}") from error
    return federation.with_rows(rows)


def _checked(owner: Any, X: Any, y: Any) -> tuple[Any, Any]:
    tags = get_tags(owner)
    if tags.target_tags.required and y is None:
        raise ValueError(
            f"{type(owner).__name__} requires y to be passed, but the target y is None."
        )
    X, y = indexable(X, y)
    _check_table(owner, X, tags.input_tags)
    if n_rows_of(X) < 2:
        raise ValueError(
            f"n_samples = {n_rows_of(X)}, and {type(owner).__name__} holds some rows out: it needs "
            "at least 2."
        )
    if y is not None and np.asarray(y).dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError("Input y contains NaN, infinity or a value too large.")
    if y is not None and is_classifier(owner):
        check_classification_targets(y)
    return X, y


def _check_table(owner: Any, X: Any, tags: Any) -> None:
    """Hold numbers to the estimator's tags; lists of texts, mixed columns and images pass."""
    if hasattr(X, "select_dtypes"):
        X = X.select_dtypes("number")
        if X.shape[1] == 0:
            return
    elif isinstance(X, list | tuple) and (not X or isinstance(X[0], str) or np.ndim(X[0]) == 0):
        return
    if getattr(X, "ndim", 2) > 2:
        return
    if getattr(getattr(X, "dtype", None), "kind", "") == "O" and not (
        tags.string or tags.allow_nan
    ):
        with suppress(ValueError):  # texts may be categories; what is neither is refused
            X.astype(np.float64)
    check_array(
        X,
        accept_sparse=tags.sparse,
        dtype=None,
        ensure_all_finite="allow-nan" if tags.allow_nan else True,
        estimator=owner,
        input_name="X",
    )


def _n_columns(X: Any) -> int | None:
    shape = getattr(X, "shape", ())
    return shape[1] if len(shape) == 2 else None
