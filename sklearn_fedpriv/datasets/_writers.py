"""Handwritten characters, one writer a party."""

import os
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from sklearn_fedpriv.datasets._fetch import FOLDER_VARIABLE
from sklearn_fedpriv.datasets._partition import make_generator

FILE = "femnist_105writers.npz"
CLASSES = tuple(range(62))  # digits, capitals, small letters
CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
N_WRITERS, N_IMAGES = 105, 16_288

DESCR = """\
FEMNIST, 105 writers
--------------------

16,288 handwritten characters of 105 writers, 28 x 28 grey values, 62 classes (digits, capitals,
small letters): those of LEAF's five-percent sample by writers of whom both parts, training and
test, were at hand. A writer has 4 to 183 images, half of the writers over 167. Ink is 1, paper 0.

Source: S. Caldas et al., LEAF: a benchmark for federated settings, 2018, from NIST Special Database
19. Licence: LEAF is BSD 2-clause; of the images no restriction is stated.
"""


def fetch_femnist(*, turned=0.0, data_home=None, random_state=0):
    """Load handwritten characters of 105 writers, one writer a party (classification).

    Parameters
    ----------
    turned : float, default=0.0
        Chance of each writer to have all images turned by 90 degrees counter-clockwise, in [0, 1]:
        parties that follow different laws.
    data_home : str or path-like, default=None
        Folder of ``femnist_105writers.npz``; without it the folder named by
        ``SKLEARN_FEDPRIV_DATA``. Nothing is downloaded.
    random_state : int, numpy Generator, RandomState or None, default=0
        Says which writers are turned.

    Returns
    -------
    femnist : Bunch
        - ``parties`` : list of 105 tuples (X, y), X an ndarray of shape (n_rows, 784), float32 in
          [0, 1], y an ndarray of shape (n_rows,) of 0 to 61: LEAF's training rows
        - ``parties_test`` : list of 105 tuples (X, y), LEAF's test rows of the same writers
        - ``turned`` : ndarray of shape (105,), whether each writer's images are turned
        - ``party_names`` : list of 105 str, LEAF's codes of the writers
        - ``public`` : dict with ``classes``, the list of 0 to 61
        - ``characters`` : str of 62 characters, by class
        - ``DESCR`` : str, with source and licence

    Raises
    ------
    ValueError
        If `turned` is not in [0, 1].
    OSError
        If the file is not there or is not what it should be.
    """
    if isinstance(turned, bool) or not 0 <= turned <= 1:
        raise ValueError(f"turned of fetch_femnist must be in [0, 1]; got {turned!r}.")
    images, labels, writers, tests, names = _read(data_home)
    turn = make_generator(random_state).random(N_WRITERS) < turned
    X = ((255 - images) / np.float32(255)).astype(np.float32)
    rotated = turn[writers]
    X[rotated] = np.rot90(X[rotated], axes=(1, 2))
    X = X.reshape(len(X), -1)

    def parts(chosen):
        rows = [np.flatnonzero(chosen & (writers == i)) for i in range(N_WRITERS)]
        return [(X[part], labels[part].astype(np.int64)) for part in rows]

    return Bunch(
        parties=parts(~tests),
        parties_test=parts(tests),
        turned=turn,
        party_names=[str(name) for name in names],
        public={"classes": list(CLASSES)},
        characters=CHARACTERS,
        DESCR=DESCR,
    )


def _read(data_home):
    """Images, labels, writers, which rows are for tests, and the writers' names."""
    folder = data_home if data_home is not None else os.environ.get(FOLDER_VARIABLE)
    if not folder:
        raise OSError(
            f"fetch_femnist needs {FILE} in a folder: pass it as data_home or name it in the "
            f"environment variable {FOLDER_VARIABLE}."
        )
    path = Path(folder).expanduser() / FILE
    try:
        with np.load(path) as data:
            images, labels = data["x"], data["y"]
            writers, tests, names = data["writer"], data["is_test"].astype(bool), data["writer_ids"]
        sound = images.shape == (N_IMAGES, 28, 28) and len(names) == N_WRITERS
        if not sound or set(np.unique(writers)) != set(range(N_WRITERS)) or labels.max() != 61:
            raise ValueError(f"there are {len(images)} images of {len(names)} writers.")
    except Exception as error:
        raise OSError(f"fetch_femnist cannot use {path}: {error}") from error
    return images, labels, writers, tests, names
