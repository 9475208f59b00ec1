"""Made-up rows, and what kind of numbers a net reads."""

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from sklearn_fedpriv._torch._known import BY_CLASS
from sklearn_fedpriv._torch._methods import as_rows
from sklearn_fedpriv._torch._net import device_of, seeded, trainable


def synthetic_rows(
    module: nn.Module,
    criterion: nn.Module,
    shape: tuple[int, ...],
    *,
    tokens: int | None = None,
    whole: bool = True,
    labels: bool = False,
    n_rows: int = 256,
) -> tuple[Tensor, Tensor]:
    """Made-up rows of one shape for :func:`check_row_independence`; no data, no global randomness.

    Parameters
    ----------
    module, criterion : nn.Module
    shape : tuple of int
        Shape of one row, without the axis of rows.
    tokens : int or None
        Rows of whole numbers below ``tokens``, for embeddings; None gives normal numbers.
    whole : bool
        Whether tokens are integers, not floats.
    labels : bool
        Whether targets are labels also where the criterion is not one of torch's for classes.
    n_rows : int

    Returns
    -------
    X, y : Tensor
        Labels if the criterion is one of torch's for classes, else numbers in (0, 1) in the shape
        of the output.
    """
    generator = torch.Generator().manual_seed(0)
    if tokens is None:
        X = torch.randn(n_rows, *shape, generator=generator)
    else:
        X = torch.randint(tokens, (n_rows, *shape), generator=generator)
        X = X if whole else X.to(torch.float64)
    like = trainable(module)[0][1]
    X = as_rows(like, X)
    with seeded(0, X.device), torch.no_grad():
        output = deepcopy(module).eval()(X[:2])
    if labels or isinstance(criterion, BY_CLASS):
        rest = output.shape[2:]
        y = torch.randint(output.shape[1], (n_rows, *rest), generator=generator)
    else:
        y = torch.rand(n_rows, *output.shape[1:], generator=generator)
    return X, as_rows(like, y)


def rows_read(module: nn.Module, shape: tuple[int, ...]) -> tuple[int | None, bool]:
    """What the net reads, found out by made-up rows: a count of tokens, and whether as integers.

    A net with an embedding may read real numbers all the same: a table of positions looks at no
    row, and a net may turn one column of many into an index. So a net reads integers only if it
    runs on nothing else.

    Returns
    -------
    tokens : int or None
        Made-up rows hold whole numbers below this; None: any numbers do.
    whole : bool
        Whether rows have to be of integer type.
    """
    sizes = [part.num_embeddings for part in module.modules() if isinstance(part, nn.Embedding)]
    if not sizes:
        return None, False
    for tokens, whole in ((None, False), (min(sizes), False), (min(sizes), True)):
        try:
            _embedded(module, shape, tokens, whole)
        except Exception:  # whatever it says to rows of the wrong kind
            continue
        return tokens, whole
    return min(sizes), True


def token_limit(module: nn.Module, shape: tuple[int, ...]) -> int | None:
    """Whole numbers from this on cannot be looked up; None if rows are not of integer type.

    The largest table that looks at the rows counts: columns may go to tables of several sizes, and
    which column goes where is the net's own business. A row that is too large for a smaller table
    adds nothing to a sum.

    Parameters
    ----------
    module : nn.Module
    shape : tuple of int
        Shape of one row.
    """
    tokens, whole = rows_read(module, shape)
    if not whole or tokens is None:
        return None
    try:
        one, other = (_embedded(module, shape, n, whole) for n in (tokens, 1))
    except Exception:  # it will be said by the check of the net
        return tokens
    looking = [
        part.num_embeddings
        for (part, a), (_, b) in zip(one, other, strict=False)
        if a.shape != b.shape or not torch.equal(a, b)
    ]
    return max(looking, default=tokens)


def _embedded(
    module: nn.Module, shape: tuple[int, ...], tokens: int | None, whole: bool
) -> list[tuple[nn.Embedding, Tensor]]:
    """What each embedding looks up in a run on made-up rows."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(64, *shape, generator=generator)
    if tokens is not None:
        X = torch.randint(tokens, X.shape, generator=generator)
        X = X if whole else X.to(torch.float64)
    seen: list[tuple[nn.Embedding, Tensor]] = []

    def keep(part: Any, inputs: tuple[Any, ...]) -> None:
        seen.append((part, inputs[0].clone()))

    module = deepcopy(module).eval()
    for part in module.modules():
        if isinstance(part, nn.Embedding):
            part.register_forward_pre_hook(keep)
    with seeded(0, device_of(module)), torch.no_grad():
        module(as_rows(trainable(module)[0][1], X))
    return seen
