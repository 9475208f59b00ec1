"""What stands for code in the terms: a digest of classes, parameters and versions (G19).

Code never travels. Party and server each build estimator, candidates and scoring for themselves;
equal fingerprints tell them that they built the same. Fitted state, weights included, is left out.
"""

import sys
from collections.abc import Iterable, Mapping
from functools import partial
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from scipy.sparse import issparse

from sklearn_fedpriv._wire import digest

_ALWAYS = ("sklearn_fedpriv", "sklearn", "numpy", "scipy")


def fingerprint_of(*values: Any) -> bytes:
    """32 bytes that differ when a class, a parameter or a library's version differs.

    Parameters
    ----------
    *values
        Estimators, parameters, scorers, splitters: anything that scikit-learn takes as a parameter.
    """
    packages = set(_ALWAYS)
    parts = tuple(_described(value, packages, ()) for value in values)
    versions = tuple(
        (name, str(getattr(sys.modules.get(name), "__version__", ""))) for name in sorted(packages)
    )
    return digest((parts, versions))


def _described(value: Any, packages: set[str], above: tuple[int, ...]) -> Any:
    """``value`` as nested tuples of what ``digest`` takes."""
    if id(value) in above:
        return "itself"
    above = (*above, id(value))

    def inner(item: Any) -> Any:
        return _described(item, packages, above)

    if value is None or isinstance(value, bool | int | str | bytes):
        return (type(value).__name__, value)
    if isinstance(value, float | np.generic):
        return (type(value).__name__, repr(value))
    if isinstance(value, list | tuple):
        return (type(value).__name__, tuple(map(inner, value)))
    if isinstance(value, Mapping):
        return ("dict", _sorted((inner(key), inner(item)) for key, item in value.items()))
    if isinstance(value, set | frozenset | range):
        return (type(value).__name__, _sorted(map(inner, value)))
    if isinstance(value, np.ndarray):
        content = tuple(map(inner, value.ravel())) if value.dtype == object else value.tobytes()
        return ("array", str(value.dtype), value.shape, content)
    if issparse(value):
        return ("sparse", value.shape, inner(value.toarray()))
    if isinstance(value, partial):
        return ("partial", inner(value.func), inner(value.args), inner(value.keywords))
    if isinstance(value, CodeType):  # of a lambda or a local function
        return (value.co_code, tuple(map(inner, value.co_consts)), value.co_names)
    kind = value if hasattr(value, "__qualname__") else type(value)
    module = str(kind.__module__)
    packages.add(module.split(".")[0])
    name = f"{module}.{kind.__qualname__}"
    if isinstance(value, FunctionType):
        return ("function", name, inner(value.__code__), inner(value.__defaults__))
    if kind is value:
        return ("named", name)
    if hasattr(value, "get_params"):
        return (name, inner(value.get_params(deep=False)))
    if hasattr(value, "state_dict"):  # a network: its layers, not its weights
        return (name, str(value))
    return (name, inner(getattr(value, "__dict__", {})))


def _sorted(items: Iterable[Any]) -> tuple:
    return tuple(sorted(items, key=repr))
