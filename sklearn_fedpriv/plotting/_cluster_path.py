"""Hypotheses on their way through the rounds."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # Okabe and Ito


class ClusterPathDisplay:
    """The paths of two parameters of each hypothesis, from its start to its end.

    Everything drawn was released. Make it with ``from_estimator``.

    Parameters
    ----------
    paths : ndarray of shape (n_rounds + 1, n_clusters, 2)
        Hypotheses at the start and after each round.
    ends : ndarray of shape (n_clusters, 2)
        What the fit returned: a mean over the last rounds.
    names : pair of str
        Of the two parameters.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D
        One path a hypothesis.

    Examples
    --------
    >>> from sklearn_fedpriv import ClusteredDPRegressor
    >>> from sklearn_fedpriv.datasets import make_two_laws
    >>> from sklearn_fedpriv.plotting import ClusterPathDisplay
    >>> laws = make_two_laws(n_parties=40, random_state=0)
    >>> model = ClusteredDPRegressor(epsilon=1e4, fit_intercept=False).fit(laws.parties)
    >>> display = ClusterPathDisplay.from_estimator(model, laws=laws.laws)
    >>> len(display.lines_)
    2
    """

    def __init__(self, paths, ends, names):
        self.paths = paths
        self.ends = ends
        self.names = names

    @classmethod
    def from_estimator(cls, estimator, *, parameters=(0, 1), laws=None, ax=None):
        """Draw the paths of a fitted clustered estimator.

        Parameters
        ----------
        estimator : ClusteredDPRegressor or ClusteredDPClassifier
        parameters : pair of int, default=(0, 1)
            Which two of the model's parameters.
        laws : array-like of shape (n_laws, 2), default=None
            Known true values, marked by crosses.
        ax : matplotlib Axes, default=None

        Returns
        -------
        display : ClusterPathDisplay
        """
        check_is_fitted(estimator, "history_")
        paths = np.asarray(estimator.history_["hypotheses"])
        if paths.ndim != 3 or paths.shape[2] < 2:
            raise ValueError(
                "There is no path of two parameters: the model has one, or so many that its "
                "history was not kept."
            )
        first, second = parameters
        columns = getattr(estimator, "feature_names_in_", None)
        names = tuple(
            str(columns[i]) if columns is not None and i < len(columns) else f"parameter {i}"
            for i in (first, second)
        )
        chosen = [first, second]
        display = cls(paths[:, :, chosen], estimator.hypotheses_[:, chosen], names)
        return display.plot(laws=laws, ax=ax)

    def plot(self, *, laws=None, ax=None):
        """Draw.

        Parameters
        ----------
        laws : array-like of shape (n_laws, 2), default=None
        ax : matplotlib Axes, default=None

        Returns
        -------
        display : ClusterPathDisplay
        """
        if ax is None:
            try:
                from matplotlib.figure import Figure
            except ImportError as error:
                raise ImportError(
                    "ClusterPathDisplay needs matplotlib: pip install sklearn-fedpriv[plot]"
                ) from error
            ax = Figure(figsize=(5, 4.5), layout="constrained").add_subplot()
        self.ax_, self.figure_, self.lines_ = ax, ax.figure, []
        for j, path in enumerate(np.swapaxes(self.paths, 0, 1)):
            colour = _COLOURS[j % len(_COLOURS)]
            (line,) = ax.plot(*path.T, "-", color=colour, lw=1, alpha=0.7, label=f"hypothesis {j}")
            ax.plot(*path[0], "o", color=colour, ms=6, mfc="white", zorder=3)
            ax.plot(*self.ends[j], "o", color=colour, ms=8, zorder=4)
            self.lines_.append(line)
        if laws is not None:
            ax.plot(*np.asarray(laws, dtype=float).T, "kx", ms=11, mew=2, zorder=5, label="laws")
        ax.plot([], [], "o", color="grey", mfc="white", label="start")
        ax.plot([], [], "o", color="grey", label="end")
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        ax.legend(frameon=False, fontsize="small")
        ax.spines[["top", "right"]].set_visible(False)
        return self
