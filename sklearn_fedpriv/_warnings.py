"""Warnings that name the user's own line."""

import sys
import warnings
from types import FrameType

_BETWEEN = ("sklearn_fedpriv", "sklearn", "joblib", "contextlib")


def warn(message: str, category: type[Warning]) -> None:
    """Warn about the call that came from outside of this package and of scikit-learn.

    Parameters
    ----------
    message : str
    category : type of warning
    """
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _BETWEEN:
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
