import gzip
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal, assert_series_equal
from sklearn.utils import Bunch

from sklearn_fedpriv.datasets import _fetch, fetch_adult, fetch_nursery

pytestmark = pytest.mark.data

FETCHERS = [fetch_nursery, fetch_adult]


@pytest.fixture(scope="module")
def nursery():
    return fetch_nursery()


@pytest.fixture(scope="module")
def adult():
    return fetch_adult()


def read(name):
    path = Path(os.environ["SKLEARN_FEDPRIV_DATA"]) / name
    return pd.read_csv(path, keep_default_na=False)


def as_openml(frame, target):
    """Return the table as OpenML has it: hyphens, NaN, floats and categories."""
    frame = frame.rename(columns={target: "class"})
    for name in frame:
        if pd.api.types.is_numeric_dtype(frame[name]):
            frame[name] = frame[name].astype(float)
        else:
            frame[name] = frame[name].astype(object).replace("?", np.nan).astype("category")
    return frame.rename(columns=lambda name: name if "_nurs" in name else name.replace("_", "-"))


def serve(monkeypatch, frame):
    """Let OpenML answer with this frame, or fail with this exception; return the calls it got."""
    calls = []

    def fetch_openml(**kwargs):
        calls.append(kwargs)
        if isinstance(frame, Exception):
            raise frame
        return Bunch(frame=frame)

    monkeypatch.setattr(_fetch, "fetch_openml", fetch_openml)
    monkeypatch.delenv("SKLEARN_FEDPRIV_DATA")
    return calls


def test_nursery_has_the_documented_rows_and_class_shares(nursery):
    assert nursery.data.shape == (12960, 8)
    assert nursery.target.value_counts().to_dict() == {
        "not_recom": 4320,
        "priority": 4266,
        "spec_prior": 4044,
        "very_recom": 328,
        "recommend": 2,
    }


def test_nursery_is_all_combinations_of_its_categories(nursery):
    sizes = [len(values) for values in nursery.public["categories"].values()]
    assert np.prod(sizes) == 12960
    assert not nursery.data.duplicated().any()


def test_adult_has_the_documented_rows_and_class_counts(adult):
    assert adult.data.shape == (32561, 12)
    assert adult.data_test.shape == (16281, 12)
    assert (adult.target == ">50K").sum() == 7841
    assert (adult.target_test == ">50K").sum() == 3846
    assert list(adult.data_test) == list(adult.data) == adult.feature_names


def test_adult_keeps_missing_answers_as_a_category(adult):
    missing = (adult.data == "?").sum()
    assert missing[missing > 0].to_dict() == {
        "workclass": 1836,
        "occupation": 1843,
        "native_country": 583,
    }
    assert all(kind == "int64" for kind in adult.data[list(adult.public["bounds"])].dtypes)


def test_few_adult_values_lie_beyond_the_bounds(adult):
    for name, (low, high) in adult.public["bounds"].items():
        assert low < high
        for table in (adult.data, adult.data_test):
            assert (~table[name].between(low, high)).mean() < 0.01


@pytest.mark.parametrize("fetch", FETCHERS)
def test_every_column_is_declared_once_and_every_value_is_declared(fetch):
    data = fetch()
    assert set(data.public) <= {"categories", "bounds", "classes"}
    categories, bounds = data.public["categories"], data.public.get("bounds", {})
    assert sorted([*categories, *bounds]) == sorted(data.feature_names)
    assert list(data.data) == data.feature_names
    for name, values in categories.items():
        assert len(set(values)) == len(values)
        assert set(data.data[name]) == set(values)


@pytest.mark.parametrize("fetch", FETCHERS)
def test_classes_are_complete_and_sorted(fetch):
    data = fetch()
    assert data.public["classes"] == sorted(set(data.target))
    assert "CC BY 4.0" in data.DESCR


@pytest.mark.parametrize("fetch", FETCHERS)
def test_changing_the_public_facts_changes_only_that_bunch(fetch):
    public = fetch().public
    for values in public["categories"].values():
        values.clear()
    public["classes"].clear()
    fresh = fetch()
    assert all(fresh.public["categories"].values())
    assert fresh.public["classes"]


def test_nursery_from_openml_equals_the_file(monkeypatch, nursery):
    calls = serve(monkeypatch, as_openml(read("nursery.csv.gz"), "class"))
    data = fetch_nursery()
    assert_frame_equal(data.data, nursery.data)
    assert_series_equal(data.target, nursery.target)
    assert calls == [{"name": "nursery", "version": 1, "as_frame": True, "data_home": None}]


@pytest.mark.parametrize("test_first", [True, False])
def test_adult_from_openml_equals_the_files(monkeypatch, adult, test_first, tmp_path):
    frames = [read("adult_test.csv.gz"), read("adult_train.csv.gz")]
    both = pd.concat(frames if test_first else frames[::-1], ignore_index=True)
    calls = serve(monkeypatch, as_openml(both, "income"))
    data = fetch_adult(data_home=tmp_path)
    assert_frame_equal(data.data, adult.data)
    assert_series_equal(data.target, adult.target)
    assert_frame_equal(data.data_test, adult.data_test)
    assert_series_equal(data.target_test, adult.target_test)
    assert calls == [{"name": "adult", "version": 2, "as_frame": True, "data_home": tmp_path}]


@pytest.mark.parametrize("n_rows", [100, 48842])
def test_adult_from_openml_in_an_unknown_order_is_refused(monkeypatch, n_rows):
    both = pd.concat([read("adult_train.csv.gz"), read("adult_test.csv.gz")], ignore_index=True)
    serve(monkeypatch, as_openml(both.sort_values("fnlwgt", ignore_index=True)[:n_rows], "income"))
    with pytest.raises(OSError, match="official test rows were not found"):
        fetch_adult()


def test_data_home_goes_before_the_environment(monkeypatch, tmp_path, nursery):
    source = Path(os.environ["SKLEARN_FEDPRIV_DATA"]) / "nursery.csv.gz"
    shutil.copy(source, tmp_path)
    monkeypatch.setenv("SKLEARN_FEDPRIV_DATA", str(tmp_path / "nowhere"))
    assert_frame_equal(fetch_nursery(data_home=tmp_path).data, nursery.data)
    assert_frame_equal(fetch_nursery(data_home=str(tmp_path)).data, nursery.data)


@pytest.mark.parametrize("fetch", FETCHERS)
def test_one_error_says_that_no_folder_was_given_and_why_openml_failed(monkeypatch, fetch):
    serve(monkeypatch, TimeoutError("the line is dead."))
    with pytest.raises(OSError) as info:
        fetch()
    message = str(info.value)
    assert (
        "no folder was given (data_home, or environment variable SKLEARN_FEDPRIV_DATA)" in message
    )
    assert "failed with TimeoutError: the line is dead." in message
    assert "into a folder and pass it as data_home" in message


def test_the_error_names_the_folder_and_what_is_missing_in_it(monkeypatch, tmp_path):
    calls = serve(monkeypatch, ValueError("no such data."))
    (tmp_path / "adult_train.csv.gz").touch()
    with pytest.raises(OSError, match=r"\(from data_home\) has no adult_test.csv.gz, and OpenML"):
        fetch_adult(data_home=tmp_path)
    monkeypatch.setenv("SKLEARN_FEDPRIV_DATA", str(tmp_path))
    with pytest.raises(OSError, match="from environment variable SKLEARN_FEDPRIV_DATA. has no"):
        fetch_nursery()
    assert [call["data_home"] for call in calls] == [tmp_path, None]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[: text.rindex("\n", 0, -1) + 1], "12959 rows, not 12960"),
        (lambda text: text.replace("health", "wealth"), "Columns .'health'. are missing"),
        (lambda text: text.replace("foster", "castle"), "Column 'form' holds .'castle'."),
        (lambda text: text.replace(",spec_prior", ",special"), "Column 'class' holds .'special'."),
    ],
)
def test_a_wrong_file_is_refused_and_openml_is_not_asked(monkeypatch, tmp_path, change, message):
    source = Path(os.environ["SKLEARN_FEDPRIV_DATA"]) / "nursery.csv.gz"
    text = gzip.decompress(source.read_bytes()).decode()
    (tmp_path / "nursery.csv.gz").write_bytes(gzip.compress(change(text).encode()))
    calls = serve(monkeypatch, None)
    with pytest.raises(OSError, match=f"cannot use them: .*{message}"):
        fetch_nursery(data_home=tmp_path)
    assert calls == []


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "nursery.csv.gz").write_bytes(b"not gzip")
    with pytest.raises(OSError, match="fetch_nursery found .* but cannot use them"):
        fetch_nursery(data_home=tmp_path)


@pytest.mark.parametrize("fetch", FETCHERS)
def test_without_pandas_the_error_says_what_to_install(monkeypatch, fetch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=rf"{fetch.__name__} needs pandas: pip install pandas"):
        fetch()
