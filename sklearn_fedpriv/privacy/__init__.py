"""Ground floor: floats in, noisy integers out, and what that costs."""

from sklearn_fedpriv.privacy._ceiling import Ceiling, privacy_budget
from sklearn_fedpriv.privacy._report import PrivacyReport, compose

__all__ = ["Ceiling", "PrivacyReport", "compose", "privacy_budget"]
