"""Seeded faults: slips that would end a guarantee, each with the tests that must notice it.

A fault replaces one piece of text, which must occur exactly once in its file. The rule of
``guarantees.md`` that it breaks is the first word of its name. One file a floor of the package;
``run.py`` plants them.
"""

from tests.mutants.faults import (
    cluster,
    federation,
    model_selection,
    neural_network,
    privacy,
    secure,
    svm,
    tree,
)
from tests.mutants.faults.fault import Fault

__all__ = ["FAULTS", "Fault"]

FAULTS = [
    *privacy.FAULTS,
    *secure.FAULTS,
    *federation.FAULTS,
    *tree.FAULTS,
    *svm.FAULTS,
    *model_selection.FAULTS,
    *neural_network.FAULTS,
    *cluster.FAULTS,
]
