"""The picture of hypotheses on their way."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from sklearn_fedpriv import ClusteredDPRegressor
from sklearn_fedpriv.datasets import make_two_laws
from sklearn_fedpriv.plotting import ClusterPathDisplay


@pytest.fixture(scope="module")
def fitted():
    laws = make_two_laws(n_parties=6, random_state=0)
    return ClusteredDPRegressor(epsilon=1e5, n_rounds=4, n_clusters=3, random_state=0).fit(
        laws.parties
    )


def test_the_released_path_is_drawn_from_start_to_end(fitted):
    display = ClusterPathDisplay.from_estimator(fitted, laws=[[5, 6], [4, -4.5]])
    assert len(display.lines_) == 3
    for j, line in enumerate(display.lines_):
        assert (line.get_xydata() == fitted.history_["hypotheses"][:, j, :2]).all()
    assert display.ax_.get_xlabel() == "parameter 0"
    marks = [line.get_xydata() for line in display.ax_.lines]
    for j in range(3):
        assert any(np.array_equal(mark, fitted.hypotheses_[j : j + 1, :2]) for mark in marks)
    assert any(np.array_equal(mark, [[5, 6], [4, -4.5]]) for mark in marks)


def test_axes_and_parameters_can_be_chosen(fitted):
    ax = Figure().add_subplot()
    display = ClusterPathDisplay.from_estimator(fitted, parameters=(2, 0), ax=ax)
    assert display.ax_ is ax and display.figure_ is ax.figure
    assert (display.lines_[0].get_xydata() == fitted.history_["hypotheses"][:, 0, [2, 0]]).all()


def test_without_a_path_there_is_no_picture(fitted):
    laws = make_two_laws(n_parties=3, laws=[[1.0]], random_state=0)
    model = ClusteredDPRegressor(epsilon=1e5, n_rounds=2, fit_intercept=False).fit(laws.parties)
    with pytest.raises(ValueError, match="no path of two parameters"):
        ClusterPathDisplay.from_estimator(model)
