"""Imports go down only, extras stay outside, private scikit-learn names stay behind their door."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import sklearn_fedpriv

ROOT = Path(sklearn_fedpriv.__file__).parent
FLOORS = {
    "exceptions": 0,
    "_sklearn": 0,
    "_torch": 0,
    "_warnings": 0,
    "_wire": 0.5,
    "privacy": 1,
    "secure": 1,
    "federation": 2,
    "neural_network": 3,
    "preprocessing": 3,
    "cluster": 3.5,
    "svm": 3,
    "tree": 3,
    "model_selection": 4,
    "metrics": 4,
    "datasets": 4,
    "audit": 4,
    "plotting": 4,
    "_demo": 5,
    "__main__": 6,
}


def imports(path):
    """(module, line) of every import in a file, those inside functions included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def room(module):
    return module.split(".")[1]


def upward(path, module):
    """Whether a file of ours at ``path`` may not import ``module`` of ours."""
    here = path.relative_to(ROOT).parts[0].removesuffix(".py")
    there = room(module)
    if here == there or there == "__version__":
        return False
    return FLOORS[there] >= FLOORS[here]


MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down(path):
    for module, line in imports(path):
        if module.startswith("sklearn_fedpriv."):
            assert not upward(path, module), f"{path}:{line} imports {module}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_extras_and_private_names_stay_behind_their_doors(path):
    doors = {"phe": "_phe.py", "torch": "_torch", "skorch": "_torch", "flwr": "flower"}
    for module, line in imports(path):
        top = module.split(".")[0]
        assert top not in doors or doors[top] in path.parts, f"{path}:{line} imports {module}"
        private = top == "sklearn" and any(part.startswith("_") for part in module.split(".")[1:])
        assert not private or path.name == "_sklearn.py", f"{path}:{line} imports {module}"
        assert top != "pickle", f"{path}:{line} imports pickle"


def test_an_upward_import_is_seen():
    assert upward(ROOT / "privacy" / "_clip.py", "sklearn_fedpriv.federation._query.Query")
    assert upward(ROOT / "privacy" / "_clip.py", "sklearn_fedpriv.secure._plain.PlainSum")
    assert not upward(ROOT / "tree" / "_coding.py", "sklearn_fedpriv.federation._query.Query")


def test_importing_the_package_loads_no_extra():
    heavy = "phe, torch, skorch, flwr, matplotlib, rich, dp_accounting".split(", ")
    code = (  # scikit-learn 1.9 loads rich by itself
        "import sys, sklearn.model_selection; before = set(sys.modules); import sklearn_fedpriv; "
        f"print([m for m in {heavy!r} if m in sys.modules and m not in before])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_trees_and_svcs_need_no_torch_and_nets_say_what_they_need():
    code = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('torch', 'skorch'):\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "from sklearn_fedpriv import FederatedDPDecisionTree, FederatedDPNeuralNetClassifier\n"
        "from sklearn_fedpriv import FederatedDPSVC\n"
        "from sklearn_fedpriv.datasets import load_hospitals\n"
        "hospitals = load_hospitals()\n"
        "FederatedDPDecisionTree(**hospitals.public).fit(hospitals.parties)\n"
        "FederatedDPSVC(classes=hospitals.public['classes'], bound=5e3).fit(hospitals.parties)\n"
        "net = FederatedDPNeuralNetClassifier(object, n_rows_hint=400, classes=[0, 1])\n"
        "try:\n"
        "    net.fit(hospitals.parties)\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    assert "pip install 'sklearn-fedpriv[torch]'" in result.stdout
