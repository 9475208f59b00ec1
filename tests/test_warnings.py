"""Every warning names the line of the user who can do something about it."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from sklearn_fedpriv import DPHypeSearchCV, FederatedDPDecisionTree, FederatedDPSVC
from sklearn_fedpriv.datasets import load_hospitals
from sklearn_fedpriv.exceptions import (
    LongRowsWarning,
    NoiseWarning,
    NotPrivateWarning,
    PublicFactWarning,
    SelectionNoiseWarning,
    UnknownValueWarning,
    UnprovenPrivacyWarning,
)
from sklearn_fedpriv.metrics import federated_score
from sklearn_fedpriv.preprocessing import PublicEncoder
from tests.model_selection.toys import Known

HOSPITALS = load_hospitals()
TREE = FederatedDPDecisionTree(**HOSPITALS.public)
SVC = FederatedDPSVC(bound=5000.0, classes=HOSPITALS.public["classes"])
CASES = {
    NotPrivateWarning: lambda e: clone(e).set_params(epsilon=np.inf),
    UnprovenPrivacyWarning: lambda e: clone(e).set_params(calibration="published"),
    PublicFactWarning: lambda e: clone(e).set_params(classes=None),
    NoiseWarning: lambda e: clone(e).set_params(epsilon=1e-4),
}


def lines_of(category, call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return {warning.filename for warning in caught if warning.category is category}


@pytest.mark.parametrize("wrap", [lambda e: e, make_pipeline], ids=["alone", "in a pipeline"])
@pytest.mark.parametrize("estimator", [TREE, SVC], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("category", CASES)
def test_a_fit_warns_at_the_users_line(category, estimator, wrap):
    model = CASES[category](estimator)
    if "n_rows_hint" in model.get_params():
        model.set_params(n_rows_hint=400)
    assert lines_of(category, lambda: wrap(model).fit(HOSPITALS.parties)) == {__file__}


def test_parties_warn_at_the_users_line():
    short = clone(SVC).set_params(bound=1.0)
    assert lines_of(LongRowsWarning, lambda: short.fit(HOSPITALS.parties)) == {__file__}
    tree = FederatedDPDecisionTree(categories=[["a"]], classes=[0, 1])
    X, y = np.array([["a"], ["b"]], dtype=object), [0, 1]
    assert lines_of(UnknownValueWarning, lambda: tree.fit(X, y)) == {__file__}


def test_searches_and_scores_warn_at_the_users_line():
    search = DPHypeSearchCV(Known(), {"quality": [0.1, 0.2]}, epsilon=0.1)
    for category in (SelectionNoiseWarning, NotPrivateWarning):
        assert lines_of(category, lambda: search.fit(HOSPITALS.parties)) == {__file__}
    encoder = PublicEncoder(bounds=HOSPITALS.public["bounds"])
    svc = clone(SVC).set_params(bound=1.0, epsilon=100.0)
    model = make_pipeline(encoder, svc).fit(HOSPITALS.parties)

    def score():
        federated_score(model, HOSPITALS.parties, epsilon=np.inf)

    assert lines_of(NotPrivateWarning, score) == {__file__}
