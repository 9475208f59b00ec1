"""Small estimators and parties for the tests of the search."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from sklearn_fedpriv.exceptions import FedPrivError


class Known(ClassifierMixin, BaseEstimator):
    """A classifier whose score is its parameter; can fail, count and tell on itself."""

    seen: list = []

    def __init__(self, quality=0.0, fails=None):
        self.quality = quality
        self.fails = fails

    def fit(self, X, y):
        if self.fails == "foreign":
            raise KeyError(f"secret {X[0, 0]}")
        if self.fails == "ours":
            raise FedPrivError(f"secret {X[0, 0]}")
        if self.fails == "exit":
            raise SystemExit(f"secret {X[0, 0]}")
        if self.fails == "many" and len(X) > 200:
            raise KeyError("too many")
        self.seen.append((self.quality, len(X)))
        self.classes_ = np.unique(y)
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])

    def score(self, X, y):
        return self.quality


def parties(n_parties=4, n_rows=20, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(n_rows, 3)), np.arange(n_rows) % 2) for _ in range(n_parties)]
