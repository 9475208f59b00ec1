"""Faults in the decision tree: its histograms, its plan, what it keeps."""

from tests.mutants.faults.fault import Fault

HISTOGRAM = "sklearn_fedpriv/tree/_histogram.py"
TREE = "sklearn_fedpriv/tree/_decision_tree.py"

T_HISTOGRAM = "tests/tree/test_histogram.py"
T_TREE = "tests/tree/test_decision_tree.py"
T_RULES = "tests/test_guarantees.py"

FAULTS = [
    # tree
    Fault(
        "G7-what-is-unknown-is-counted",
        HISTOGRAM,
        "counted = (cell >= 0) & sound[:, None]",
        "counted = cell >= 0",
        (T_HISTOGRAM,),
    ),
    Fault(
        "G7-weights-not-in-the-bound",
        HISTOGRAM,
        "return int((self._n_asked * self.weight**2).max(initial=1))",
        "return int(self._n_asked.max(initial=1))",
        (T_HISTOGRAM,),
    ),
    Fault(
        "G7-weights-not-in-the-absolute-bound",
        HISTOGRAM,
        "return int((self._n_asked * self.weight).max(initial=1))",
        "return int(self._n_asked.max(initial=1))",
        (T_HISTOGRAM,),
    ),
    Fault(
        "G7-features-share-cells",
        HISTOGRAM,
        "if (lowest != highest).any():",
        "if False:",
        (T_HISTOGRAM,),
    ),
    Fault(
        "G3-rows-counted-without-noise",
        TREE,
        "n_rows = float(run.release(RowCount(), COUNT_SHARE)[0])",
        "n_rows = float(sum(len(party._X) for party in run._parties.values()))",
        (f"{T_TREE}::test_the_report_bills_the_plan_and_says_who_saw_what",),
    ),
    Fault(
        "G24-raw-count-kept",
        TREE,
        "        self.privacy_ = run.report(facts.names)\n",
        "        self.privacy_ = run.report(facts.names)\n"
        "        self.n_samples_seen_ = sum(len(X) for X, _ in federation.rows)\n",
        (T_RULES,),
    ),
    Fault(
        "G24-run-kept-with-its-rows",
        TREE,
        "        self.privacy_ = run.report(facts.names)\n",
        "        self.privacy_ = run.report(facts.names)\n        self._run = run\n",
        (T_RULES,),
    ),
]
