"""FEMNIST's writers and the made-up laws."""

import numpy as np
import pytest

from sklearn_fedpriv.datasets import fetch_femnist, make_two_laws


@pytest.mark.data
def test_every_image_of_every_writer_is_there():
    plain = fetch_femnist()
    assert len(plain.parties) == len(plain.parties_test) == len(plain.party_names) == 105
    assert sum(len(y) for _, y in plain.parties) == 14_626
    assert sum(len(y) for _, y in plain.parties_test) == 1_662
    X, y = plain.parties[0]
    assert X.dtype == np.float32 and X.shape == (len(y), 784)
    assert X.min() == 0 and X.max() == 1
    assert X.mean() < 0.5  # ink is 1, and there is less of it than paper
    assert plain.public["classes"] == list(range(62)) and len(plain.characters) == 62
    assert not plain.turned.any()


@pytest.mark.data
def test_turned_writers_are_turned_and_the_others_are_not():
    plain, turned = fetch_femnist(), fetch_femnist(turned=0.5, random_state=3)
    assert 30 < turned.turned.sum() < 75
    for i in range(0, 105, 8):
        for one, two in zip(plain.parties[i], turned.parties[i], strict=True):
            if one.ndim == 2 and turned.turned[i]:
                one = np.rot90(one.reshape(-1, 28, 28), axes=(1, 2)).reshape(one.shape)
            assert (one == two).all()
    assert (fetch_femnist(turned=0.5, random_state=3).turned == turned.turned).all()
    assert fetch_femnist(turned=1.0).turned.all()


def test_a_missing_file_is_named(tmp_path, monkeypatch):
    with pytest.raises(OSError, match="cannot use"):
        fetch_femnist(data_home=tmp_path)
    monkeypatch.delenv("SKLEARN_FEDPRIV_DATA", raising=False)
    with pytest.raises(OSError, match="pass it as data_home"):
        fetch_femnist()
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        fetch_femnist(turned=2.0)


def test_laws_hold_and_parties_take_turns():
    made = make_two_laws(n_parties=7, n_rows=50, noise=0.1, random_state=0)
    assert sorted(made.members.tolist()) == [0, 0, 0, 0, 1, 1, 1]
    for (X, y), member in zip(made.parties, made.members, strict=True):
        assert X.shape == (50, 2)
        assert np.std(y - X @ made.laws[member]) < 0.15
        assert np.std(y - X @ made.laws[1 - member]) > 2
    straight = make_two_laws(n_parties=4, shuffle=False)
    assert straight.members.tolist() == [0, 1, 0, 1]
    three = make_two_laws(laws=np.eye(3), random_state=0)
    assert three.parties[0][0].shape == (10, 3) and set(three.members) == {0, 1, 2}
    again = make_two_laws(n_parties=7, n_rows=50, noise=0.1, random_state=0)
    assert all((a[0] == b[0]).all() for a, b in zip(made.parties, again.parties, strict=True))


@pytest.mark.parametrize("settings", [{"n_parties": 0}, {"n_rows": True}, {"noise": -1.0}])
def test_laws_that_make_no_sense_are_refused(settings):
    with pytest.raises(ValueError, match="of make_two_laws must be"):
        make_two_laws(**settings)
