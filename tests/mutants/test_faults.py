"""The list of faults stays plantable: ``run.py`` is slow and runs rarely, this is quick."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.faults import FAULTS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_can_be_planted_in_one_place(fault):
    text = (ROOT / fault.file).read_text()
    assert text.count(fault.old) == 1, f"the text of {fault.name} is no longer in {fault.file}"
    assert fault.new != fault.old
    ast.parse(text.replace(fault.old, fault.new))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_tests_of_a_fault_exist(fault):
    assert fault.tests
    for selection in fault.tests:
        file, *names = selection.split("::")
        source = (ROOT / file).read_text()
        defined = {n.name for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef)}
        assert {name.split("[")[0] for name in names} <= defined, f"{file} has no {names}"


def test_names_are_distinct_and_the_list_is_long_enough():
    names = Counter(fault.name for fault in FAULTS)
    assert max(names.values()) == 1
    assert len(FAULTS) >= 25
