"""Rows that a net cannot read are refused before anything is charged, where they are at hand.

Later they could only be left out, without a word. Texts name party and column, and no value.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from sklearn_fedpriv.federation._federation import Federation
from sklearn_fedpriv.neural_network._queries import NetRows


def check_sizes(federation: Federation, limit: int) -> None:
    """Refuse a party of more rows than the noise covers the float errors of."""
    if not limit:
        raise ValueError(
            "The net is so large that the float errors of its gradients are not bounded "
            "tightly enough. Use fewer parameters, or float64."
        )
    for name, (X, _) in zip(federation.names, federation.rows, strict=True):
        if len(X) > limit:
            raise ValueError(
                f"Party {name!r}: with this net one party may hold at most {limit} rows, as "
                "float sums are bounded for so many, and it holds more. Split it in several."
            )


def check_values(
    tables: Sequence[tuple[str, Any, Any]],
    net: Any,
    rows: NetRows,
    columns: Sequence[str],
    *,
    tokens: bool,
) -> None:
    """Refuse tokens that no embedding has and targets that the criterion raises on.

    Parameters
    ----------
    tables : sequence of (str, array, array)
        What to call them; rows and targets as they came.
    net : NeuralNet
    rows : NetRows
    columns : sequence of str
        Their names, where rows are flat and have any.
    tokens : bool
        Whether the net looks numbers of the rows up in embeddings.
    """
    module = deepcopy(net.module_).cpu().eval()  # a GPU does not recover from such an error
    criterion = deepcopy(net.criterion_).cpu()
    for who, X, y in tables:
        if tokens:
            for column, allowed in _strange_tokens(X, module, rows):
                name = columns[column] if X.ndim == 2 and len(columns) else f"x{column}"
                raise ValueError(
                    f"{who}: column {name!r} holds what {type(module).__name__} does not read: it "
                    f"is looked up in an embedding, so it must be whole numbers{allowed}"
                )
        if not rows.classes:
            _check_targets(who, X, y, rows, module, criterion)


def embedding_sizes(module: Any) -> list[int]:
    """How many tokens the embeddings know, from the smallest."""
    parts = module.modules()
    return sorted({part.num_embeddings for part in parts if hasattr(part, "num_embeddings")})


def _strange_tokens(X: np.ndarray, module: Any, rows: NetRows) -> Iterator[tuple[int, str]]:
    """Columns with values that the net does not read; what it reads there, and what to do."""
    flat, sizes = X.reshape(len(X), -1), embedding_sizes(module)
    row = np.zeros((1, *X.shape[1:]))

    def reads(column: int, value: int) -> bool:
        row.reshape(-1)[column] = value
        made = _tensor(module, rows.rows(row))
        row.reshape(-1)[column] = 0
        return _runs(lambda: module(made))

    if rows.whole and not np.issubdtype(flat.dtype, np.integer):
        cut = ". Code the column in whole steps that are public, and scale it back in forward."
        yield from ((int(j), cut) for j in np.flatnonzero((flat != np.floor(flat)).any(axis=0)))
    # What the smallest embedding has no row for may go to a larger one, or to none at all.
    for column in np.flatnonzero(((flat < 0) | (flat >= sizes[0])).any(axis=0)):
        values = flat[:, column]
        limit = next((size for size in sizes if not reads(column, size)), None)
        if (limit is not None and values.max() >= limit) or (
            values.min() < 0 and not reads(column, -1)
        ):
            range_ = f" from 0{'' if limit is None else f' to {limit - 1}'}"
            yield int(column), range_ + ". Raise num_embeddings, or keep a number for the unknown."


def _check_targets(who: str, X: Any, y: Any, rows: NetRows, module: Any, criterion: Any) -> None:
    """The smallest and the largest target, as losses take all that is between two they take."""
    kept = [int(np.argmin(y)), int(np.argmax(y))]
    _, targets = rows.apply(X[kept], y[kept])
    output = module(_tensor(module, np.zeros((1, *X.shape[1:]), dtype=rows.rows(X[:1]).dtype)))
    for target in targets:
        made = _tensor(module, target[None])
        if not _runs(lambda made=made: criterion(output, made)):
            raise ValueError(
                f"{who}: y holds targets that {type(criterion).__name__} does not take. Scale "
                "them by public bounds to the numbers that it is made for, or use MSELoss."
            )


def _runs(work: Callable[[], Any]) -> bool:
    """Whether it raises nothing; what it says may quote a value and is not kept."""
    try:
        work()
    except Exception:
        return False
    return True


def _tensor(module: Any, values: np.ndarray) -> Any:
    from sklearn_fedpriv._torch._gradients import as_rows
    from sklearn_fedpriv._torch._net import trainable

    return as_rows(trainable(module)[0][1], values)
