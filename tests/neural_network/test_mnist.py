"""A short private fit on MNIST; the long ones are in ``benchmarks/neural_network.py``."""

import os

import pytest

from sklearn_fedpriv import FederatedDPNeuralNetClassifier

pytestmark = [
    pytest.mark.slow,
    pytest.mark.data,
    pytest.mark.skipif("SKLEARN_FEDPRIV_DATA" not in os.environ, reason="no data here"),
]


def test_ten_parties_learn_digits():
    from benchmarks.neural_network import estimator, images, parties_of

    X, y, X_test, y_test = images()
    fitted = estimator(epsilon=3.0, n_rounds=15, sampling_rate=0.02, random_state=0)
    assert isinstance(fitted, FederatedDPNeuralNetClassifier)
    fitted.fit(parties_of(X, y))
    assert fitted.score(X_test[:2000], y_test[:2000]) > 0.5
    assert fitted.privacy_.releases == (("ClippedGradient", 15),)
