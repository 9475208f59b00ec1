"""Deep leakage from gradients: rebuild a record from what a server saw of one step on it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_fedpriv.privacy._randomness import derive_key, fresh_key, seed_key


@dataclass(frozen=True)
class RebuiltRecord:
    """What an attack made of one gradient.

    Parameters
    ----------
    row : ndarray of the row's shape
        The rebuilt input.
    label : int
        The rebuilt class.
    gap : float
        Squared distance of its gradient from the one that was seen.
    error : float or None
        Mean squared difference from the true row, where that was given.
    """

    row: np.ndarray
    label: int
    gap: float
    error: float | None


def rebuild_record(
    module: Any,
    gradient: Any,
    row_shape: tuple[int, ...],
    *,
    true_row: Any = None,
    n_iter: int = 300,
    random_state: Any = 0,
) -> RebuiltRecord:
    """Try to rebuild the one record whose cross-entropy gradient a server saw.

    An illustration of one attack on one record in one step, not a measure of privacy: that it
    fails proves nothing. What is proved stands in ``privacy_``.

    Parameters
    ----------
    module : torch.nn.Module
        The net, with the weights at which the gradient was taken. Its outputs are scores, one a
        class, and it is twice differentiable (sigmoids or tanh rather than ReLU).
    gradient : ndarray of shape (n_parameters,)
        As seen; of an update, the update over minus the learning rate.
    row_shape : tuple of int
        Of one record.
    true_row : ndarray, default=None
        To tell the error.
    n_iter : int, default=300
        Iterations of L-BFGS.
    random_state : int or None, default=0
        Of the first guess.

    Returns
    -------
    rebuilt : RebuiltRecord

    References
    ----------
    Zhu et al., "Deep leakage from gradients", NeurIPS 2019.
    """
    from sklearn_fedpriv._torch import _rebuild

    gradient = np.asarray(gradient, dtype=np.float64)
    if gradient.shape != (sum(_rebuild.layer_sizes(module)),):
        raise ValueError(
            f"gradient must be one vector of {sum(_rebuild.layer_sizes(module))} numbers; got "
            f"shape {gradient.shape}."
        )
    key = seed_key(random_state) or fresh_key()
    seed = int.from_bytes(derive_key(key, "guess")[:7], "big")
    match = _rebuild.best_match(module, gradient, tuple(row_shape), int(n_iter), seed)
    error = None
    if true_row is not None:
        error = float(((match.row - np.asarray(true_row)) ** 2).mean())
    return RebuiltRecord(match.row, match.label, match.gap, error)


def sanitise_layers(
    module: Any, update: Any, noise_ratio: float, *, random_state: Any = None
) -> np.ndarray:
    """Add noise to an update layer by layer, each in proportion to the layer's own length.

    As printed by Galli et al.: of a layer with ``n`` numbers and length ``r`` the rate is
    ``n / (noise_ratio * r)``. The scale follows from private numbers, so this proves nothing; it is
    for showing what the attack makes of it, and is no part of any fit.

    Parameters
    ----------
    module : torch.nn.Module
        Tells the layers.
    update : ndarray of shape (n_parameters,)
    noise_ratio : float
        The papers' nu, from 0: about the length of the noise over that of the layer.
    random_state : int or None, default=None

    Returns
    -------
    noisy : ndarray of shape (n_parameters,), float64

    References
    ----------
    Galli et al., "Group privacy for personalized federated learning", 2022 (arXiv 2206.03396).
    """
    from sklearn_fedpriv._torch import _rebuild

    if not noise_ratio >= 0:
        raise ValueError(f"noise_ratio must be 0 or more; got {noise_ratio!r}.")
    noisy = np.array(update, dtype=np.float64)
    key = seed_key(random_state) or fresh_key()
    rng = np.random.default_rng(int.from_bytes(derive_key(key, "layers"), "big"))
    start = 0
    for n in _rebuild.layer_sizes(module):
        layer = noisy[start : start + n]
        direction = rng.standard_normal(n)
        length = rng.gamma(n, noise_ratio * np.linalg.norm(layer) / n) if noise_ratio else 0.0
        layer += direction * (length / np.linalg.norm(direction))
        start += n
    return noisy
