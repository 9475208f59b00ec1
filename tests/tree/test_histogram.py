"""The level histogram: fast and slow counts agree, and no row moves them further than charged."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_fedpriv._wire import from_bytes, to_bytes
from sklearn_fedpriv.exceptions import ProtocolError
from sklearn_fedpriv.federation._query import RowQuery
from sklearn_fedpriv.tree._growth import Growth
from sklearn_fedpriv.tree._histogram import LevelHistogram, RowCount
from sklearn_fedpriv.tree._splits import Schema

SCHEMA = Schema(np.array([3, 4, 2]), np.array([False, True, False]), 3)


def level_query(seed, n_levels=2, laplace=False):
    """A query of some level of a tree grown on random answers."""
    rng = np.random.default_rng(seed)
    growth = Growth(SCHEMA, 500.0, laplace=laplace)
    query = growth.ask(lambda squared, absolute: 1.0)
    for _ in range(n_levels):
        growth.learn(rng.integers(0, 100, size=query.length) * query.weight.max())
        query = growth.ask(lambda squared, absolute: 1.0) or query
    return query


@st.composite
def coded_rows(draw):
    """Rows with every code that may occur, unknown values, and codes and classes that may not."""
    n = draw(st.integers(0, 12))
    code = st.sampled_from([-(2**15), -1, 5, 9, 2**15 - 1])
    X = np.array(
        [[draw(st.integers(0, int(k)) | code) for k in SCHEMA.n_values] for _ in range(n)]
    ).reshape(n, 3)
    y = np.array([draw(st.integers(-1, 3)) for _ in range(n)], dtype=np.int64)
    return X.astype(np.int16), y


@settings(deadline=None)
@given(st.integers(0, 30), st.booleans(), coded_rows())
def test_the_fast_count_equals_the_definition(seed, laplace, table):
    query = level_query(seed, laplace=laplace)
    X, y = table
    assert np.array_equal(query.ticks(X, y, None), RowQuery.ticks(query, X, y, None))


@settings(deadline=None)
@given(st.integers(0, 30), st.booleans(), coded_rows(), st.data())
def test_dropping_a_row_moves_the_answer_at_most_by_the_sensitivity(seed, laplace, table, data):
    X, y = table
    if not len(X):
        return
    query = level_query(seed, laplace=laplace)
    row = data.draw(st.integers(0, len(X) - 1))
    moved = query.ticks(X, y, None) - query.ticks(np.delete(X, row, 0), np.delete(y, row), None)
    assert (moved**2).sum() <= query.squared_sensitivity("add_remove")
    assert np.abs(moved).sum() <= query.sensitivity("add_remove")


def test_the_sensitivity_is_reached():
    """It is a bound on real rows and not on impossible ones: no noise is wasted."""
    for laplace in (False, True):
        query = level_query(1, laplace=laplace)
        X = np.array(np.meshgrid(*[np.arange(k) for k in SCHEMA.n_values])).reshape(3, -1).T
        moves = [query.ticks(x[None].astype(np.int16), np.array([0]), None) for x in X]
        assert max((move**2).sum() for move in moves) == query.squared_sensitivity("add_remove")
        assert max(np.abs(move).sum() for move in moves) == query.sensitivity("add_remove")


def test_the_order_of_rows_does_not_matter():
    rng = np.random.default_rng(0)
    X = rng.integers(0, SCHEMA.n_values, size=(200, 3)).astype(np.int16)
    y = rng.integers(0, 3, size=200)
    query = level_query(3)
    order = rng.permutation(200)
    assert np.array_equal(query.ticks(X, y, None), query.ticks(X[order], y[order], None))


def root_query():
    return Growth(SCHEMA, 500.0).ask(lambda squared, absolute: 1.0)


def test_an_unknown_value_is_counted_nowhere_and_the_rest_of_its_row_is():
    query = root_query()
    known, unknown = (np.array([[code, 0, 0]], dtype=np.int16) for code in (0, 3))
    y = np.array([1])
    assert query.ticks(known, y, None).sum() == 3
    assert query.ticks(unknown, y, None).sum() == 2
    assert query.ticks(known, np.array([3]), None).sum() == 0
    assert query.ticks(known, np.array([-1]), None).sum() == 0


def changed(query, name, at, value):
    array = getattr(query, name).copy()
    array[at] = value
    return replace(query, **{name: array})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda q: changed(q, "cell", (0, 0), q.cell[0, 4]), "one feature at one node"),
        (lambda q: changed(q, "cell", (0, 0), 11), "one feature at one node"),
        (lambda q: changed(q, "cell", (0, 0), 10**6), "cells must be numbered"),
        (lambda q: changed(q, "cell", (0, 0), -2), "cells must be numbered"),
        (lambda q: replace(q, cell=q.cell[:, :-1]), "cell must have shape"),
        (lambda q: replace(q, goes_right=q.goes_right[:, :-1]), "goes_right must have shape"),
        (lambda q: replace(q, children=q.children[:0]), "children must have shape"),
        (lambda q: changed(q, "feature", 0, 3), "splits must name features"),
        (lambda q: changed(q, "feature", 0, -2), "splits must name features"),
        (lambda q: replace(q, weight=q.weight * 1.0), "must be integers"),
        (lambda q: replace(q, n_values=q.n_values * 0), "there must be nodes, features"),
        (lambda q: changed(q, "weight", 0, 2**32), "weights must be in"),
        (lambda q: changed(q, "slot", 0, 7), "slots must name open nodes"),
        (lambda q: changed(q, "feature", 0, 1), "children must come after"),
        (lambda q: changed(q, "weight", 0, 0), "weights"),
        (lambda q: replace(q, n_classes=0), "there must be nodes, features"),
    ],
)
def test_a_query_that_would_break_its_bound_or_never_end_is_refused(spoil, message):
    """Two features in one cell would count a row twice; children before parents would loop."""
    with pytest.raises(ValueError, match=message):
        spoil(root_query())


@pytest.mark.parametrize("name", ["cell", "slot", "feature", "children"])
@pytest.mark.parametrize("kind", ["i1", "u1", "i8"])
def test_numbers_of_a_type_in_which_places_wrap_are_refused(name, kind):
    query = root_query()
    with pytest.raises(ValueError, match="must be int32"):
        replace(query, **{name: getattr(query, name).astype(kind)})


def test_a_small_message_cannot_ask_for_much_memory():
    query = root_query()
    with pytest.raises(ValueError, match="must have shape|there must be nodes"):
        replace(query, n_values=np.array([2**33]))
    with pytest.raises(ValueError, match="there must be nodes"):
        replace(query, cell=query.cell[:0], weight=query.weight[:0])
    with pytest.raises(ValueError, match="at most 2147483648 numbers"):
        replace(query, n_classes=2**40)


@settings(deadline=None)
@given(st.integers(0, 30), st.booleans(), coded_rows())
def test_counts_are_those_of_a_dictionary(seed, laplace, table):
    """A reference that shares no code with the query: one walk down the tree a row."""
    query = level_query(seed, laplace=laplace)
    counts = {}
    for x, label in zip(*(part.tolist() for part in table), strict=True):
        known = all(0 <= code <= k for code, k in zip(x, SCHEMA.n_values.tolist(), strict=True))
        if not known or not 0 <= label < 3:
            continue
        node = 0
        while query.feature[node] >= 0:
            side = int(query.goes_right[node, x[query.feature[node]]])
            node = int(query.children[node, side])
        slot = int(query.slot[node])
        first = 0
        for code, k in zip(x, SCHEMA.n_values.tolist(), strict=True):
            cell = int(query.cell[slot, first + code]) if slot >= 0 else -1
            if cell >= 0:
                place = (cell, label)
                counts[place] = counts.get(place, 0) + int(query.weight[slot])
            first += k + 1
    answer = query.ticks(*table, None).reshape(-1, 3)
    found = {(c, k): int(answer[c, k]) for c, k in np.argwhere(answer).tolist()}
    assert found == counts


def test_the_checks_run_on_what_comes_over_the_wire():
    query = level_query(5)
    data = to_bytes(query)
    back = from_bytes(data, LevelHistogram)
    assert to_bytes(back) == data and back.bound == query.bound and back.length == query.length
    weight = to_bytes(query.weight)[16:]
    assert weight in data
    with pytest.raises(ProtocolError, match="LevelHistogram is malformed"):
        from_bytes(data.replace(weight, to_bytes(query.weight * 0)[16:]))


def test_the_row_count_counts_rows():
    X = np.zeros((7, 3), dtype=np.int16)
    y = np.zeros(7, dtype=int)
    query = RowCount()
    assert query.ticks(X, y, None) == RowQuery.ticks(query, X, y, None) == 7
    assert query.squared_sensitivity("add_remove") == query.sensitivity("add_remove") == 1
