"""scikit-learn's own checks, on every estimator, with no expected failure."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_fedpriv import FederatedDPDecisionTree, FederatedDPSVC
from sklearn_fedpriv.preprocessing import PublicEncoder

ESTIMATORS = [
    FederatedDPDecisionTree(),
    FederatedDPDecisionTree(epsilon=1e6),
    FederatedDPDecisionTree(epsilon=1e6, mechanism="laplace"),
    FederatedDPSVC(),
    FederatedDPSVC(epsilon=1e6),
    FederatedDPSVC(epsilon=1e6, kernel="rbf"),
    PublicEncoder(),
]


# The checks declare no public facts, and some fit on a dozen rows, where the noise drowns all.
@pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.PublicFactWarning")
@pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.NoiseWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
