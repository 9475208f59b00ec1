"""The one door to scikit-learn's private names."""

import sys
from types import FrameType

from sklearn.base import _fit_context as fit_context
from sklearn.utils import _safe_indexing as take_rows
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metaestimators import _safe_split as safe_split
from sklearn.utils.validation import _get_feature_names as get_feature_names
from sklearn.utils.validation import _num_samples as n_rows_of

__all__ = [
    "HasMethods",
    "Interval",
    "StrOptions",
    "fit_context",
    "get_feature_names",
    "inside_search",
    "n_rows_of",
    "safe_split",
    "take_rows",
]


def inside_search() -> bool:
    """Whether the caller runs inside scikit-learn's cross-validation or search."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == "sklearn.model_selection._validation":
            return True
        frame = frame.f_back
    return False
