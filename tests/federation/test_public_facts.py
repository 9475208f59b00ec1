"""Public facts in all their spellings, and what happens when one is left out."""

import numpy as np
import pandas as pd
import pytest

from sklearn_fedpriv.exceptions import PublicFactWarning
from sklearn_fedpriv.federation._public_facts import (
    Column,
    RowFacts,
    cells_of,
    known_codes,
    label_codes,
    resolve_classes,
    resolve_columns,
)

NAMES = ["age", "colour", "dose"]
ROWS = [
    (np.array([[20, "red", 0.5], [40, "blue", 0.5]], dtype=object), np.array([0, 1])),
    (np.array([[90, "green", 0.5]], dtype=object), np.array([2])),
]


def resolve(categories=None, bounds=None, rows=ROWS, local=True):
    facts = RowFacts("Tree", local=local)
    parties = [str(i) for i in range(len(rows))]
    return resolve_columns(categories, bounds, rows, parties, NAMES, facts), facts


COLOURS = ["red", "green", "blue"]


@pytest.mark.parametrize(
    ("categories", "bounds"),
    [
        ({"colour": COLOURS}, (0, 100)),
        ({1: COLOURS}, {"age": (0, 100), 2: (0, 100)}),
        ([None, COLOURS, None], [(0, 100), None, (0, 100)]),
        ({"colour": np.array(COLOURS)}, np.array([0, 100])),
        ({np.int64(1): tuple(COLOURS)}, [0, 100]),
    ],
)
def test_every_spelling_means_the_same(categories, bounds):
    columns, facts = resolve(categories, bounds)
    assert columns == (
        Column("age", (), 0.0, 100.0),
        Column("colour", ("red", "green", "blue")),
        Column("dose", (), 0.0, 100.0),
    )
    assert facts.names == []


def test_what_is_left_out_is_taken_from_all_parties_and_told():
    columns, facts = resolve()
    assert columns[0] == Column("age", (), 20.0, 90.0)
    assert columns[1].categories == ("blue", "green", "red")
    assert columns[2] == Column("dose", (), 0.0, 1.0)  # constant: widened
    assert facts.names == ["categories of 1 columns", "bounds of 2 columns"]
    with pytest.warns(PublicFactWarning, match=r"Tree\(categories=\{'colour': \['blue', 'green'"):
        facts.warn()


def test_rows_elsewhere_give_no_facts():
    with pytest.raises(ValueError, match="must be declared .*no party sends such facts"):
        resolve(local=False)
    with pytest.raises(ValueError, match="classes must be declared"):
        resolve_classes(None, ROWS, ["0", "1"], RowFacts("Tree", local=False))


@pytest.mark.parametrize(
    ("categories", "bounds", "message"),
    [
        ({"colour": COLOURS, "hue": []}, None, "no column 'hue'; the columns are"),
        ({3: COLOURS}, None, "no column 3; there are 3"),
        ({-1: COLOURS}, None, "no column -1"),
        ([COLOURS], None, "entry for each of 3 columns; got 1"),
        ("red", None, "must be a dict, a list or None"),
        ({"colour": ["red", 1]}, None, "all texts or all numbers"),
        ({"colour": ["red", "red"]}, None, "distinct"),
        ({"colour": []}, None, "distinct, and all"),
        ({"colour": COLOURS}, {"age": 3}, "must be a pair"),
        ({"colour": COLOURS}, {"age": (1, 1)}, "low < high"),
        ({"colour": COLOURS}, {"age": (2, 1)}, "low < high"),
        ({"colour": COLOURS}, {"age": (0, float("nan"))}, "finite"),
        ({"colour": COLOURS}, {"age": (0, float("inf"))}, "finite"),
        (None, {"colour": (0, 1)}, "Party '0': column 'colour' has bounds but holds texts"),
        ({"colour": [1, 2]}, None, "Party '0': column 'colour' has numbers as categories"),
    ],
)
def test_facts_that_make_no_sense_name_the_column(categories, bounds, message):
    with pytest.raises(ValueError, match=message):
        resolve(categories, bounds)


def test_codes_of_texts_and_numbers():
    texts = Column("colour", ("red", "green", "blue"))
    values = np.array(["blue", "red", "pink", None], dtype=object)
    assert texts.codes(values).tolist() == [2, 0, 3, 3]
    numbers = Column("grade", (5, 1, 2))
    assert numbers.codes(np.array([1, 5, 2.0, 7, np.nan])).tolist() == [1, 0, 2, 3, 3]
    assert numbers.codes(np.array(["1", "5"], dtype=object)).tolist() == [1, 0]
    with pytest.raises(ValueError, match="numbers as categories but holds texts"):
        numbers.codes(np.array(["one"]))


ODD_ROWS = [0.5, np.float32(0.1), np.nan, "x", True, 2**53 + 1, -0.0, None, "1.0", 1e300]


@pytest.mark.parametrize("odd", ODD_ROWS)
@pytest.mark.parametrize(
    "values",
    [[1, 2, 3, 0], [1.0, 2.0, 0.1, 7.0], np.float32([0.1, 1]), ["1", "2", "03"], [True, False]],
)
def test_G7_a_code_does_not_hang_on_how_other_values_are_stored(values, odd):
    """One value more may turn a whole array into floats, texts or objects."""
    column = Column("kind", ("1", "2", "0", "03", str(float(np.float32(0.1)))))
    before = np.array(values)
    codes = column.codes(before)
    for more in (
        np.array([*values, odd]),
        np.array([*before, odd], dtype=object),
        np.concatenate([before.astype(object), [odd]]),
    ):
        assert np.array_equal(column.codes(more)[:-1], codes)
        assert column.codes(more)[-1] == column.codes(np.array([odd], dtype=object))[0]


def test_G7_large_floats_are_coded_by_value_not_by_how_they_print():
    """32 bits print 123456792 as 123456790.0."""
    column = Column("kind", ("123456792", "123456790"))
    large = np.float32([123456792])
    for values in (large, large.astype(float), large.astype(object)):
        assert column.codes(values).tolist() == [0]


def test_a_text_stands_for_the_number_that_it_spells():
    column = Column("kind", ("1", "02", "1e+16", "red"))
    assert column.codes(np.array([1, 1.0, True, "1.0"], dtype=object)).tolist() == [0] * 4
    assert column.codes(np.array(["01", "02", "2", "red"])).tolist() == [4, 1, 4, 3]
    assert column.codes(np.array([10**16, 2])).tolist() == [2, 4]
    for twice in (["1", "1.0"], ["True", "1"], ["red", "red"]):
        with pytest.raises(ValueError, match="must be distinct"):
            resolve({"colour": twice}, (0, 100))


def test_texts_of_one_party_and_numbers_of_another_are_one_category():
    rows = [(np.array([[1], [2]]), None), (np.array([["1"], ["red"]], dtype=object), None)]
    facts = RowFacts("Tree", local=True)
    [column] = resolve_columns(None, None, rows, ["a", "b"], ["kind"], facts)
    assert column.categories == ("1", "2", "red")


DAYS = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]")


@pytest.mark.parametrize(
    "table", [DAYS, [[day] for day in DAYS], DAYS - DAYS[0]], ids=["days", "list", "spans"]
)
def test_G7_dates_have_no_unit_and_are_refused(table):
    """One record with an hour would turn the days of all others into hours."""
    with pytest.raises(TypeError, match="convert them to numbers"):
        cells_of(table)
    frame = pd.DataFrame({"a": [1, 2], "when": pd.to_datetime(["2020-01-01", "2020-01-02"])})
    for values in (frame, frame["when"], frame[["when"]]):
        with pytest.raises(TypeError, match="convert them to numbers"):
            cells_of(values)
    assert cells_of(frame[["a"]]) is not None and cells_of(frame["a"]) is not None


def test_G7_cells_of_a_list_keep_their_types():
    rows = [[np.float32(0.1), 1], [0.5, "2"]]
    cells = cells_of(rows)
    assert cells.dtype == object and isinstance(cells[0, 0], np.float32)
    assert cells_of([[0.1, 1]]) == [[0.1, 1]] and cells_of([[1], [1, 2]]) == [[1], [1, 2]]


@pytest.mark.parametrize("labels", [[3, 1, "2"], np.array(["3", "1"]), [3, None], [True, "x"]])
def test_G7_one_text_among_labels_recodes_nobody(labels):
    """numpy compares texts with numbers by their spelling, and sorts them by it."""
    classes = np.arange(25)
    codes = label_codes(labels, classes)
    for label, code in zip(labels, codes, strict=True):
        assert code == label_codes([label], classes)[0]
    with pytest.raises(ValueError, match="outside the classes"):
        known_codes(labels, tuple(range(25)))
    facts = RowFacts("Tree", local=True)
    rows = [(np.zeros((30, 1)), np.append(np.arange(29) % 25, "3"))]
    with pytest.raises(ValueError, match="holds labels outside"):
        resolve_classes(list(range(25)), rows, ["a"], facts)


def test_labels_are_coded_by_their_value():
    assert label_codes([2.0, np.int64(1), True, 7], np.array([1, 2])).tolist() == [1, 0, 0, -1]
    assert known_codes(np.array([["b"], ["a"]]), ("a", "b")).tolist() == [1, 0]


def test_classes_are_the_union_or_the_declared_ones():
    facts = RowFacts("Tree", local=True)
    assert resolve_classes(None, ROWS, ["0", "1"], facts).tolist() == [0, 1, 2]
    assert facts.names == ["classes"]
    declared = resolve_classes([3, 2, 1, 0], ROWS, ["0", "1"], RowFacts("Tree", local=False))
    assert declared.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"Party 'b' holds labels outside classes=\[0, 1\]"):
        resolve_classes([0, 1], ROWS, ["a", "b"], facts)
