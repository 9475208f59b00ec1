"""What stands for code in the terms: a digest of classes, parameters and versions (G19).

Code never travels. Party and server each build estimator, candidates and scoring for themselves;
equal fingerprints tell them that they built the same. What an estimator has learned counts only
where a fitted model is the code.
"""

import sys
from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from scipy.sparse import issparse

from sklearn_fedpriv._wire import digest

_ALWAYS = ("sklearn_fedpriv", "sklearn", "numpy", "scipy")


def fingerprint_of(*values: Any, learned: bool = False) -> bytes:
    """32 bytes that differ when a class, a parameter or a library's version differs.

    Parameters
    ----------
    *values
        Estimators, parameters, scorers, splitters: anything that scikit-learn takes as a parameter.
    learned : bool, default=False
        Whether the state of fitted estimators and networks counts, and not only how they are made.
    """
    describe = _Describer(learned)
    parts = tuple(describe(value) for value in values)
    versions = tuple(
        (name, str(getattr(sys.modules.get(name), "__version__", "")))
        for name in sorted(describe.packages)
    )
    return digest((parts, versions))


class _Describer:
    """Values as nested tuples of what ``digest`` takes, and the packages that they come from."""

    def __init__(self, learned: bool) -> None:
        self.learned = learned
        self.packages = set(_ALWAYS)
        self._above: list[int] = []

    def __call__(self, value: Any) -> Any:
        if id(value) in self._above:
            return "itself"
        self._above.append(id(value))
        try:
            return self._plain(value)
        finally:
            self._above.pop()

    def _all(self, values: Iterable[Any]) -> tuple:
        return tuple(map(self, values))

    def _plain(self, value: Any) -> Any:
        """Data as it is; the rest by where it is defined and what it holds."""
        kind = type(value).__name__
        if value is None or isinstance(value, bool | int | str | bytes):
            return (kind, value)
        if isinstance(value, float | complex | np.generic | range | slice):
            return (kind, repr(value))
        if isinstance(value, list | tuple):
            return (kind, self._all(value))
        if isinstance(value, Mapping):
            return ("dict", _sorted((self(key), self(item)) for key, item in value.items()))
        if isinstance(value, set | frozenset):
            return (kind, _sorted(map(self, value)))
        if isinstance(value, np.ndarray):
            content = self._all(value.ravel()) if value.dtype.hasobject else value.tobytes()
            return ("array", str(value.dtype), value.shape, content)
        if issparse(value):
            return ("sparse", value.shape, self(value.toarray()))
        if isinstance(value, partial):
            return ("partial", self._all((value.func, value.args, value.keywords)))
        if isinstance(value, MethodType):
            return ("method", self._all((value.__func__, value.__self__)))
        if isinstance(value, property):
            return ("property", self._all((value.fget, value.fset, value.fdel)))
        if isinstance(value, CodeType):
            return (value.co_code, self._all(value.co_consts), value.co_names)
        if isinstance(value, FunctionType):
            cells = tuple(cell.cell_contents for cell in value.__closure__ or ())
            held = (value.__code__, value.__defaults__, value.__kwdefaults__, cells)
            return ("function", self._named(value), self._all((*held, _used_by(value))))
        if isinstance(value, staticmethod | classmethod):
            return (kind, self(value.__func__))
        if isinstance(value, cached_property):
            return (kind, self(value.func))
        if isinstance(value, type | BuiltinFunctionType | np.ufunc):
            return ("named", self._named(value))
        return self._object(value)

    def _named(self, value: Any) -> Any:
        """Where something is defined; what a script defines has no version, so its body counts."""
        module = str(getattr(value, "__module__", None) or "builtins")
        self.packages.add(module.split(".")[0])
        name = f"{module}.{getattr(value, '__qualname__', value.__name__)}"
        if isinstance(value, type) and (module == "__main__" or "<locals>" in name):
            body = {
                k: v
                for k, v in vars(value).items()
                if not k.startswith(("__", "_abc_")) or callable(v)
            }
            return (name, self._all(value.__bases__), self(body))
        return name

    def _object(self, value: Any) -> Any:
        name = self._named(type(value))
        if hasattr(value, "get_params") and not self.learned:
            return (name, self(value.get_params(deep=False)))
        if hasattr(value, "state_dict"):  # a network: its layers, and its weights if they count
            weights = value.state_dict() if self.learned else {}
            arrays = {key: np.asarray(tensor.detach().cpu()) for key, tensor in weights.items()}
            return (name, str(value), self(arrays))
        if hasattr(value, "__dict__"):
            return (name, self(vars(value)))
        try:
            held = value.__reduce_ex__(4)  # compiled: what it would be built from again
        except TypeError:  # a lock, a file: nothing that a party could compare
            return (name,)
        return (name, held if isinstance(held, str) else self._all(held[1:]))


def _used_by(function: FunctionType) -> dict[str, Any]:
    """What a function of a script uses of the script; modules have versions instead."""
    if function.__module__ != "__main__":
        return {}
    found = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    return {name: value for name, value in found.items() if not isinstance(value, ModuleType)}


def _sorted(items: Iterable[Any]) -> tuple:
    return tuple(sorted(items, key=repr))
