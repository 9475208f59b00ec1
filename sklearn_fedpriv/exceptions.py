"""Errors and warnings.

::

    FedPrivError
      BudgetExceeded        what was asked, what it costs, what is left
      TooFewParties         how many the noise was sized for, how many answered
      ProtocolError         which step, which party, what was expected, what came
      RangeOverflow         bits needed, bits there, which setting to change
      LocalFailure          which party could not do its local work, and what type of error it met

    FedPrivWarning
      PublicFactWarning     a fact that nobody declared was taken from the rows
      UnprovenPrivacyWarning  a published method without proof runs as printed
      NotPrivateWarning     ``epsilon=inf``: nothing is protected
      NoiseWarning          the noise is expected to drown the signal
      SelectionNoiseWarning  the noise is expected to choose rather than the parties
      UnknownValueWarning   a value outside the declared categories is counted nowhere

Errors about parameters are scikit-learn's own ``ValueError`` and ``TypeError``.
"""

__all__ = [
    "BudgetExceeded",
    "FedPrivError",
    "FedPrivWarning",
    "LocalFailure",
    "NoiseWarning",
    "NotPrivateWarning",
    "ProtocolError",
    "PublicFactWarning",
    "RangeOverflow",
    "SelectionNoiseWarning",
    "TooFewParties",
    "UnknownValueWarning",
    "UnprovenPrivacyWarning",
]


class FedPrivError(Exception):
    """Base of the errors of this package."""


class BudgetExceeded(FedPrivError, RuntimeError):
    """A release or a fit would cost more than is left; raised before any party answers."""


class TooFewParties(FedPrivError, ValueError):
    """Fewer parties than the noise was sized for."""


class ProtocolError(FedPrivError, RuntimeError):
    """A message that is missing, repeated, altered, out of order or from a stranger."""


class RangeOverflow(FedPrivError, ValueError):
    """The sum might not fit its words; judged from public terms before anything is charged."""


class LocalFailure(FedPrivError, ValueError):
    """A party's local work failed; the text holds no more than the type of what it met."""


class FedPrivWarning(UserWarning):
    """Base of the warnings of this package."""


class PublicFactWarning(FedPrivWarning):
    """A fact that nobody declared was taken from the rows: the guarantee is conditional on it."""


class UnprovenPrivacyWarning(FedPrivWarning):
    """A published method without proof runs as printed; its report says ``epsilon = inf``."""


class NotPrivateWarning(FedPrivWarning):
    """``epsilon=inf`` was asked for: no noise is added and nothing is promised."""


class NoiseWarning(FedPrivWarning):
    """From public numbers alone, the noise is expected to drown the signal."""


class SelectionNoiseWarning(FedPrivWarning):
    """Even a candidate that all parties prefer would often lose to the noise."""


class UnknownValueWarning(FedPrivWarning):
    """A party holds values outside the declared categories; they are counted nowhere."""


class LongRowsWarning(FedPrivWarning):
    """Most rows of a party are longer than ``bound`` and are scaled down to it."""
