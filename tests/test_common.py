"""scikit-learn's own checks, on every estimator, with no expected failure."""

import pytest
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_fedpriv import (
    ClusteredDPClassifier,
    ClusteredDPRegressor,
    DPHypeRandomizedSearchCV,
    DPHypeSearchCV,
    FederatedDPDecisionTree,
    FederatedDPNeuralNetClassifier,
    FederatedDPNeuralNetRegressor,
    FederatedDPSVC,
)
from sklearn_fedpriv.neural_network import SmallNet
from sklearn_fedpriv.preprocessing import PublicEncoder

# Without noise and on all rows: most checks have too few rows to train on samples of them.
NET = {"epsilon": 1e9, "sampling_rate": 1.0, "n_rows_hint": 200, "n_rounds": 60}
ESTIMATORS = [
    FederatedDPDecisionTree(),
    FederatedDPDecisionTree(epsilon=1e6),
    FederatedDPDecisionTree(epsilon=1e6, mechanism="laplace"),
    FederatedDPSVC(),
    FederatedDPSVC(epsilon=1e6),
    FederatedDPSVC(epsilon=1e6, kernel="rbf"),
    FederatedDPNeuralNetClassifier(SmallNet, **NET),
    FederatedDPNeuralNetRegressor(SmallNet, **NET),
    ClusteredDPClassifier(epsilon=1e9),
    ClusteredDPRegressor(epsilon=1e9),
    ClusteredDPRegressor(mechanism="metric", noise_ratio=1e-4),
    PublicEncoder(),
    DPHypeSearchCV(FederatedDPDecisionTree(epsilon=1e6, random_state=0), {"max_depth": [2, 4]}),
    DPHypeRandomizedSearchCV(Ridge(), {"alpha": [0.1, 1, 10]}, n_iter=2),
]


# The checks declare no public facts, and some fit on a dozen rows, where the noise drowns all. They
# fit a federation of one, whose votes count for little.
@pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.PublicFactWarning")
@pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.NoiseWarning")
@pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.SelectionNoiseWarning")
@pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.NotPrivateWarning")
@pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.LongRowsWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
