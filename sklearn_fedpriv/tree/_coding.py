"""Rows as small whole numbers: the index of a category or of a public bin."""

import warnings
from dataclasses import dataclass

import numpy as np

from sklearn_fedpriv._wire import record
from sklearn_fedpriv.exceptions import UnknownValueWarning
from sklearn_fedpriv.federation._public_facts import Column, as_numbers, known_codes


@record
@dataclass(frozen=True)
class TableCoder:
    """Codes of columns and classes; applied inside each party, and by ``predict``.

    A numeric column is cut into ``n_bins`` bins of equal width between its public bounds; an edge
    belongs to the bin below it, values outside to the nearest bin. A value outside the declared
    categories gets the code ``n_values[j]``, which no histogram counts.

    Parameters
    ----------
    columns : tuple of Column
    n_bins : int
    classes : tuple of labels, sorted
    """

    columns: tuple[Column, ...]
    n_bins: int
    classes: tuple

    @property
    def n_values(self) -> np.ndarray:
        """Number of categories or bins of each column, int64 of shape (n_features,)."""
        return np.array(
            [self.n_bins if column.numeric else len(column.categories) for column in self.columns]
        )

    def encode(self, X: np.ndarray) -> np.ndarray:
        """Codes of a table, int32 of the same shape, columns contiguous."""
        codes = np.empty(X.shape, dtype=np.int32, order="F")
        for j, column in enumerate(self.columns):
            codes[:, j] = self._bins(column, X[:, j]) if column.numeric else column.codes(X[:, j])
        return codes

    def apply(self, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Codes of one party's rows and labels; warns once of values that count nowhere."""
        codes = self.encode(X)
        unknown = (codes == self.n_values).any(axis=0)
        if unknown.any():
            names = [column.name for column, bad in zip(self.columns, unknown, strict=True) if bad]
            warnings.warn(
                f"values outside the declared categories of {', '.join(names)} are counted "
                "nowhere. Declare them, or correct the rows.",
                UnknownValueWarning,
                stacklevel=2,
            )
        return codes, known_codes(y, self.classes)

    def edges(self, column: Column) -> np.ndarray:
        """Inner edges of the bins of a numeric column, shape (n_bins - 1,)."""
        return np.linspace(column.low, column.high, self.n_bins + 1)[1:-1]

    def _bins(self, column: Column, values: np.ndarray) -> np.ndarray:
        numbers = as_numbers(values)
        if numbers is None:
            raise ValueError(f"Column {column.name!r} has bounds but holds texts.")
        return np.searchsorted(self.edges(column), numbers, side="left")
