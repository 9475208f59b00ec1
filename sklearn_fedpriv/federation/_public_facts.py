"""Public facts: classes, categories and bounds, declared by the user or taken from the rows.

Declared facts cost nothing and condition nothing. A fact that is left out is taken from the rows
where they are in this process; ``RowFacts`` keeps the list, warns once a fit with the constructor
line to paste, and makes the report conditional (G3). A federation of other machines refuses.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np

from sklearn_fedpriv._warnings import warn
from sklearn_fedpriv._wire import record
from sklearn_fedpriv.exceptions import PublicFactWarning

Rows = Sequence[tuple[np.ndarray, np.ndarray | None]]


@record
@dataclass(frozen=True)
class Column:
    """What is publicly known of one column: categories, or else bounds.

    Parameters
    ----------
    name : str
        Feature name, or ``x`` and the index.
    categories : tuple of str, or of numbers
        Empty for a numeric column. A text that spells a number stands for that number however
        it is stored: "1" is 1, 1.0, True and "1.0", but not "01".
    low, high : float
        Bounds of a numeric column; values outside count as the nearest bound.
    """

    name: str
    categories: tuple
    low: float = 0.0
    high: float = 1.0

    @property
    def numeric(self) -> bool:
        """Whether the column is held to bounds rather than categories."""
        return not self.categories

    def codes(self, values: np.ndarray) -> np.ndarray:
        """Index of each value among ``categories``; an unknown one gets ``len(categories)``.

        The code of a value never depends on the others: one record with a fraction or a text may
        turn a whole table of integers into floats or texts.
        """
        if not isinstance(self.categories[0], str):
            numbers = as_numbers(values)
            if numbers is None:
                raise ValueError(f"Column {self.name!r} has numbers as categories but holds texts.")
            known = np.asarray(self.categories)
            order = np.argsort(known)
            place = np.minimum(np.searchsorted(known[order], numbers), len(known) - 1)
            code = order[place]
            return np.where(known[code] == numbers, code, len(known))
        known_texts = {text_key(text): code for code, text in enumerate(self.categories)}
        texts, place = np.unique(as_texts(values), return_inverse=True)
        codes = [known_texts.get(text_key(text), len(known_texts)) for text in texts.tolist()]
        return np.asarray(codes, dtype=np.intp)[place]


class RowFacts:
    """The facts of one fit that nobody declared.

    Parameters
    ----------
    owner : str
        Name of the estimator's class, for the line to paste.
    local : bool
        Whether the rows are in this process, so that facts may be taken from them at all.
    declared : mapping, default=None
        What the user declared, by argument: repeated in the line to paste.
    """

    def __init__(
        self, owner: str, *, local: bool, declared: Mapping[str, Any] | None = None
    ) -> None:
        self.owner, self.local = owner, local
        self.names: list[str] = []
        given = {} if declared is None else declared
        self._arguments = {name: value for name, value in given.items() if value is not None}

    def take(self, name: str, argument: str, value: Any) -> None:
        """Note that ``argument=value`` was read off the rows."""
        if not self.local:
            raise ValueError(
                f"{self.owner}: {name} must be declared ({argument}=...), since the rows are on "
                "other machines and no party sends such facts."
            )
        self.names.append(name)
        self._arguments[argument] = value

    def warn(self) -> None:
        """One warning for the whole fit, if any fact was taken."""
        if self.names:
            line = ", ".join(f"{name}={value!r}" for name, value in self._arguments.items())
            warn(
                f"{', '.join(self.names)} were taken from the rows: epsilon holds only between "
                "data sets that agree on them. Declare what is publicly known instead, for "
                f"example {self.owner}({line}).",
                PublicFactWarning,
            )


def resolve_classes(
    classes: Sequence | None, rows: Rows, parties: Sequence[str], facts: RowFacts
) -> np.ndarray:
    """Sorted class labels, declared or found; refuses labels outside the declared ones.

    Parameters
    ----------
    classes : sequence or None
    rows : sequence of (X, y)
    parties : sequence of str
        Their names.
    facts : RowFacts

    Returns
    -------
    classes : ndarray of shape (n_classes,), sorted
    """
    labels = []
    for party, (_, y) in zip(parties, rows, strict=True):
        try:
            labels.append(np.unique(np.asarray(y)))
        except TypeError as error:
            raise ValueError(f"Party {party!r} mixes texts and numbers in its labels.") from error
    if len({present.dtype.kind in "OSU" for present in labels}) > 1:
        raise ValueError("Some parties' labels are texts and others' are numbers.")
    if classes is None:
        found = np.unique(np.concatenate(labels))
        if len(found) < 2:
            raise ValueError(
                f"{facts.owner} needs at least two classes and the rows hold 1 class. Declare the "
                "others: classes=[...]."
            )
        facts.take("classes", "classes", found.tolist())
        return found
    declared = np.unique(np.asarray(classes))
    if len(declared) < 2 or len(declared) != len(classes):
        raise ValueError(
            f"classes of {facts.owner} must be at least two distinct labels; got {classes!r}."
        )
    for name, present in zip(parties, labels, strict=True):
        if (label_codes(present, declared) < 0).any():
            raise ValueError(
                f"Party {name!r} holds labels outside classes={declared.tolist()} of "
                f"{facts.owner}. Declare every class, or correct the labels."
            )
    return declared


def declared_columns(
    categories: Any, bounds: Any, feature_names: Sequence[str]
) -> list[Column | None]:
    """What is declared of each column, in the forms of ``resolve_columns``; None for nothing."""
    declared_values = _by_column("categories", categories, feature_names)
    for_all = _is_pair(bounds)
    if for_all:
        bounds = [bounds] * len(feature_names)
    declared_bounds = _by_column("bounds", bounds, feature_names)
    columns: list[Column | None] = []
    for name, values, pair in zip(feature_names, declared_values, declared_bounds, strict=True):
        if values is not None and pair is not None and not for_all:
            raise ValueError(f"Column {name!r} has both categories and bounds; declare one.")
        if values is not None:
            columns.append(Column(name, _checked_categories(name, values)))
        elif pair is not None:
            columns.append(Column(name, (), *_checked_bounds(name, pair)))
        else:
            columns.append(None)
    return columns


def check_column(column: Column, j: int, rows: Rows, owners: Sequence[str]) -> None:
    """Refuse values that cannot be of a declared column, naming owner and column."""
    if column.numeric:
        _check_numeric(column.name, j, rows, owners, "bounds")
    elif isinstance(column.categories[0], str):
        _check_present(column.name, j, rows, owners)
    else:
        _check_numeric(column.name, j, rows, owners, "numbers as categories")


def resolve_columns(
    categories: Any,
    bounds: Any,
    rows: Rows,
    parties: Sequence[str],
    feature_names: Sequence[str],
    facts: RowFacts,
) -> tuple[Column, ...]:
    """What is publicly known of each column, declared or taken from the rows.

    Parameters
    ----------
    categories : dict, list or None
        Column name or index -> list of values; or a list with an entry, perhaps None, a column.
    bounds : pair, dict, list or None
        One ``(low, high)`` for all numeric columns; or as ``categories``, with pairs.
    rows : sequence of (X, y)
    parties : sequence of str
        Their names.
    feature_names : sequence of str
    facts : RowFacts
    """
    owners = [f"Party {party!r}" for party in parties]
    columns, found_values, found_bounds = [], {}, {}
    for j, column in enumerate(declared_columns(categories, bounds, feature_names)):
        name = feature_names[j]
        if column is not None:
            columns.append(column)
            check_column(column, j, rows, owners)
            continue
        parts = [part for X, _ in rows if (part := as_numbers(X[:, j])) is not None]
        if len(parts) < len(rows):
            texts = np.unique(np.concatenate([as_texts(X[:, j]) for X, _ in rows])).tolist()
            values = list({text_key(text): text for text in reversed(texts)}.values())[::-1]
            found_values[name] = values
            columns.append(Column(name, tuple(values)))
        else:
            _check_numeric(name, j, rows, owners, "no categories")
            low = float(min(part.min() for part in parts))
            high = float(max(part.max() for part in parts))
            if low == high:  # a constant column still needs a range
                low, high = low - 0.5, high + 0.5
            found_bounds[name] = (low, high)
            columns.append(Column(name, (), low, high))
    for argument, found, numeric in (
        ("categories", found_values, False),
        ("bounds", found_bounds, True),
    ):
        if found:
            every = {
                column.name: (column.low, column.high) if numeric else list(column.categories)
                for column in columns
                if column.numeric == numeric
            }
            facts.take(f"{argument} of {len(found)} columns", argument, every)
    return tuple(columns)


def cells_of(table: Any) -> Any:
    """A table whose cells keep their own types, and none of which is a date.

    numpy turns all rows of a list into texts if one cell is a text, and the unit of all dates is
    that of the finest: either would recode every row for one record.
    """
    if isinstance(table, list | tuple):
        try:
            kind: str = np.asarray(table).dtype.kind
        except ValueError:  # rows of unequal length: scikit-learn's to refuse
            return table
        table = np.asarray(table, dtype=object) if kind in "US" else table
        kinds: set[Any] = {kind}
    else:
        dtypes: Any = getattr(table, "dtypes", getattr(table, "dtype", None))
        columns = list(dtypes) if hasattr(dtypes, "__iter__") else [dtypes]
        kinds = {getattr(dtype, "kind", None) for dtype in columns}
    if kinds & {"m", "M"}:
        raise TypeError(
            "dates and durations have no unit of their own; convert them to numbers first, such "
            "as days since a fixed day."
        )
    return table


def label_codes(labels: Any, classes: np.ndarray) -> np.ndarray:
    """Index of each label among the classes, -1 for one that is not there, value by value."""
    known = {label: code for code, label in enumerate(np.asarray(classes).tolist())}
    values = np.asarray(labels, dtype=object).ravel().tolist()
    return np.array([known.get(value, -1) for value in values], dtype=np.int64)


def known_codes(labels: Any, classes: Sequence) -> np.ndarray:
    """The same where every label is known, or an error without the label."""
    codes = label_codes(labels, np.asarray(classes))
    if (codes < 0).any():
        raise ValueError(f"There are labels outside the classes {list(classes)}. Declare them all.")
    return codes


def as_numbers(values: np.ndarray) -> np.ndarray | None:
    """The column as float64, or None if it holds texts that are no numbers."""
    cells_of(values)
    try:
        return values.astype(np.float64)
    except ValueError:
        return None


def as_texts(values: np.ndarray) -> np.ndarray:
    """The column as texts, each made from its own value alone."""
    cells_of(values)
    if values.dtype.kind == "f":
        values = values.astype(np.float64)
    elif values.dtype == object:
        values = values.copy()
        values[:] = [float(v) if isinstance(v, np.floating) else v for v in values]
    return values.astype(str)


def text_key(text: str) -> str | float:
    """What a text stands for: the number that it spells the way numbers print, else itself."""
    if text in ("True", "False"):
        return float(text == "True")
    if re.fullmatch(r"-?(0|[1-9][0-9]*)", text):
        return float(text)
    try:
        number = float(text)
    except ValueError:
        return text
    if not isfinite(number) or text != str(number):
        return text
    # A fraction of 32 bits prints shorter than the same number in 64 bits.
    return number if number.is_integer() else float(np.float32(number))


def _check_numeric(name: str, j: int, rows: Rows, owners: Sequence[str], what: str) -> None:
    """Refuse texts and missing values where numbers are needed, naming owner and column."""
    for owner, (X, _) in zip(owners, rows, strict=True):
        try:
            numbers = as_numbers(X[:, j])
        except TypeError as error:  # not a number at all, such as pandas' NA
            raise TypeError(f"{owner}: column {name!r}: {error}") from error
        if numbers is not None and not np.isfinite(numbers).all():
            raise ValueError(f"{owner}: column {name!r} has missing or infinite values.")
        if numbers is None:
            raise ValueError(
                f"{owner}: column {name!r} has {what} but holds texts. Declare its "
                "categories as texts instead."
            )


def _check_present(name: str, j: int, rows: Rows, owners: Sequence[str]) -> None:
    """Refuse missing values among texts, naming owner and column."""
    for owner, (X, _) in zip(owners, rows, strict=True):
        if X.dtype == object and any(value is None for value in X[:, j]):
            raise ValueError(f"{owner}: column {name!r} has missing values.")


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, Sequence | np.ndarray)
        and len(value) == 2
        and all(isinstance(end, Real) for end in value)
    )


def _by_column(what: str, declared: Any, feature_names: Sequence[str]) -> list:
    """One entry, perhaps None, a column."""
    n = len(feature_names)
    if declared is None:
        return [None] * n
    if isinstance(declared, Mapping):
        entries: list = [None] * n
        for key, value in declared.items():
            index = int(key) if isinstance(key, Integral) else _index(what, key, feature_names)
            if not 0 <= index < n:
                raise ValueError(f"{what}: there is no column {key!r}; there are {n}.")
            if entries[index] is not None:
                raise ValueError(f"{what}: column {feature_names[index]!r} is declared twice.")
            entries[index] = value
        return entries
    if isinstance(declared, str) or not isinstance(declared, Sequence | np.ndarray):
        raise ValueError(f"{what} must be a dict, a list or None; got {declared!r}.")
    if len(declared) != n:
        raise ValueError(f"{what} must have an entry for each of {n} columns; got {len(declared)}.")
    return list(declared)


def _index(what: str, key: Any, feature_names: Sequence[str]) -> int:
    if key in feature_names:
        return list(feature_names).index(key)
    raise ValueError(f"{what}: there is no column {key!r}; the columns are {list(feature_names)}.")


def _checked_categories(name: str, values: Any) -> tuple:
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
        raise ValueError(f"categories of column {name!r} must be a list; got {values!r}.")
    values = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
    kinds = {str if isinstance(value, str) else _finite(value) for value in values}
    key = text_key if kinds == {str} else float
    known = {key(value) for value in values} if kinds in ({str}, {True}) else set()
    if kinds not in ({str}, {True}) or len(known) != len(values):
        raise ValueError(
            f"categories of column {name!r} must be distinct, and all texts or all numbers; got "
            f"{list(values)!r}."
        )
    return values


def _finite(value: Any) -> bool:
    return isinstance(value, Real) and isfinite(value)


def _checked_bounds(name: str, pair: Any) -> tuple[float, float]:
    if not _is_pair(pair):
        raise ValueError(f"bounds of column {name!r} must be a pair (low, high); got {pair!r}.")
    low, high = map(float, pair)
    if not (isfinite(low) and isfinite(high) and low < high):
        raise ValueError(
            f"bounds of column {name!r} must be finite with low < high; got ({low}, {high})."
        )
    return low, high
