"""The linear model in numpy: loss, local training and predictions from one vector of parameters."""

from dataclasses import dataclass

import numpy as np

from sklearn_fedpriv._wire import record
from sklearn_fedpriv.federation._public_facts import known_codes


@record
@dataclass(frozen=True)
class LabelCoder:
    """Labels as whole numbers from 0, made inside each party.

    Parameters
    ----------
    classes : tuple of labels, sorted
    """

    classes: tuple

    def apply(self, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows, and the index of each label."""
        return X, known_codes(y, self.classes)


@record
@dataclass(frozen=True)
class LinearModel:
    """Least squares for numbers, multinomial logistic regression for classes.

    A vector of parameters holds the coefficients of each output in turn, then the intercepts.

    Parameters
    ----------
    n_features : int
    n_classes : int
        0 for regression.
    intercept : bool
    learning_rate : float
        Length of a step along the gradient of the mean loss. On rows so long that it would diverge
        a party takes shorter steps.
    """

    n_features: int
    n_classes: int
    intercept: bool
    learning_rate: float

    @property
    def n_outputs(self) -> int:
        """One for numbers and for two classes."""
        return self.n_classes if self.n_classes > 2 else 1

    @property
    def n_parameters(self) -> int:
        """Coefficients and intercepts."""
        return self.n_outputs * (self.n_features + self.intercept)

    def parts(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of shape (n_outputs, n_features), intercepts of shape (n_outputs,)."""
        cut = self.n_outputs * self.n_features
        constants = weights[cut:] if self.intercept else np.zeros(self.n_outputs)
        return weights[:cut].reshape(self.n_outputs, self.n_features), constants

    def outputs(self, weights: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Scores of shape (n_rows, n_outputs)."""
        coefficients, constants = self.parts(weights)
        scores: np.ndarray = X @ coefficients.T + constants
        return scores

    def probabilities(self, weights: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Of each class, shape (n_rows, n_classes)."""
        scores = self.outputs(weights, X)
        if self.n_outputs == 1:
            scores = np.hstack([np.zeros_like(scores), scores])
        scores = scores - scores.max(axis=1, keepdims=True)
        raised = np.exp(scores)
        return raised / raised.sum(axis=1, keepdims=True)

    def loss(self, weights: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
        """Mean squared error, or mean cross-entropy with classes as whole numbers from 0."""
        with np.errstate(all="ignore"):
            if self.n_classes:
                own = self.probabilities(weights, X)[np.arange(len(y)), y]
                return float(-np.log(np.maximum(own, 1e-300)).mean())
            return float(((self.outputs(weights, X)[:, 0] - y) ** 2).mean())

    def gradient(self, weights: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Of the mean loss."""
        if self.n_classes:
            off = self.probabilities(weights, X)
            off[np.arange(len(y)), y] -= 1
            off = off[:, -self.n_outputs :]
        else:
            off = 2 * (self.outputs(weights, X) - y[:, None])
        off = off / len(y)
        parts = [(off.T @ X).ravel()]
        if self.intercept:
            parts.append(off.sum(axis=0))
        return np.concatenate(parts)

    def train(
        self, weights: np.ndarray, X: np.ndarray, y: np.ndarray, batches: list, seed: int
    ) -> np.ndarray:
        """What gradient steps on these batches of rows add to ``weights``."""
        with np.errstate(all="ignore"):
            # The gradient of the mean loss changes by at most this times the way gone.
            bend = (0.5 if self.n_classes else 2.0) * ((X * X).sum(axis=1).mean() + self.intercept)
            step = min(self.learning_rate, 1 / bend) if bend > 0 else self.learning_rate
            moved = weights.copy()
            for batch in batches:
                moved -= step * self.gradient(moved, X[batch], y[batch])
            return moved - weights
