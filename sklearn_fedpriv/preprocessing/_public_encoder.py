"""Rows as numbers of a known size, from public facts alone."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_fedpriv._sklearn import fit_context
from sklearn_fedpriv._wire import record
from sklearn_fedpriv.federation._federation import Federation
from sklearn_fedpriv.federation._inputs import looks_like_parties, map_tables
from sklearn_fedpriv.federation._public_facts import (
    Column,
    as_numbers,
    cells_of,
    check_column,
    declared_columns,
)


@record
@dataclass(frozen=True)
class EncodedColumns:
    """The encoding as data: what a federation sends to its parties.

    Parameters
    ----------
    names : tuple of str
        All columns, in order.
    columns : tuple of Column
        Those of which something is declared.
    places : tuple of int
        Their indices.
    unit_norm : bool
    """

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    places: tuple[int, ...]
    unit_norm: bool

    def widths(self) -> list[int]:
        """Number of output columns of each input column."""
        widths = [1] * len(self.names)
        for j, column in zip(self.places, self.columns, strict=True):
            widths[j] = 1 if column.numeric else len(column.categories)
        return widths

    def check(self, X: np.ndarray) -> None:
        """Refuse values that no code can be given to."""
        declared = dict(zip(self.places, self.columns, strict=True))
        for j, name in enumerate(self.names):
            if j in declared:
                check_column(declared[j], j, [(X, None)], ["This table"])
                continue
            numbers = as_numbers(X[:, j])
            if numbers is None or not np.isfinite(numbers).all():
                what = "texts" if numbers is None else "missing or infinite values"
                raise ValueError(
                    f"Column {name!r} holds {what} and nothing is declared of it. Declare its "
                    f"values: categories={{{name!r}: [...]}}."
                )

    def encode(self, X: np.ndarray) -> np.ndarray:
        """Encoded rows, float64 of shape (n_rows, sum of widths).

        Everything but the last division is done value by value, and that row by row: a row's code
        does not depend on the rows beside it.
        """
        self.check(X)
        ends = np.cumsum(self.widths())
        coded = np.zeros((X.shape[0], int(ends[-1])))
        declared = dict(zip(self.places, self.columns, strict=True))
        for j, end in enumerate(ends):
            column = declared.get(j)
            if column is None:
                coded[:, end - 1] = as_numbers(X[:, j])
            elif column.numeric:
                share = (as_numbers(X[:, j]) - column.low) / (column.high - column.low)
                coded[:, end - 1] = 2 * np.clip(share, 0, 1) - 1
            else:
                code = column.codes(X[:, j])
                known = np.flatnonzero(code < len(column.categories))
                coded[known, end - len(column.categories) + code[known]] = 1
        if self.unit_norm:
            largest = np.max(np.abs(coded), axis=1, keepdims=True, initial=0.0)
            np.divide(coded, largest, out=coded, where=largest > 0)
            length = np.sqrt(np.sum(coded * coded, axis=1, keepdims=True))
            np.divide(coded, length, out=coded, where=length > 0)
        return coded

    def apply(self, X, y):
        """The encoding inside one party."""
        names = getattr(X, "columns", None)
        if names is not None and tuple(map(str, names)) != self.names:
            raise ValueError(f"columns must be {list(self.names)}; got {list(names)}.")
        X = np.asarray(cells_of(X))
        if X.ndim != 2 or X.shape[1] != len(self.names):
            raise ValueError(f"X must have {len(self.names)} columns; got shape {X.shape}.")
        return self.encode(X), y


class PublicEncoder(TransformerMixin, BaseEstimator):
    """Scale, one-hot encode and bound rows by public facts alone: free of charge.

    Numeric columns with ``bounds`` become [-1, 1] (values outside count as the nearest bound),
    columns with ``categories`` one column a category (an unknown value: all zero), and every row
    is scaled to length 1, which is what private estimators need to know of a row. Nothing is
    learned from rows, so the step costs nothing, and it may stand before any estimator.

    Parameters
    ----------
    categories : dict or list, default=None
        Column name or index -> list of values; or a list with an entry, perhaps None, a column.
    bounds : pair, dict or list, default=None
        One ``(low, high)`` for all numeric columns; or as ``categories``, with pairs. In the units
        of the data, chosen without looking at the rows. Numeric columns of which nothing is
        declared stay as they are, up to the length of the row.
    unit_norm : bool, default=True
        Whether rows are scaled to Euclidean length 1; rows of zeros stay zero.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where the tables have names.

    Notes
    -----
    **Privacy**

    Unit: none; the step releases nothing.
    Sensitivity: a row moves its own code alone.
    Mechanism: none.
    Server sees: nothing; in a federation the declared facts travel to the parties.
    Not covered: facts that were declared after a look at the rows.

    Raises
    ------
    ValueError
        A column holds texts, or missing values, and has no categories.

    See Also
    --------
    sklearn_fedpriv.FederatedDPSVC : An estimator that wants rows of a known length.

    Examples
    --------
    >>> from sklearn_fedpriv.preprocessing import PublicEncoder
    >>> encoder = PublicEncoder(categories={1: ["a", "b"]}, bounds={0: (0, 10)}, unit_norm=False)
    >>> encoder.fit_transform([[2, "a"], [9, "c"]])
    array([[-0.6,  1. ,  0. ],
           [ 0.8,  0. ,  0. ]])
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "categories": ["array-like", dict, None],
        "bounds": ["array-like", dict, None],
        "unit_norm": ["boolean"],
    }

    def __init__(self, categories=None, bounds=None, *, unit_norm=True):
        self.categories = categories
        self.bounds = bounds
        self.unit_norm = unit_norm

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = self.categories is not None
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Check the columns; learn nothing.

        Parameters
        ----------
        X : table, list of parties or of tables, or Federation
        y : ignored

        Returns
        -------
        self : PublicEncoder
        """
        if isinstance(X, Federation):
            tables = [table for table, _ in X.transformed()]
        elif looks_like_parties(X):
            tables = []
            map_tables(tables.append, X)
        else:
            tables = [X]
        checked = [
            validate_data(self, cells_of(table), dtype=None, reset=i == 0)
            for i, table in enumerate(tables)
        ]
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        columns = declared_columns(self.categories, self.bounds, [str(name) for name in names])
        places = tuple(j for j, column in enumerate(columns) if column is not None)
        self._step = EncodedColumns(
            tuple(str(name) for name in names),
            tuple(columns[j] for j in places),
            places,
            bool(self.unit_norm),
        )
        for table in checked:
            self._step.check(table)
        return self

    def transform(self, X):
        """Encode one table, every table of a list of parties, or a federation's rows.

        Parameters
        ----------
        X : table, list of parties or of tables, or Federation

        Returns
        -------
        encoded : ndarray of shape (n_rows, n_features_out), list of parties, or Federation
            Of the same kind as ``X``; rows of a federation are encoded inside its parties.
        """
        check_is_fitted(self, "_step")
        if isinstance(X, Federation):
            return X.with_transform(self._step)
        return map_tables(self._encode, X)

    def get_feature_names_out(self, input_features=None):
        """Names of the output columns: the column's own, or ``column_category``.

        Parameters
        ----------
        input_features : ignored
            Present for scikit-learn; the names are those seen by ``fit``.

        Returns
        -------
        names : ndarray of str
        """
        check_is_fitted(self, "_step")
        names = self._given_names(input_features)
        declared = dict(zip(self._step.places, self._step.columns, strict=True))
        out = []
        for j, name in enumerate(names):
            categories = declared[j].categories if j in declared else ()
            out += [f"{name}_{value}" for value in categories] or [name]
        return np.asarray(out, dtype=object)

    def _given_names(self, input_features):
        if input_features is None:
            return self._step.names
        known = getattr(self, "feature_names_in_", None)
        if len(input_features) != len(self._step.names):
            raise ValueError("input_features should have length equal to number of features.")
        if known is not None and list(input_features) != list(known):
            raise ValueError("input_features is not equal to feature_names_in_")
        return list(input_features)

    def _encode(self, table):
        return self._step.encode(validate_data(self, cells_of(table), dtype=None, reset=False))

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_step")
