"""Ground floor: floats in, noisy integers out, and what that costs."""

from sklearn_fedpriv.privacy._ceiling import Ceiling, privacy_budget
from sklearn_fedpriv.privacy._report import PrivacyReport, compose
from sklearn_fedpriv.privacy._rounds import RoundsChoice, optimal_rounds
from sklearn_fedpriv.privacy._schedules import AdaptiveRounds, CustomNoise, GeometricNoise

__all__ = [
    "AdaptiveRounds",
    "Ceiling",
    "CustomNoise",
    "GeometricNoise",
    "PrivacyReport",
    "RoundsChoice",
    "compose",
    "optimal_rounds",
    "privacy_budget",
]
