"""Data to rehearse with, and a way to cut any data among parties.

Every loader returns a Bunch whose ``public`` holds the facts that everybody may know (bounds,
categories, classes), ready as constructor arguments: ``FederatedDPDecisionTree(**data.public)``.
They are constants of this package, never read off the rows.
"""

from sklearn_fedpriv.datasets._charges import fetch_hospital_charges
from sklearn_fedpriv.datasets._fetch import fetch_adult, fetch_nursery
from sklearn_fedpriv.datasets._hospitals import load_hospitals
from sklearn_fedpriv.datasets._laws import make_two_laws
from sklearn_fedpriv.datasets._partition import partition
from sklearn_fedpriv.datasets._writers import fetch_femnist

__all__ = [
    "fetch_adult",
    "fetch_femnist",
    "fetch_hospital_charges",
    "fetch_nursery",
    "load_hospitals",
    "make_two_laws",
    "partition",
]
