import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_breast_cancer

from sklearn_fedpriv.datasets import load_hospitals


@pytest.fixture(scope="module")
def hospitals():
    return load_hospitals()


def sorted_rows(X, y):
    table = np.column_stack([X, y])
    return table[np.lexsort(table.T)]


@pytest.mark.parametrize("n_parties", [1, 2, 5, 40, 426])
def test_every_row_is_in_one_hospital_or_held_out(n_parties):
    hospitals = load_hospitals(n_parties=n_parties)
    X = np.concatenate([X for X, _ in hospitals.parties] + [hospitals.X_test])
    y = np.concatenate([y for _, y in hospitals.parties] + [hospitals.y_test])
    assert len(hospitals.parties) == n_parties
    assert min(len(y) for _, y in hospitals.parties) >= 1
    assert_array_equal(sorted_rows(X, y), sorted_rows(*load_breast_cancer(return_X_y=True)))
    pooled = np.concatenate([hospitals.data, hospitals.X_test])
    target = np.concatenate([hospitals.target, hospitals.y_test])
    assert_array_equal(sorted_rows(pooled, target), sorted_rows(X, y))


def test_hospitals_are_unequal_and_see_both_classes(hospitals):
    sizes = [len(y) for _, y in hospitals.parties]
    assert sizes == [147, 98, 73, 59, 49]
    assert all(X.shape == (len(y), 30) for X, y in hospitals.parties)
    assert all(set(y) == {0, 1} for _, y in hospitals.parties)


@pytest.mark.parametrize("seed", range(5))
def test_the_largest_hospital_sees_most_malignant_cases(seed):
    malignant = [np.mean(y == 0) for _, y in load_hospitals(random_state=seed).parties]
    assert malignant[0] == max(malignant)
    assert malignant[0] > np.mean(malignant[1:]) + 0.1


def test_held_out_rows_are_a_stratified_quarter(hospitals):
    assert hospitals.X_test.shape == (143, 30)
    assert abs(hospitals.y_test.mean() - 357 / 569) < 0.005


def test_public_facts_are_ready_for_a_constructor(hospitals):
    assert sorted(hospitals.public) == ["bounds", "classes"]
    assert hospitals.public["classes"] == [0, 1]
    assert len(hospitals.public["bounds"]) == 30
    assert all(low < high for low, high in hospitals.public["bounds"])
    assert hospitals.feature_names == list(load_breast_cancer().feature_names)
    assert hospitals.target_names == ["malignant", "benign"]


def test_bounds_stand_in_the_order_of_the_columns(hospitals):
    bounds = dict(zip(hospitals.feature_names, hospitals.public["bounds"], strict=True))
    assert bounds["mean radius"] == (5, 25)
    assert bounds["area error"] == (0, 200)
    assert bounds["worst fractal dimension"] == (0.05, 0.15)


def test_few_values_lie_beyond_the_bounds_and_sixteen_bins_are_useful(hospitals):
    X = load_breast_cancer().data
    low, high = np.transpose(hospitals.public["bounds"])
    assert np.mean((X < low) | (X > high), axis=0).max() < 0.03
    bins = np.clip(np.floor((X - low) / (high - low) * 16), 0, 15).astype(int)
    assert min(len(np.unique(column)) for column in bins.T) >= 12


def test_changing_the_public_facts_changes_only_that_bunch(hospitals):
    load_hospitals().public["classes"].append(2)
    assert load_hospitals().public["classes"] == [0, 1]


def test_the_seed_fixes_the_data(hospitals):
    again, other = load_hospitals(random_state=0), load_hospitals(random_state=1)
    for (X, y), (X_again, y_again) in zip(hospitals.parties, again.parties, strict=True):
        assert_array_equal(X, X_again)
        assert_array_equal(y, y_again)
    assert_array_equal(hospitals.X_test, again.X_test)
    assert not np.array_equal(hospitals.X_test, other.X_test)


def test_description_names_source_and_licence(hospitals):
    assert "Wolberg" in hospitals.DESCR
    assert "CC BY 4.0" in hospitals.DESCR


@pytest.mark.parametrize("n_parties", [0, 427, 2.0, True, "5"])
def test_wrong_number_of_hospitals_is_refused(n_parties):
    with pytest.raises(ValueError, match=r"'n_parties' .* int in the range \[1, 426\]. Got"):
        load_hospitals(n_parties=n_parties)
