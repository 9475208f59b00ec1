"""Hospital charges: the rows are those of the files, held to public bounds."""

import numpy as np
import pytest

from sklearn_fedpriv.datasets._charges import BOUNDS, TARGET_BOUNDS, fetch_hospital_charges

pytestmark = pytest.mark.data


def test_rows_and_parties():
    charges = fetch_hospital_charges()
    assert len(charges.parties) == len(charges.party_names) == 3151
    assert charges.data.shape == (11_915, 3) and charges.target.shape == (11_915,)
    sizes = [len(y) for _, y in charges.parties]
    assert sum(sizes) == 11_915 and sizes.count(4) == 2738
    for i in (0, 17, 3150):
        X, y = charges.parties[i]
        assert (X == charges.data[charges.groups == i]).all()
        assert (y == charges.target[charges.groups == i]).all()
        assert (np.diff(X[:, 0]) > 0).all()  # a service at most once, in order


def test_scaled_rows_lie_in_the_public_bounds():
    charges = fetch_hospital_charges()
    low, high = np.array(charges.public["bounds"]).T
    assert (charges.data >= low).all() and (charges.data <= high).all()
    assert charges.target.min() > 0 and charges.target.max() <= 1


def test_both_forms_hold_the_same_rows():
    scaled, plain = fetch_hospital_charges(), fetch_hospital_charges(scaled=False)
    low, high = np.array(list(BOUNDS.values()), float).T
    assert np.allclose((scaled.data + 1) / 2 * (high - low) + low, plain.data)
    assert np.allclose(scaled.target * scaled.target_scale, plain.target)
    assert plain.public["target_bounds"] == TARGET_BOUNDS
    first = plain.data[:, 0] == 0
    assert abs(plain.target[first].mean() - 6963.25) < 10  # published, before the bound


def test_a_missing_folder_is_named(tmp_path, monkeypatch):
    with pytest.raises(OSError, match="cannot use"):
        fetch_hospital_charges(data_home=tmp_path)
    monkeypatch.delenv("SKLEARN_FEDPRIV_DATA")
    with pytest.raises(OSError, match="pass it as data_home"):
        fetch_hospital_charges()
