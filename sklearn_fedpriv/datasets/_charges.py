"""What US hospitals were paid for four common illnesses, one hospital a party."""

import os
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from sklearn_fedpriv.datasets._fetch import FOLDER_VARIABLE

FILES = ("ipps_drg_2011_charges.csv.gz", "ipps_drg_2011_providers.csv.gz")

# The four illnesses, in the order of their codes: the number of the illness is a feature.
SERVICES = {
    "194": "simple pneumonia & pleurisy with complications",
    "292": "heart failure & shock with complications",
    "392": "oesophagitis, gastroenteritis & digestive disorders, no major complications",
    "690": "kidney & urinary tract infections, no major complications",
}
# Round numbers, chosen without looking at rows. Values beyond are held to the end of the range.
BOUNDS = {
    "service": (0, len(SERVICES) - 1),
    "latitude": (18, 72),  # degrees; from the south of Hawaii to the north of Alaska
    "longitude": (-180, -65),  # degrees; from the Aleutians to the east of Maine
}
TARGET_BOUNDS = (0, 20_000)  # US dollars for a stay

DESCR = """\
Hospital charges
----------------

Average total payments for four common illnesses at US hospitals in the fiscal year 2011: 11,915
averages of 3,151 hospitals (2,738 have all four). Three features: the number of the illness (0 to
3), latitude and longitude of the hospital's ZIP code. One row is a yearly average over at least 11
stays, no person.

Source: Centers for Medicare & Medicaid Services (US), Inpatient Prospective Payment System,
Provider Summary for the Top 100 Diagnosis-Related Groups, FY2011; public domain. The coordinates
were added from the ZIP code (US Census, public domain).
"""


def fetch_hospital_charges(*, scaled=True, data_home=None):
    """Load what hospitals were paid for four illnesses, one hospital a party (regression).

    Parameters
    ----------
    scaled : bool, default=True
        Map features by their public bounds to [-1, 1] and the target by its own to [0, 1]; else
        leave them in their units. Either way values beyond the bounds are held to them.
    data_home : str or path-like, default=None
        Folder of the two files; without it the folder named by ``SKLEARN_FEDPRIV_DATA``. Nothing is
        downloaded.

    Returns
    -------
    charges : Bunch
        - ``parties`` : list of 3151 tuples (X, y), X an ndarray of shape (n_rows, 3) and y an
          ndarray of shape (n_rows,), 1 to 4 rows, in the order of ``party_names``
        - ``party_names`` : list of 3151 str, Medicare's provider numbers
        - ``data`` : ndarray of shape (11915, 3), ``target`` : ndarray of shape (11915,),
          ``groups`` : ndarray of shape (11915,), the index of each row's party
        - ``public`` : dict with ``bounds``, a list of 3 pairs, and ``target_bounds``, a pair, both
          in the units of ``data`` and ``target``
        - ``target_scale`` : float, US dollars in one unit of ``target``
        - ``feature_names`` : list of 3 str
        - ``service_names`` : list of 4 str
        - ``DESCR`` : str, with source and licence

    Raises
    ------
    ImportError
        If pandas is not installed.
    OSError
        If the files are not there or are not what they should be.
    """
    charges = _read(data_home)
    X = np.column_stack(
        [
            charges["drg_code"].map({code: i for i, code in enumerate(SERVICES)}),
            charges["lat"],
            charges["lon"],
        ]
    ).astype(np.float64)
    low, high = np.array(list(BOUNDS.values()), dtype=np.float64).T
    X, y = np.clip(X, low, high), np.clip(charges["average_total_payments"], *TARGET_BOUNDS)
    y = y.to_numpy(dtype=np.float64)
    unit = 1.0
    if scaled:
        unit = float(TARGET_BOUNDS[1] - TARGET_BOUNDS[0])
        X, y = 2 * (X - low) / (high - low) - 1, (y - TARGET_BOUNDS[0]) / unit
    names, groups = np.unique(charges["provider_id"].to_numpy(), return_inverse=True)
    starts = np.searchsorted(groups, np.arange(1, len(names)))
    bounds = [(-1.0, 1.0)] * 3 if scaled else [tuple(pair) for pair in BOUNDS.values()]
    return Bunch(
        parties=list(zip(np.split(X, starts), np.split(y, starts), strict=True)),
        party_names=[f"{number:06d}" for number in names],
        data=X,
        target=y,
        groups=groups,
        public={"bounds": bounds, "target_bounds": (0.0, 1.0) if scaled else TARGET_BOUNDS},
        target_scale=unit,
        feature_names=list(BOUNDS),
        service_names=list(SERVICES.values()),
        DESCR=DESCR,
    )


def _read(data_home):
    """Return the rows of the four illnesses with coordinates, sorted by hospital and illness."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("fetch_hospital_charges needs pandas: pip install pandas") from error
    folder = data_home if data_home is not None else os.environ.get(FOLDER_VARIABLE)
    if not folder:
        raise OSError(
            f"fetch_hospital_charges needs {' and '.join(FILES)} in a folder: pass it as data_home "
            f"or name it in the environment variable {FOLDER_VARIABLE}."
        )
    paths = [Path(folder).expanduser() / file for file in FILES]
    try:
        charges, providers = (pd.read_csv(path, dtype={"drg_code": str}) for path in paths)
        charges = charges[charges["drg_code"].isin(list(SERVICES))]
        joined = charges.merge(
            providers[["provider_id", "lat", "lon"]], on="provider_id", validate="many_to_one"
        )
        if len(joined) != 11_915 or joined["lat"].isna().any():
            raise ValueError(f"there are {len(joined)} rows of the four illnesses, not 11915.")
    except Exception as error:
        raise OSError(
            f"fetch_hospital_charges cannot use {' and '.join(map(str, paths))}: {error}"
        ) from error
    return joined.sort_values(["provider_id", "drg_code"], kind="stable")
