"""What ``fit`` accepts, and how it becomes a federation of validated parties.

=============================================  ===================================================
call                                           meaning
=============================================  ===================================================
``fit([(X_1, y_1), (X_2, y_2), ...])``         a list of parties: pairs, or ``Party`` objects
``fit([X_1, X_2], [y_1, y_2])``                the same, two lists
``fit(X, y, parties=labels)``                  one table, and a party's label a row
``fit(X, y)``                                  one party
``fit(federation)``                            parties kept over fits, or that live elsewhere
=============================================  ===================================================

A *table* is an array of two or more dimensions, a frame or a sparse matrix. Everything is checked
here, with the party named, before anything is charged.
"""

import inspect
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import is_classifier
from sklearn.utils import get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from sklearn_fedpriv._sklearn import get_feature_names, inside_search, n_rows_of, take_rows
from sklearn_fedpriv.federation._federation import Federation, as_secure_sum
from sklearn_fedpriv.federation._party import Party
from sklearn_fedpriv.federation._public_facts import cells_of
from sklearn_fedpriv.federation._query import MAX_ROWS

_FORMS = (
    "Use fit([(X_1, y_1), (X_2, y_2), ...]) or fit([X_1, X_2], [y_1, y_2]) for parties, "
    "fit(X, y, parties=labels) for one table with a party's label a row, fit(X, y) for one party."
)


def gather(
    estimator: Any, X: Any, y: Any = None, parties: Any = None, **check_params: Any
) -> Federation:
    """The federation that a call of ``fit`` means, with validated rows.

    Sets ``n_features_in_`` and ``feature_names_in_`` on the estimator.

    Parameters
    ----------
    estimator : estimator
        Gives trust (``min_honest``, ``max_dropouts``, ``secure_sum``, ``n_jobs``) and tags.
    X, y, parties
        As given to ``fit``.
    **check_params
        For ``sklearn.utils.validation.validate_data``.

    Raises
    ------
    ValueError, TypeError
        scikit-learn's own errors; with several parties they name the party.
    """
    if parties is not None and not isinstance(X, Federation):
        _check_one_table(X)
        X, y = _validated(estimator, X, y, "", 0, 1, check_params)
        return gather_as_is(estimator, X, y, parties)
    federation = gather_as_is(estimator, X, y, parties)
    rows = [
        _validated(estimator, *table, name, i, len(federation.parties), check_params)
        for i, (name, table) in enumerate(
            zip(federation.names, federation.transformed(), strict=True)
        )
    ]
    return federation.with_rows(rows)


def gather_as_is(owner: Any, X: Any, y: Any = None, parties: Any = None) -> Federation:
    """The same federation with its tables as they came, for what takes any table.

    Parameters
    ----------
    owner : object
        Gives trust, as for ``gather``.
    X, y, parties
        As given to ``fit``.
    """
    if isinstance(X, Federation):
        if y is not None or parties is not None:
            raise ValueError(
                "fit(federation) takes neither y nor parties; the federation has them."
            )
        _check_same_trust(owner, X)
        federation = copy(X)
        federation.n_jobs = X.n_jobs if owner.n_jobs is None else owner.n_jobs
        return federation
    if parties is not None:
        return _from_labels(owner, X, y, parties)
    members = _members(X, y)
    if looks_like_parties(X) and inside_search():
        raise ValueError(
            "A list of parties cannot be split by scikit-learn's searches: pass one table with "
            "parties=labels, or use DPHypeSearchCV."
        )
    return Federation(members, **trust_of(owner))


def trust_of(estimator: Any) -> dict[str, Any]:
    """The estimator's arguments that a federation is made of."""
    names = ("min_honest", "max_dropouts", "secure_sum", "n_jobs")
    return {name: getattr(estimator, name) for name in names}


def is_table(value: Any) -> bool:
    """Whether ``value`` is an array of two or more dimensions, a frame or a sparse matrix."""
    return issparse(value) or (hasattr(value, "shape") and len(value.shape) >= 2)


def looks_like_parties(value: Any) -> bool:
    """Whether ``value`` is a list that holds parties or tables."""
    return isinstance(value, list) and any(_is_member(item) or is_table(item) for item in value)


def _is_member(value: Any) -> bool:
    if isinstance(value, Party):
        return True
    return isinstance(value, tuple) and len(value) == 2 and is_table(value[0])


def map_tables(function: Callable, X: Any) -> Any:
    """Apply ``function`` to one table, or to every table of a list of parties or of tables.

    A ``Party`` keeps its name and its ledger.
    """
    if not looks_like_parties(X):
        return function(X)
    mapped: list = []
    for item in X:
        if isinstance(item, Party):
            mapped.append(item.with_table(function(item.X)))
        elif _is_member(item):
            mapped.append((function(item[0]), item[1]))
        else:
            mapped.append(function(item))
    return mapped


def _members(X: Any, y: Any) -> list[Party]:
    """The parties that ``fit(X, y)`` means, by the rule in the heading of this file."""
    if isinstance(X, tuple) and X and all(map(_is_member, X)):
        raise TypeError(f"A tuple of parties came; pass a list. {_FORMS}")
    if isinstance(X, Party) or (isinstance(X, tuple) and _is_member(X)):
        raise TypeError(f"A single party came; put it in a list. {_FORMS}")
    if not looks_like_parties(X):
        return [Party(X, y)]
    if y is None and all(map(_is_member, X)):
        return [item if isinstance(item, Party) else Party(*item) for item in X]
    if all(map(is_table, X)):
        if y is None:
            return [Party(item) for item in X]
        if isinstance(y, list) and len(y) == len(X):
            if all(np.ndim(labels) >= 1 for labels in y):
                return [Party(*item) for item in zip(X, y, strict=True)]
        raise ValueError(
            f"{len(X)} tables came for X, so y must be a list of {len(X)} sequences of labels, one "
            f"for each. {_FORMS}"
        )
    raise TypeError(f"The list mixes parties with something else, or comes with a y. {_FORMS}")


def _check_one_table(X: Any) -> None:
    if looks_like_parties(X):
        raise TypeError(f"parties=labels goes with one table, not with a list of parties. {_FORMS}")


def _from_labels(owner: Any, X: Any, y: Any, labels: Any) -> Federation:
    """One table, split by the label of each row."""
    _check_one_table(X)
    X, y = indexable(X, y)
    labels = np.asarray(labels, dtype=object)
    if labels.ndim != 1:
        raise ValueError(
            f"parties must be a 1d array with one label a row; got shape {labels.shape}."
        )
    if any(map(_is_missing, labels)):
        raise ValueError("parties must name every row's party; None, NaN or an empty text came.")
    if len(labels) != n_rows_of(X):
        raise ValueError(
            f"parties must hold one label a row: got {len(labels)} labels for {n_rows_of(X)} rows."
        )
    names, member = np.unique(labels.astype(str), return_inverse=True)
    order = np.argsort(member, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(member[order])) + 1)
    split = [(take_rows(X, rows), None if y is None else take_rows(y, rows)) for rows in groups]
    parties = [Party(*rows, name=str(name)) for name, rows in zip(names, split, strict=True)]
    return Federation(parties, **trust_of(owner))


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label) or label == ""
    except TypeError:  # pandas' NA is neither equal nor unequal to itself
        return True


def _validated(
    estimator: Any, X: Any, y: Any, name: str, i: int, n_parties: int, check_params: dict[str, Any]
) -> tuple[Any, Any]:
    """One party's rows as arrays; the first party sets the estimator's columns."""
    required = get_tags(estimator).target_tags.required
    table = X
    try:
        X = cells_of(X) if check_params.get("dtype", "numeric") is None else X
        for values in (X, y):
            cells_of(values)
        if required:
            X, y = validate_data(estimator, X, y, reset=i == 0, **check_params)
        else:
            X, y = validate_data(estimator, X, reset=i == 0, **check_params), None
        if required and is_classifier(estimator):
            check_classification_targets(y)
        named = get_feature_names(table) is not None
        if i > 0 and named != hasattr(estimator, "feature_names_in_"):
            raise ValueError("all parties' tables must have column names, or none of them.")
        if X.shape[0] > MAX_ROWS:
            raise ValueError(f"One party may hold at most {MAX_ROWS} rows; split it in several.")
    except (ValueError, TypeError) as error:
        if n_parties == 1:
            if getattr(X, "ndim", 0) != 2:
                error.add_note(_FORMS)
            raise
        raise type(error)(f"Party {name!r}: {error}") from error
    return X, y


def _check_same_trust(estimator: Any, federation: Federation) -> None:
    """Refuse an estimator that sets another trust than the federation's."""
    defaults = inspect.signature(type(estimator)).parameters
    for name in ("min_honest", "max_dropouts", "secure_sum"):
        value, theirs = getattr(estimator, name), getattr(federation, name)
        if name == "secure_sum":
            same = as_secure_sum(value) == theirs
        else:
            same = value == theirs
        if value != defaults[name].default and not same:
            raise ValueError(
                f"{type(estimator).__name__}({name}={value!r}) contradicts the federation, "
                f"which was made with {name}={theirs!r}. Leave {name} out of the estimator, or "
                "make another federation."
            )
