"""The encoder learns nothing, bounds every row, and takes every form of input."""

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from sklearn_fedpriv import FederatedDPDecisionTree, Federation, Party
from sklearn_fedpriv.preprocessing import PublicEncoder

FRAME = pd.DataFrame({"age": [20.0, 90.0, 150.0], "ward": ["north", "south", "west"]})
FACTS = {"categories": {"ward": ["north", "south"]}, "bounds": {"age": (0, 100)}}


def test_codes_are_what_the_public_facts_say():
    coded = PublicEncoder(**FACTS, unit_norm=False).fit_transform(FRAME)
    assert np.array_equal(coded, [[-0.6, 1, 0], [0.8, 0, 1], [1.0, 0, 0]])


def test_names_are_the_column_s_or_the_category_s():
    encoder = PublicEncoder(**FACTS).fit(FRAME)
    assert list(encoder.get_feature_names_out()) == ["age", "ward_north", "ward_south"]
    frame = encoder.set_output(transform="pandas").transform(FRAME)
    assert list(frame.columns) == ["age", "ward_north", "ward_south"]


@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_have_length_one_whatever_their_neighbours(order):
    X = np.asarray(np.random.default_rng(0).normal(size=(40, 129)) * 1e150, order=order)
    X[0] = 0
    encoder = PublicEncoder().fit(X)
    coded = encoder.transform(X)
    assert np.array_equal(coded, np.vstack([encoder.transform(row[None]) for row in X]))
    assert np.allclose(np.linalg.norm(coded[1:], axis=1), 1, atol=1e-15)
    assert not coded[0].any()


def test_nothing_is_learned_from_the_rows():
    one = PublicEncoder(**FACTS).fit(FRAME)
    other = PublicEncoder(**FACTS).fit(FRAME.iloc[:1])
    assert one._step == other._step


def test_every_form_of_input_comes_out_as_it_came_in():
    encoder = PublicEncoder(**FACTS).fit(FRAME)
    coded, y = encoder.transform(FRAME), np.arange(3)
    (X_1, y_1), second = encoder.transform([(FRAME, y), Party(FRAME, y, name="b")])
    assert np.array_equal(X_1, coded) and y_1 is y
    assert isinstance(second, Party) and second.name == "b" and np.array_equal(second.X, coded)
    assert np.array_equal(encoder.transform([FRAME, FRAME])[1], coded)
    federation = encoder.transform(Federation([(FRAME, y)]))
    assert np.array_equal(federation.transformed()[0][0], coded)


def test_an_encoded_party_keeps_its_ledger_and_a_federation_its_own():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(0, 100, 60), "ward": rng.choice(["north"], 60)})
    clinics = [Party(frame, rng.integers(0, 2, 60), name=name) for name in "ab"]
    tree = FederatedDPDecisionTree(bounds=(-1, 1), classes=[0, 1], n_rows_hint=100)
    model = make_pipeline(PublicEncoder(**FACTS), tree).fit(clinics)
    assert clinics[0].ledger.epsilon == 1
    model.fit(Federation(clinics))
    assert clinics[1].ledger.epsilon == 2


def test_all_forms_give_one_model():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.uniform(0, 100, 80), "ward": rng.choice(["north", "x"], 80)})
    y = (frame["age"] > 50).to_numpy()
    parties = [(frame[i::2], y[i::2]) for i in (0, 1)]
    facts = {"bounds": (-1, 1), "classes": [False, True], "n_rows_hint": 80, "max_depth": 2}
    tree = FederatedDPDecisionTree(random_state=0, epsilon=10, **facts)
    model = make_pipeline(PublicEncoder(**FACTS), tree)
    expected = model.fit(parties).predict_proba(frame)
    for call in (
        lambda: model.fit([X for X, _ in parties], [y for _, y in parties]),
        lambda: model.fit(Federation(parties)),
        lambda: model.fit(frame, y, federateddpdecisiontree__parties=np.arange(80) % 2),
    ):
        assert np.array_equal(call().predict_proba(frame), expected)


@pytest.mark.parametrize(
    ("facts", "table", "message"),
    [
        ({}, FRAME, "Column 'ward' holds texts and nothing is declared"),
        (FACTS, FRAME.assign(age=["x", "1", "2"]), "This table: column 'age' has bounds but holds"),
        ({"categories": {"door": ["a"]}}, FRAME, "no column 'door'"),
        ({**FACTS, "bounds": {"age": (5, 5)}}, FRAME, "low < high"),
    ],
)
def test_wrong_tables_and_facts_are_refused(facts, table, message):
    with pytest.raises(ValueError, match=message):
        PublicEncoder(**facts).fit(table)


def test_a_federation_with_other_columns_is_refused():
    encoder = PublicEncoder(**FACTS).fit(FRAME)
    with pytest.raises(ValueError, match="columns must be"):
        encoder.transform(Federation([(FRAME[["ward", "age"]], np.arange(3))])).transformed()


def test_the_same_party_twice_is_refused_also_when_encoded():
    party = Party(FRAME, np.arange(3))
    with pytest.raises(ValueError, match="came twice"):
        Federation(PublicEncoder(**FACTS).fit(FRAME).transform([party, party]))


def test_G7_one_record_with_a_fraction_recodes_nobody_else():
    X = pd.DataFrame({"kind": np.tile([1, 2], 50), "size": np.arange(100)})
    more = pd.concat([X, pd.DataFrame({"kind": [1], "size": [0.5]})], ignore_index=True)
    encoder = PublicEncoder(categories={"kind": ["1", "2"]}, bounds={"size": (0, 100)}).fit(X)
    assert np.array_equal(encoder.transform(more)[:-1], encoder.transform(X))
    assert (encoder.transform(X)[:, :2].max(axis=1) > 0).all()
