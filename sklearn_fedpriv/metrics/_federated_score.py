"""A score of a fitted model on the parties' rows, from one release of bounded counts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf, isfinite
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.pipeline import Pipeline

from sklearn_fedpriv._sklearn import n_rows_of, take_rows
from sklearn_fedpriv._warnings import warn
from sklearn_fedpriv._wire import record
from sklearn_fedpriv.exceptions import LocalFailure, NotPrivateWarning
from sklearn_fedpriv.federation._estimator import check_epsilon
from sklearn_fedpriv.federation._federation import Federation
from sklearn_fedpriv.federation._fingerprint import fingerprint_of
from sklearn_fedpriv.federation._inputs import gather_as_is
from sklearn_fedpriv.federation._public_facts import cells_of, label_codes
from sklearn_fedpriv.federation._query import RowQuery
from sklearn_fedpriv.preprocessing import PublicEncoder
from sklearn_fedpriv.privacy._ledger import PlannedRelease, budget
from sklearn_fedpriv.privacy._randomness import Stream, derive_key, seed_key
from sklearn_fedpriv.privacy._report import PrivacyReport
from sklearn_fedpriv.secure._protocol import SecureSum
from sklearn_fedpriv.tree import FederatedDPDecisionTree

SCORINGS = ("accuracy", "f1_weighted", "r2", "confusion_matrix")
_DRAWS = 1000  # of noise, for a standard error
# Exactly these work value by value; any other model predicts one row at a time.
_BY_ROW = (FederatedDPDecisionTree, PublicEncoder)


@record
@dataclass(frozen=True)
class Outcomes(RowQuery):
    """Rows by true and predicted class; or, with ``matrix=False``, right and wrong ones.

    A prediction outside the classes is wrong: a matrix has a last column for it.

    Parameters
    ----------
    n_classes : int
    matrix : bool
    """

    integral = True
    n_classes: int
    matrix: bool
    bound: int = 1

    @property
    def length(self) -> int:
        """A number a cell, or two."""
        return self.n_classes * (self.n_classes + 1) if self.matrix else 2

    def ticks(self, X, y, tools):
        """Codes of truth and prediction, then the definition: a row counts once."""
        return super().ticks(tools.code.outcomes(X, y), None, tools)

    def contributions(self, X, y):
        """A one at the row's cell; a true class that is not declared counts nowhere."""
        truth, said = X[:, 0], np.where(X[:, 1] < 0, self.n_classes, X[:, 1])
        cell = truth * (self.n_classes + 1) + said if self.matrix else (truth != said) * 1
        return ((truth >= 0)[:, None] & (cell[:, None] == np.arange(self.length))).astype(np.int64)


@record
@dataclass(frozen=True)
class Moments(RowQuery):
    """Rows, and sums of target, its square and the squared error, all scaled to [-1, 1].

    The target u counts from the middle of its bounds in units of their width: a row adds 1, 2u,
    4u^2 and the squared error, none above 1, so that its norm is 2 at most.

    Parameters
    ----------
    low, high : float
        Public bounds of the target; values and predictions outside count as the nearest.
    """

    low: float
    high: float
    length: int = 4
    bound: float = 2.0

    def ticks(self, X, y, tools):
        """Target and prediction, then the definition."""
        return super().ticks(tools.code.targets(X, y), None, tools)

    def contributions(self, X, y):
        """What each row of (target, prediction) adds."""
        inside = np.clip(np.nan_to_num(X), self.low, self.high)
        u, said = ((inside - self.low) / (self.high - self.low) - 0.5).T
        return np.column_stack([np.ones(len(u)), 2 * u, 4 * u**2, (said - u) ** 2])


@dataclass(frozen=True, eq=False)
class Predictor:
    """The model as party and server each have it.

    Parameters
    ----------
    model : fitted estimator
    classes : ndarray or None
    """

    model: Any
    classes: np.ndarray | None = None

    @cached_property
    def fingerprint(self) -> bytes:
        """Class, parameters, what was learned, and versions."""
        return fingerprint_of(self.model, self.classes, learned=True)

    def outcomes(self, X: Any, y: Any) -> np.ndarray:
        """Index of true and predicted class of each row, -1 for an unknown one."""
        assert self.classes is not None
        truth = label_codes(y, self.classes)
        said = [label_codes(part, self.classes) for part in predictions_by_row(self.model, X)]
        return np.column_stack([truth, np.concatenate([truth[:0], *said])])

    def targets(self, X: Any, y: Any) -> np.ndarray:
        """True and predicted target of each row."""
        truth = np.asarray(cells_of(y), dtype=np.float64)
        said = [part.astype(np.float64) for part in predictions_by_row(self.model, X)]
        return np.column_stack([truth, np.concatenate([truth[:0], *said])])


def predictions_by_row(model: Any, X: Any) -> Iterator[np.ndarray]:
    """Predictions in which no row has a say in another's (G7), in parts of one row or of all.

    A model might look at its neighbours, and libraries round otherwise for many rows than for few:
    either would let one record tip the predictions of others. So rows are predicted one by one,
    but for our own steps that work value by value; which of the two is public.
    """
    if type(model) is Pipeline:
        while len(model.steps) > 1 and type(model.steps[0][1]) is PublicEncoder:
            X, model = model.steps[0][1].transform(X) if n_rows_of(X) else X, model[1:]
        if len(model.steps) == 1:
            model = model.steps[0][1]
    if n_rows_of(X) and type(model) in _BY_ROW:
        yield _predicted(model, X)
        return
    for i in range(n_rows_of(X)):
        yield _predicted(model, take_rows(X, [i]))


def _predicted(model: Any, X: Any) -> np.ndarray:
    """One prediction a row, or an error that says nothing of the rows (G24)."""
    try:
        predictions = np.ravel(model.predict(X))
        kind = "" if len(predictions) == n_rows_of(X) else "wrong number of predictions"
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # of any kind: its text may quote rows
        kind = type(error).__name__
    if kind:
        raise LocalFailure(f"{type(model).__name__}.predict failed with a {kind}.")
    return predictions


def accuracy_of(counts: np.ndarray) -> float:
    """Right rows among right and wrong ones."""
    return float(np.clip(counts[0] / max(counts.sum(), 1.0), 0, 1))


def f1_weighted_of(counts: np.ndarray) -> float:
    """As scikit-learn's, from a confusion matrix."""
    matrix = counts.reshape(int(len(counts) ** 0.5), -1)
    hits, said, there = np.diag(matrix), matrix.sum(axis=0)[:-1], matrix.sum(axis=1)
    f1 = np.clip(2 * hits / np.maximum(said + there, 1.0), 0, 1)
    there = np.maximum(there, 0)
    return float((f1 * there).sum() / max(there.sum(), 1.0))


def r2_of(moments: np.ndarray) -> float:
    """1 - residual over total sum of squares."""
    n, u, squares, errors = moments[0], moments[1] / 2, moments[2] / 4, moments[3]
    total = squares - u**2 / max(n, 1.0)
    return float(1 - errors / total) if total > 0 else -inf


def standard_error(
    function: Callable[[np.ndarray], float], released: np.ndarray, sd: float
) -> float:
    """Standard deviation of ``function`` under noise of ``sd`` in each number.

    By a fixed sample of noise around what was released, so that limits of the score count; infinite
    where part of the sample gives no score at all.
    """
    if sd == 0:
        return 0.0
    bits = Stream(derive_key(bytes(32), "standard error")).uint64(_DRAWS * len(released))
    noise = ndtri(((bits >> np.uint64(11)) + 0.5) / 2.0**53).reshape(_DRAWS, -1)
    scores = np.array([function(released + sd * draw) for draw in noise])
    return float(scores.std()) if np.isfinite(scores).all() else inf


@dataclass(frozen=True)
class FederatedScore:
    """A released score.

    Attributes
    ----------
    value : float or ndarray
        The score; for a confusion matrix its noisy counts, rows for true classes.
    standard_error : float
        What the noise alone does to it (for a matrix: to each cell). It does not cover that the
        rows are a sample.
    privacy_ : PrivacyReport
        What the release cost.
    """

    value: Any
    standard_error: float
    privacy_: PrivacyReport

    def __float__(self) -> float:
        return float(self.value)

    def __str__(self) -> str:
        if np.ndim(self.value):
            return f"{np.round(self.value)}\n± {self.standard_error:.3g} a cell from the noise"
        return f"{self.value:.4f} ± {self.standard_error:.4f} from the noise"


@dataclass(frozen=True)
class _Trust:
    """What a federation is made of."""

    min_honest: int | None = None
    max_dropouts: int = 0
    secure_sum: str | SecureSum = "masks"
    n_jobs: int | None = None


def federated_score(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    parties: Any = None,
    scoring: str = "accuracy",
    epsilon: float = 1.0,
    delta: float = 1e-5,
    bounds: tuple[float, float] | None = None,
    classes: Sequence | None = None,
    min_honest: int | None = None,
    max_dropouts: int = 0,
    secure_sum: str | SecureSum = "masks",
    n_jobs: int | None = None,
    random_state: Any = None,
    verbose: int = 0,
) -> FederatedScore:
    """Score a fitted model on the rows of all parties, in private.

    Every party predicts its own rows and counts; one secure sum of the counts, with noise, is
    released. Use rows that the model was not fitted to, or both bills add up (``compose``).

    Parameters
    ----------
    model : fitted estimator
        Predicts one row at a time, so that no row has a say in another's prediction: slow for
        models that are slow to call. Keep nothing of one call for the next.
    X : list of parties, list of tables, table, or Federation
        As for ``fit``.
    y : array-like of shape (n_rows,), or list of them, default=None
    parties : array-like of shape (n_rows,), default=None
        With one table: the party that each row belongs to.
    scoring : {"accuracy", "f1_weighted", "r2", "confusion_matrix"}, default="accuracy"
        A prediction outside the classes is wrong; a confusion matrix has no column for it.
    epsilon : float, default=1.0
        Budget of the release, in (0, inf].
    delta : float, default=1e-5
        In (0, 1).
    bounds : (low, high), default=None
        Public bounds of the target, needed for ``"r2"``: values and predictions outside count as
        the nearest bound.
    classes : list, default=None
        All class labels; ``model.classes_`` by default.
    min_honest : int, default=None
        At least so many parties do not collude; ``None`` means all.
    max_dropouts : int, default=0
        So many parties may be missing from the sum.
    secure_sum : {"masks", "paillier", "plain"} or settings, default="masks"
    n_jobs : int, default=None
        Parties that compute at one time, as in joblib.
    random_state : int, RandomState, Generator or None, default=None
        Set, it makes the noise reproducible, and the score not private.
    verbose : int, default=0
        Above 0: one line a release.

    Returns
    -------
    score : FederatedScore
        With ``value``, ``standard_error`` and ``privacy_``; ``float(score)`` is the value.

    Notes
    -----
    **Privacy**

    Unit: one record added or removed.
    Sensitivity: 1 count, or a norm of 2 for ``"r2"``, held in ``Outcomes`` and ``Moments``; rows
    are predicted one at a time, but by our own steps that work value by value.
    Mechanism: discrete Gaussian noise in shares of the parties.
    Server sees: the noisy sums.
    Not covered: a model that keeps something of one call for the next, or prints it; and one that
    treats 1 and 1.0 differently, where a record decides how its party's table stores a column.

    Examples
    --------
    >>> from sklearn_fedpriv import FederatedDPDecisionTree
    >>> from sklearn_fedpriv.datasets import load_hospitals
    >>> from sklearn_fedpriv.metrics import federated_score
    >>> hospitals = load_hospitals()
    >>> tree = FederatedDPDecisionTree(epsilon=4.0, **hospitals.public).fit(hospitals.parties)
    >>> score = federated_score(tree, hospitals.parties, epsilon=1.0)
    >>> 0.0 <= score.value <= 1.0
    True
    """
    _check_arguments(scoring, epsilon, delta)
    known = _known_classes(model, classes) if scoring != "r2" else None
    query: RowQuery
    if known is None:
        query = Moments(*_target_bounds(bounds))
    else:
        query = Outcomes(len(known), scoring != "accuracy")
    federation = gather_as_is(_Trust(min_honest, max_dropouts, secure_sum, n_jobs), X, y, parties)
    _check_labels(federation, known)
    if epsilon == inf:
        warn("federated_score(epsilon=inf) adds no noise: nothing is protected.", NotPrivateWarning)
    run = federation.start(
        budget(epsilon, delta, "gaussian"),
        [PlannedRelease(type(query).__name__, 1, Fraction(1), query.length, query.squared_norm)],
        code=Predictor(model, known),
        seed=seed_key(random_state),
        verbose=verbose,
    )
    released = run.release(query, Fraction(1))
    sd = query.lattice.decode(np.ones(1))[0] * run.noise_sd(
        query.squared_sensitivity("add_remove"), 0, Fraction(1)
    )
    report = run.report()
    if scoring == "confusion_matrix":
        assert known is not None
        return FederatedScore(released.reshape(len(known), -1)[:, :-1], float(sd), report)
    function = {"accuracy": accuracy_of, "f1_weighted": f1_weighted_of, "r2": r2_of}[scoring]
    return FederatedScore(function(released), standard_error(function, released, sd), report)


def _check_arguments(scoring: str, epsilon: float, delta: float) -> None:
    if scoring not in SCORINGS:
        raise ValueError(f"scoring of federated_score must be one of {SCORINGS}; got {scoring!r}.")
    check_epsilon("federated_score", epsilon)
    if isinstance(delta, bool) or not isinstance(delta, Real) or not 0 < delta < 1:
        raise ValueError(f"delta of federated_score must be in (0, 1); got {delta!r}.")


def _known_classes(model: Any, classes: Sequence | None) -> np.ndarray:
    if classes is None:
        classes = getattr(model, "classes_", None)
        if classes is None:
            raise ValueError(
                f"{type(model).__name__} has no classes_; declare them: "
                "federated_score(..., classes=[...])."
            )
    known = np.unique(np.asarray(classes))
    if len(known) < 2:
        raise ValueError(f"classes must be at least two distinct labels; got {classes!r}.")
    return known


def _target_bounds(bounds: Any) -> tuple[float, float]:
    try:
        low, high = map(float, bounds)
    except (TypeError, ValueError):
        low = high = np.nan
    if not (isfinite(low) and isfinite(high) and low < high):
        raise ValueError(
            "scoring='r2' needs public bounds of the target, bounds=(low, high), finite and with "
            f"low < high; got {bounds!r}."
        )
    return low, high


def _check_labels(federation: Federation, known: np.ndarray | None) -> None:
    """Refuse rows without labels, or with labels of another kind or outside the classes."""
    for name, (X, y) in zip(federation.names, federation.rows, strict=True):
        if y is None:
            raise ValueError(f"Party {name!r} has no y; a score needs the rows' labels.")
        if n_rows_of(X) != n_rows_of(y):
            raise ValueError(f"Party {name!r} has more or fewer labels than rows.")
        for values in (X, y):
            cells_of(values)
        if known is not None and (label_codes(y, known) < 0).any():
            raise ValueError(
                f"Party {name!r} holds labels outside the classes {known.tolist()}. Declare every "
                "class: federated_score(..., classes=[...])."
            )
