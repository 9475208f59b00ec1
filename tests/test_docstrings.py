"""Public docstrings say what the signature takes, and estimators state their guarantee."""

import importlib
import inspect
import re

import pytest
from sklearn.pipeline import make_pipeline

import sklearn_fedpriv
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
from sklearn_fedpriv.datasets import load_hospitals

ESTIMATORS = [FederatedDPDecisionTree, FederatedDPSVC]
NETS = [FederatedDPNeuralNetClassifier, FederatedDPNeuralNetRegressor]
CLUSTERED = [ClusteredDPClassifier, ClusteredDPRegressor]
SEARCHES = [DPHypeSearchCV, DPHypeRandomizedSearchCV]
PACKAGES = [
    "",
    ".privacy",
    ".secure",
    ".federation",
    ".preprocessing",
    ".cluster",
    ".neural_network",
    ".svm",
    ".tree",
    ".model_selection",
    ".metrics",
    ".datasets",
    ".audit",
    ".plotting",
]
LABELS = ("Unit:", "Sensitivity:", "Mechanism:", "Server sees:", "Not covered:")


def public():
    seen = {}
    for package in PACKAGES:
        module = importlib.import_module(f"sklearn_fedpriv{package}")
        for name in module.__all__:
            seen[name] = getattr(module, name)
    return sorted(seen.items())


def section(text, title):
    """Lines of one numpydoc section."""
    match = re.search(rf"^{title}\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", text, re.M | re.S)
    return match.group(1) if match else ""


def documented(text):
    """Names at the left margin of a section, in order."""
    heads = re.findall(r"^(\*{0,2}\w[\w, *]*)(?: :.*)?$", text, re.M)
    return [name.strip(" *") for head in heads for name in head.split(",")]


@pytest.mark.parametrize(("name", "thing"), public(), ids=[name for name, _ in public()])
def test_every_parameter_is_documented_in_order(name, thing):
    text = inspect.getdoc(thing)
    assert text and text.split("\n")[0].endswith((".", "?")), name
    parameters = [
        p for p in inspect.signature(thing).parameters if p not in ("self", "args", "kwargs")
    ]
    described = documented(section(text, "Parameters"))
    if name == "PrivacyReport":  # made by fits, described by its attributes
        described = documented(section(text, "Attributes"))
        assert set(parameters) == set(described)
    elif name == "FederatedScore":
        assert set(parameters) == set(documented(section(text, "Attributes")))
    elif name != "Ceiling":
        assert parameters == described


@pytest.mark.parametrize("estimator", [*ESTIMATORS, *NETS, *CLUSTERED, *SEARCHES])
def test_an_estimator_states_its_guarantee(estimator):
    text = inspect.getdoc(estimator)
    # Not a section of its own: scikit-learn's HTML form of an estimator warns of unknown ones.
    privacy = section(text, "Notes")
    assert privacy.startswith("**Privacy**\n")
    assert re.findall(r"^([A-Z][a-z ]+:)", privacy, re.M) == list(LABELS)
    for title in ("Attributes", "Raises", "See Also", "References", "Examples"):
        assert section(text, title), title


def fitted(estimator):
    """An estimator that was told what it takes of the hospitals' public facts."""
    from sklearn_fedpriv.datasets import load_hospitals

    hospitals = load_hospitals()
    known = {**hospitals.public, "bound": 5000.0}
    taken = inspect.signature(estimator).parameters
    facts = {name: fact for name, fact in known.items() if name in taken}
    # Enough that no noise is worth a warning.
    return estimator(epsilon=100.0, **facts).fit(hospitals.parties)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_fitted_attributes_are_those_documented(estimator):
    model = fitted(estimator)
    kept = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    described = set(documented(section(inspect.getdoc(estimator), "Attributes")))
    assert kept <= described
    assert all(hasattr(model, name) for name in described - {"feature_names_in_"})


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_server_sees_the_queries_that_are_named(estimator):
    model = fitted(estimator)
    named = re.search(r"Server sees: ([\w, ]+);", inspect.getdoc(estimator)).group(1)
    assert {name for name, _ in model.privacy_.releases} <= set(named.split(", "))


@pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.NoiseWarning")
@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("estimator", CLUSTERED)
def test_what_a_clustered_fit_keeps_and_asks_is_documented(estimator, told):
    hospitals = load_hospitals()
    model = estimator(mechanism="metric", hide_membership=not told, n_rounds=2)
    if "classes" in model.get_params():
        model.set_params(classes=hospitals.public["classes"])
    model.fit(hospitals.parties)
    described = set(documented(section(inspect.getdoc(estimator), "Attributes")))
    absent = {"feature_names_in_"} if told else {"feature_names_in_", "choices_"}
    kept = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    assert kept == described - absent
    named = re.search(r"Server sees: ([\w, ]+);", inspect.getdoc(estimator)).group(1)
    assert {name for name, _ in model.privacy_.releases} <= set(named.split(", "))


def test_the_html_form_of_an_estimator_is_made_without_a_warning():
    assert "epsilon" in make_pipeline(FederatedDPDecisionTree(), FederatedDPSVC())._repr_html_()


@pytest.mark.parametrize("search", SEARCHES)
def test_what_a_search_keeps_and_asks_is_documented(search):
    from sklearn_fedpriv.datasets import load_hospitals

    hospitals = load_hospitals()
    tree = FederatedDPDecisionTree(n_rows_hint=400, **hospitals.public)
    model = search(tree, {"max_depth": [1, 2, 3]}, epsilon=9.0)
    if "n_iter" in model.get_params():
        model.set_params(n_iter=2)
    model.fit(hospitals.parties)
    described = set(documented(section(inspect.getdoc(search), "Attributes")))
    assert {name for name in vars(model) if name.endswith("_")} <= described
    assert all(hasattr(model, name) for name in described - {"feature_names_in_"})
    named = re.search(r"Server sees: ([\w, ]+);", inspect.getdoc(search)).group(1)
    assert set(dict(model.privacy_.releases)) - {"LevelHistogram"} == {named}


def test_the_version_is_one():
    text = importlib.import_module("importlib.metadata").version("sklearn-fedpriv")
    assert text == sklearn_fedpriv.__version__
