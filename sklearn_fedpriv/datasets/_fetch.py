"""Two tables of the UCI repository, from a folder or from OpenML.

The constants at the top are the public facts. They are what the data sets' own documentation
lists (``nursery.names``, ``adult.names``); no function here computes a fact from rows. Rows are
only *checked* against them, so that a wrong file is refused.
"""

import os
from copy import deepcopy
from pathlib import Path

from sklearn.datasets import fetch_openml
from sklearn.utils import Bunch

FOLDER_VARIABLE = "SKLEARN_FEDPRIV_DATA"

# Nursery: the values of each attribute, in the order of nursery.names.
NURSERY_CATEGORIES = {
    "parents": ["usual", "pretentious", "great_pret"],
    "has_nurs": ["proper", "less_proper", "improper", "critical", "very_crit"],
    "form": ["complete", "completed", "incomplete", "foster"],
    "children": ["1", "2", "3", "more"],
    "housing": ["convenient", "less_conv", "critical"],
    "finance": ["convenient", "inconv"],
    "social": ["nonprob", "slightly_prob", "problematic"],
    "health": ["recommended", "priority", "not_recom"],
}
NURSERY_CLASSES = ["not_recom", "priority", "recommend", "spec_prior", "very_recom"]
NURSERY_ROWS = 12_960

# Adult: ranges of the numeric columns, from what they mean, chosen without looking at rows.
# Values beyond are held to the end of the range.
ADULT_BOUNDS = {
    "age": (17, 90),  # years; the survey takes persons over 16 and cuts ages at 90
    "education_num": (0, 16),  # 1 preschool ... 16 doctorate: one a bin
    "capital_gain": (0, 16_000),  # US dollars a year; more is rare, and counts as the most
    "capital_loss": (0, 4_000),  # US dollars a year
    "hours_per_week": (1, 99),  # two digits on the form
}

# Adult: the values of each attribute, in the order of adult.names (with its spellings). "?" is
# how adult.names writes an answer that is missing, and a category of its own here.
ADULT_CATEGORIES = {
    "workclass": [
        "Private",
        "Self-emp-not-inc",
        "Self-emp-inc",
        "Federal-gov",
        "Local-gov",
        "State-gov",
        "Without-pay",
        "Never-worked",
        "?",
    ],
    "marital_status": [
        "Married-civ-spouse",
        "Divorced",
        "Never-married",
        "Separated",
        "Widowed",
        "Married-spouse-absent",
        "Married-AF-spouse",
    ],
    "occupation": [
        "Tech-support",
        "Craft-repair",
        "Other-service",
        "Sales",
        "Exec-managerial",
        "Prof-specialty",
        "Handlers-cleaners",
        "Machine-op-inspct",
        "Adm-clerical",
        "Farming-fishing",
        "Transport-moving",
        "Priv-house-serv",
        "Protective-serv",
        "Armed-Forces",
        "?",
    ],
    "relationship": [
        "Wife",
        "Own-child",
        "Husband",
        "Not-in-family",
        "Other-relative",
        "Unmarried",
    ],
    "race": ["White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black"],
    "sex": ["Female", "Male"],
    "native_country": [
        "United-States",
        "Cambodia",
        "England",
        "Puerto-Rico",
        "Canada",
        "Germany",
        "Outlying-US(Guam-USVI-etc)",
        "India",
        "Japan",
        "Greece",
        "South",
        "China",
        "Cuba",
        "Iran",
        "Honduras",
        "Philippines",
        "Italy",
        "Poland",
        "Jamaica",
        "Vietnam",
        "Mexico",
        "Portugal",
        "Ireland",
        "France",
        "Dominican-Republic",
        "Laos",
        "Ecuador",
        "Taiwan",
        "Haiti",
        "Columbia",
        "Hungary",
        "Guatemala",
        "Nicaragua",
        "Scotland",
        "Thailand",
        "Yugoslavia",
        "El-Salvador",
        "Trinadad&Tobago",
        "Peru",
        "Hong",
        "Holand-Netherlands",
        "?",
    ],
}
ADULT_CLASSES = ["<=50K", ">50K"]
ADULT_FEATURES = [
    "age",
    "workclass",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
]
ADULT_TRAIN_ROWS, ADULT_TEST_ROWS = 32_561, 16_281
# First and last `fnlwgt` (census weight) of the official test set, by which it is found in a
# table that holds both sets.
ADULT_TEST_ENDS = (226_802, 182_148)

NURSERY_DESCR = """\
Nursery
-------

12,960 applications for nursery schools in Ljubljana in the 1980s, ranked by an expert system: all
combinations of 8 categorical features. Five classes: not_recom 4320, priority 4266, spec_prior
4044, very_recom 328, recommend 2. The rows are sorted by feature: shuffle before splitting.

Source: V. Rajkovic et al., Nursery, UCI Machine Learning Repository, 1997. Licence: CC BY 4.0.
"""
ADULT_DESCR = """\
Adult (census income)
---------------------

48,842 persons of the 1994 US census survey: does the person earn more than 50,000 US dollars a
year? 32,561 rows to learn from (7,841 do) and the official test set of 16,281 rows (3,846 do).
5 numeric and 7 categorical features; a missing answer is the category "?". Left out: fnlwgt (a
survey weight) and education (education_num says the same in numbers).

Source: B. Becker, R. Kohavi, Adult, UCI Machine Learning Repository, 1996. Licence: CC BY 4.0.
"""


def fetch_nursery(*, data_home=None):
    """Load the Nursery data (classification, five classes, categorical features).

    Looked for in this order: ``nursery.csv.gz`` in `data_home`, or without `data_home` in the
    folder named by the environment variable ``SKLEARN_FEDPRIV_DATA``; then OpenML ("nursery",
    version 1) through :func:`sklearn.datasets.fetch_openml`, which keeps what it downloads.

    Parameters
    ----------
    data_home : str or path-like, default=None
        Folder to look in, and to keep downloads in. Without it, downloads are kept where
        scikit-learn keeps its own.

    Returns
    -------
    data : Bunch
        - ``data`` : DataFrame of shape (12960, 8), text
        - ``target`` : Series of shape (12960,), text
        - ``public`` : dict with ``categories``, a dict of column name to list of values, and
          ``classes``, the list of the 5 labels
        - ``feature_names`` : list of 8 str
        - ``DESCR`` : str, with source, licence and citation

    Raises
    ------
    ImportError
        If pandas is not installed.
    OSError
        If neither the folder nor OpenML has the data, or a file is not what it should be.

    Notes
    -----
    V. Rajkovic et al., Nursery, UCI Machine Learning Repository, 1997. CC BY 4.0.
    """

    def prepare(frame):
        return [_tidy(frame, "class", NURSERY_CATEGORIES, {}, NURSERY_CLASSES, NURSERY_ROWS)]

    ((data, target),) = _fetch(
        "fetch_nursery",
        ["nursery.csv.gz"],
        {"name": "nursery", "version": 1},
        prepare,
        data_home,
    )
    return Bunch(
        data=data,
        target=target,
        public=deepcopy({"categories": NURSERY_CATEGORIES, "classes": NURSERY_CLASSES}),
        feature_names=list(NURSERY_CATEGORIES),
        DESCR=NURSERY_DESCR,
    )


def fetch_adult(*, data_home=None):
    """Load the Adult census income data (classification, two classes, mixed features).

    Looked for in this order: ``adult_train.csv.gz`` and ``adult_test.csv.gz`` in `data_home`, or
    without `data_home` in the folder named by the environment variable ``SKLEARN_FEDPRIV_DATA``;
    then OpenML ("adult", version 2) through :func:`sklearn.datasets.fetch_openml`, which keeps
    what it downloads. OpenML has one table with the official test set on top; it is told apart by
    its first and last row, so both ways give the same rows.

    Parameters
    ----------
    data_home : str or path-like, default=None
        Folder to look in, and to keep downloads in. Without it, downloads are kept where
        scikit-learn keeps its own.

    Returns
    -------
    data : Bunch
        - ``data`` : DataFrame of shape (32561, 12): integers (age in years, education_num from
          1 to 16, capital_gain and capital_loss in US dollars, hours_per_week) and text, where
          ``"?"`` is a missing answer
        - ``target`` : Series of shape (32561,), text, ``"<=50K"`` or ``">50K"``
        - ``data_test`` : DataFrame of shape (16281, 12), ``target_test`` : Series of shape
          (16281,), the official test set
        - ``public`` : dict with ``categories``, a dict of column name to list of values;
          ``bounds``, a dict of column name to pair (low, high) in the units above; ``classes``,
          the list of the 2 labels
        - ``feature_names`` : list of 12 str
        - ``DESCR`` : str, with source, licence and citation

    Raises
    ------
    ImportError
        If pandas is not installed.
    OSError
        If neither the folder nor OpenML has the data, or a file is not what it should be.

    Notes
    -----
    B. Becker, R. Kohavi, Adult, UCI Machine Learning Repository, 1996. CC BY 4.0.
    """

    def prepare(*frames):
        train, test = frames if len(frames) == 2 else _split_adult(*frames)
        facts = ("income", ADULT_CATEGORIES, ADULT_BOUNDS, ADULT_CLASSES)
        return [_tidy(train, *facts, ADULT_TRAIN_ROWS), _tidy(test, *facts, ADULT_TEST_ROWS)]

    (data, target), (data_test, target_test) = _fetch(
        "fetch_adult",
        ["adult_train.csv.gz", "adult_test.csv.gz"],
        {"name": "adult", "version": 2},
        prepare,
        data_home,
    )
    return Bunch(
        data=data[ADULT_FEATURES],
        target=target,
        data_test=data_test[ADULT_FEATURES],
        target_test=target_test,
        public=deepcopy(
            {"categories": ADULT_CATEGORIES, "bounds": ADULT_BOUNDS, "classes": ADULT_CLASSES}
        ),
        feature_names=list(ADULT_FEATURES),
        DESCR=ADULT_DESCR,
    )


def _fetch(caller, files, openml, prepare, data_home):
    """Return ``prepare(*frames)`` from the files of a folder, else from OpenML."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(f"{caller} needs pandas: pip install pandas") from error

    folder = data_home if data_home is not None else os.environ.get(FOLDER_VARIABLE)
    origin = "data_home" if data_home is not None else f"environment variable {FOLDER_VARIABLE}"
    if folder:
        paths = [Path(folder).expanduser() / file for file in files]
        missing = [path.name for path in paths if not path.is_file()]
        if not missing:
            try:
                frames = [pd.read_csv(path, dtype=str, keep_default_na=False) for path in paths]
                return prepare(*frames)
            except Exception as error:
                raise OSError(
                    f"{caller} found {' and '.join(map(str, paths))} but cannot use them: {error} "
                    f"Replace the files, or point {origin} elsewhere."
                ) from error
        looked = f"folder {str(folder)!r} (from {origin}) has no {' and no '.join(missing)}"
    else:
        looked = f"no folder was given (data_home, or environment variable {FOLDER_VARIABLE})"

    try:
        return prepare(fetch_openml(**openml, as_frame=True, data_home=data_home).frame)
    except Exception as error:
        raise OSError(
            f"{caller} did not get its data: {looked}, and OpenML ({openml['name']!r}, version "
            f"{openml['version']}) failed with {type(error).__name__}: {error}. Put "
            f"{' and '.join(files)} into a folder and pass it as data_home, or try again with a "
            "network connection."
        ) from None


def _split_adult(frame):
    """Return the official training and test rows of a table that holds both, either order."""
    frame = frame.rename(columns={"class": "income"})
    for start in (0, ADULT_TRAIN_ROWS):
        test = frame.iloc[start : start + ADULT_TEST_ROWS]
        if len(test) == ADULT_TEST_ROWS:
            if (test["fnlwgt"].iloc[0], test["fnlwgt"].iloc[-1]) == ADULT_TEST_ENDS:
                return frame.drop(index=test.index), test
    raise ValueError("The official test rows were not found on top or at the end of the table.")


def _tidy(frame, target, categories, bounds, classes, n_rows):
    """Return (data, target) in our names, types and spellings, checked against the public facts."""
    frame = frame.rename(columns=lambda name: name.replace("-", "_")).reset_index(drop=True)
    wanted = {**categories, **bounds, target: classes}
    if absent := sorted(set(wanted) - set(frame.columns)):
        raise ValueError(f"Columns {absent} are missing.")
    if len(frame) != n_rows:
        raise ValueError(f"There are {len(frame)} rows, not {n_rows}.")

    frame = frame[list(wanted)].copy()
    for name in bounds:
        frame[name] = frame[name].astype("int64")
    for name, values in {**categories, target: classes}.items():
        column = frame[name].astype(object)
        frame[name] = column.where(column.notna(), "?").astype(str)
        if strange := sorted(set(frame[name].unique()) - set(values)):
            raise ValueError(f"Column {name!r} holds {strange[:5]}, which are not documented.")
    return frame.drop(columns=target), frame[target]
