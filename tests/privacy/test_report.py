"""The report says what is promised, to whom, and what is not, in few lines and exact numbers."""

import json
from dataclasses import replace
from math import inf

import pytest

from sklearn_fedpriv.privacy import PrivacyReport, compose

REPORT = PrivacyReport(
    epsilon=1.0,
    delta=1e-5,
    server_epsilon=1.0,
    mechanism="discrete Gaussian noise in 5 shares, 4 of them enough",
    secure_sum="Paillier sums",
    trusted=("the dealer of the keys",),
    releases=(("LevelHistogram", 4),),
    n_parties=5,
    min_honest=4,
    max_dropouts=0,
)


def test_the_text_answers_the_readers_questions_in_twelve_lines():
    text = str(replace(REPORT, facts_from_rows=("classes",), proved="conditional", seeded=True))
    assert len(text.split("\n")) <= 12
    for phrase in (
        "epsilon 1, delta 1e-05 for one record added or removed",
        "promised to: whoever sees the model, each party",
        "server alone or with one: epsilon 1",
        "only between data sets that agree on: classes",
        "trusted besides: the dealer of the keys",
        "4 x LevelHistogram",
        "a rehearsal",
        "not covered: malicious parties, timing",
        "private: no, facts were taken from the rows; random_state was set",
    ):
        assert phrase in text


def test_private_only_when_proved_unseeded_and_finite():
    assert REPORT.private and REPORT.reasons == ()
    assert not replace(REPORT, seeded=True).private
    assert not replace(REPORT, proved="conditional", facts_from_rows=("classes",)).private
    assert "infinite" in replace(REPORT, epsilon=inf, proved="no").reasons[0]
    published = replace(REPORT, epsilon=inf, proved="no", claimed_epsilon=0.5)
    assert "its paper claims 0.5" in published.reasons[0]


@pytest.mark.parametrize(
    "report",
    [REPORT, replace(REPORT, epsilon=inf, server_epsilon=inf, claimed_epsilon=0.1, proved="no")],
)
def test_json_is_exact(report):
    text = json.dumps(report.to_dict(), allow_nan=False)
    assert PrivacyReport.from_dict(json.loads(text)) == report


def test_html_escapes_and_holds_every_line():
    html = replace(REPORT, releases=(("<b>", 1),))._repr_html_()
    assert "&lt;b&gt;" in html and "<b>" not in html
    assert html.count("<tr ") == len(str(REPORT).split("\n")) - 1


def test_compose_adds_and_keeps_the_weakest_proof():
    total = compose(*[replace(REPORT, epsilon=0.1)] * 10)
    assert total.epsilon == 1.0 and total.delta == 1e-4
    assert total.releases == (("LevelHistogram", 40),)
    mixed = compose(REPORT, replace(REPORT, proved="conditional", facts_from_rows=("bounds",)))
    assert mixed.proved == "conditional" and mixed.facts_from_rows == ("bounds",)
    assert not compose(REPORT, replace(REPORT, epsilon=inf, proved="no")).private
    assert compose(REPORT, replace(REPORT, seeded=True)).seeded


def test_compose_promises_no_more_colluders_than_each_fit_did():
    total = compose(REPORT, replace(REPORT, n_parties=10, min_honest=10))
    assert total.n_parties - total.min_honest == 0


def test_compose_names_the_common_unit_first():
    party = replace(REPORT, unit="party", adjacency="replace", epsilon=0.5, delta=1e-6)
    total = compose(REPORT, party)
    assert (total.unit, total.adjacency) == ("record", "add_remove")
    assert total.epsilon == 1.0 + 0.5 and total.delta == pytest.approx(1e-5 + 1e-6)
    assert compose(party, party).unit == "party"


def test_compose_doubles_what_speaks_of_adding_where_another_fit_speaks_of_replacing():
    replaced = replace(REPORT, adjacency="replace", epsilon=0.5, delta=1e-6)
    total = compose(REPORT, replaced)
    assert (total.unit, total.adjacency) == ("record", "replace")
    assert total.epsilon == 2 * 1.0 + 0.5
    assert total.delta == pytest.approx(1e-5 * (1 + 2.718281828) + 1e-6)
    party = replace(REPORT, unit="party")
    total = compose(REPORT, party)
    assert (total.unit, total.adjacency) == ("record", "add_remove")
    assert total.epsilon == 1.0 + 2 * 1.0


def test_compose_takes_estimators_and_says_what_it_takes():
    class Model:
        privacy_ = REPORT

    assert compose(Model(), REPORT).epsilon == 2.0
    with pytest.raises(ValueError, match="one by one: .* got none"):
        compose()
    with pytest.raises(ValueError, match="got list"):
        compose([REPORT])


def test_a_server_that_sees_answers_has_its_own_line():
    report = replace(REPORT, min_honest=2, server_epsilon=2.5)
    assert "any 3 parties together" in str(report)
    assert "server alone or with them: epsilon 2.5" in str(report)
    assert "towards the server" in replace(REPORT, server_epsilon=inf).reasons[0]
    party = replace(REPORT, unit="party", adjacency="replace")
    assert compose(report, party).server_epsilon == 2.5 + 1.0
    assert compose(report, replace(REPORT, adjacency="replace")).server_epsilon == inf
