"""Personalised regressors of parties that follow different laws."""

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression

from sklearn_fedpriv._sklearn import fit_context
from sklearn_fedpriv.cluster._base import Clustered
from sklearn_fedpriv.federation._inputs import gather


class ClusteredDPRegressor(Clustered, RegressorMixin, BaseEstimator):
    """Private regressors of parties that follow different laws: one model a group of parties.

    There are ``n_clusters`` hypotheses. Each round, each party that takes part finds out which of
    them suits its rows best, trains it on them for a few epochs, and answers with how that changed
    it; the server moves each hypothesis by the noisy sum of the changes. Which hypothesis a party
    uses is hidden as well as the change itself. In the end every party picks its model for itself:
    ``personalize``.

    Rows and targets should be scaled by public numbers to about 1.

    Parameters
    ----------
    net : None, uninitialised skorch net, or class of torch.nn.Module, default=None
        ``None`` is a linear model. Of a skorch net its module, criterion, optimizer, learning rate
        and device are used; a class is trained by SGD on the squared error.
    n_clusters : int, default=2
        Number of hypotheses.
    n_rounds : int, default=30
        Rounds of local training; few with Gaussian noise and all parties, some 200 with
        ``mechanism="metric"`` and few parties a round.
    parties_per_round : int, default=None
        Parties that take part in a round, drawn in public so that all take part equally often;
        ``None``, or more than there are, means all.
    local_epochs : int, default=10
        Passes over a party's rows in a round.
    learning_rate : float, default=None
        Of local training. ``None`` means 0.1, or that of a skorch net.
    batch_size : int, default=None
        Rows a step of local training; ``None`` takes all.
    clip_norm : float, sequence of float, or FallingClip, default=None
        Longest change of the parameters in a round: a number for all rounds, one for each, or a
        falling series. ``None`` means ``FallingClip()``, from 1 to 0.05. The noise is in proportion
        to it.
    mechanism : {"gaussian", "metric"}, default="gaussian"
        Gaussian noise in shares of all parties, calibrated to ``epsilon`` and ``delta``; or metric
        noise, in full at every party, calibrated to ``noise_ratio``, whose epsilon adds up over the
        participations and soon is large.
    epsilon : float, default=1.0
        With Gaussian noise: budget of one fit, over all its rounds, in (0, inf]. Infinity adds no
        noise.
    delta : float, default=1e-5
        With Gaussian noise: in (0, 1).
    noise_ratio : float, default=1.0
        With metric noise: ``nu``, about the length of the noise over the clip norm, for one
        party. Each participation costs ``2 d / nu``, with ``d`` numbers in an answer. 0 adds none.
    hide_membership : bool, default=True
        ``False``, with metric noise only, sends each party's choice in clear: fewer numbers need
        noise, and the guarantee holds only between data sets that agree on the choices.
    max_participations : int, default=None
        A party refuses to take part more often; a fit that would need it is refused at once.
    max_leakage : float, default=None
        With metric noise: likewise for the sum of what its participations cost.
    patience : int, default=None
        With ``X_val``: stop after so many rounds without a smaller loss on these public rows.
    spread : float, default=1.0
        How far from the origin the hypotheses start, in directions that are drawn in public.
    fit_intercept : bool, default=True
        Whether the linear model has a constant.
    min_honest : int, default=None
        At least so many parties do not collude; ``None`` means all.
    max_dropouts : int, default=0
        So many parties may be missing from a sum.
    secure_sum : {"masks", "paillier", "plain"} or settings, default="masks"
        How answers are added; nobody sees a single one under masks and Paillier.
    calibration : {"proved", "published"}, default="proved"
        ``"published"`` runs the method as printed: metric noise in proportion to the party's own
        change, choices in clear, no clip norm; that has no proof.
    n_jobs : int, default=None
        Parties that compute at one time, in threads.
    random_state : int, RandomState, Generator or None, default=None
        Set, it makes the noise reproducible, and the fit not private.
    verbose : int, default=0
        Above 0: one line a release.

    Attributes
    ----------
    hypotheses_ : ndarray of shape (n_clusters, n_parameters)
        Parameters of each model; of the linear one the coefficients, then the intercept.
    counts_ : ndarray of shape (n_clusters,)
        Released number of parties a round that use each of them, over the last rounds: noisy.
    participations_ : dict
        In how many rounds each party took part, by its name; public.
    leakage_ : float
        What the participations cost the party that may take part most often, in the whole plan:
        proved, or with ``calibration="published"`` as the paper has it.
    history_ : dict
        ``"hypotheses"``, of shape (n_rounds_ + 1, n_clusters, n_parameters), empty for models with
        more than 1000 numbers, and ``"counts"``, of shape (n_rounds_, n_clusters): released.
    choices_ : dict
        Where choices are sent in clear only: each party's last one, by its name.
    n_rounds_ : int
        Rounds that took place.
    privacy_ : PrivacyReport
        What was released and what it cost.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where the parties' tables have names.

    Notes
    -----
    **Privacy**

    Unit: one party's whole data, replaced.
    Sensitivity: twice the clip norm for an answer, choice and change together, enforced in whole
    numbers in ``ClusterUpdate``; a party's own ledger counts how often it takes part.
    Mechanism: discrete Gaussian in shares of all parties, for the most participations of any; or
    multivariate Laplace noise over the whole answer, in full at each party that takes part, so that
    the epsilon holds towards the server too.
    Server sees: ClusterUpdate, OpenClusterUpdate, PublishedUpdate; only their sums over the
    parties if ``secure_sum`` hides single answers. Nobody sees who uses which hypothesis, unless
    choices are sent in clear.
    Not covered: malicious parties, timing, that a party took part, records of one person at
    several parties.

    Raises
    ------
    BudgetExceeded
        A party or a ceiling does not allow the fit. Nothing was released.
    TooFewParties
        Fewer parties than ``min_honest``.

    See Also
    --------
    ClusteredDPClassifier : The same for classes.
    sklearn_fedpriv.FederatedDPNeuralNetRegressor : One model for all parties.

    References
    ----------
    Galli et al., "Advancing personalized federated learning: group privacy, fairness, and beyond",
    SN Computer Science 4, 2023 (arXiv 2309.00416).
    Ghosh et al., "An efficient framework for clustered federated learning", NeurIPS 2020.

    Examples
    --------
    >>> from sklearn_fedpriv import ClusteredDPRegressor
    >>> from sklearn_fedpriv.datasets import make_two_laws
    >>> laws = make_two_laws(n_parties=60, random_state=0)
    >>> model = ClusteredDPRegressor(epsilon=8.0, fit_intercept=False, random_state=0)
    >>> model = model.fit(laws.parties)
    >>> model.hypotheses_[model.hypotheses_[:, 1].argsort()].round()
    array([[ 4., -4.],
           [ 5.,  6.]])
    >>> X, y = laws.parties[0]
    >>> bool(model.personalize(X, y).score(X, y) > 0.9)  # at the party, on its own rows
    True
    """

    def __init__(
        self,
        net=None,
        *,
        n_clusters=2,
        n_rounds=30,
        parties_per_round=None,
        local_epochs=10,
        learning_rate=None,
        batch_size=None,
        clip_norm=None,
        mechanism="gaussian",
        epsilon=1.0,
        delta=1e-5,
        noise_ratio=1.0,
        hide_membership=True,
        max_participations=None,
        max_leakage=None,
        patience=None,
        spread=1.0,
        fit_intercept=True,
        min_honest=None,
        max_dropouts=0,
        secure_sum="masks",
        calibration="proved",
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.net = net
        self.n_clusters = n_clusters
        self.n_rounds = n_rounds
        self.parties_per_round = parties_per_round
        self.local_epochs = local_epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.clip_norm = clip_norm
        self.mechanism = mechanism
        self.epsilon = epsilon
        self.delta = delta
        self.noise_ratio = noise_ratio
        self.hide_membership = hide_membership
        self.max_participations = max_participations
        self.max_leakage = max_leakage
        self.patience = patience
        self.spread = spread
        self.fit_intercept = fit_intercept
        self.min_honest = min_honest
        self.max_dropouts = max_dropouts
        self.secure_sum = secure_sum
        self.calibration = calibration
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y=None, *, parties=None, X_val=None, y_val=None):
        """Fit the hypotheses to the rows of all parties.

        Parameters
        ----------
        X : list of parties, list of tables, table, or Federation
            ``[(X_1, y_1), ...]`` or ``[Party, ...]``; or ``[X_1, ...]`` with ``y=[y_1, ...]``; or
            one table of shape (n_rows, n_features).
        y : array-like of shape (n_rows,), or list of them, default=None
        parties : array-like of shape (n_rows,), default=None
            With one table: the party that each row belongs to.
        X_val : table or list of tables, default=None
            Public rows on which ``patience`` watches the loss, each table with its best hypothesis.
        y_val : array-like of shape (n_rows_val,), or list of them, default=None
            Their targets.

        Returns
        -------
        self : ClusteredDPRegressor
        """
        self._check_arguments()
        federation = gather(self, X, y, parties, allow_nd=self.net is not None, y_numeric=True)
        shape = tuple(federation.rows[0][0].shape[1:])
        trainer, origin, step = self._build(shape, (), self._start_key())
        self._fit_clusters(federation, step, trainer, origin, (), X_val, y_val)
        return self

    def predict(self, X, *, parties=None, choices=None):
        """Predicted target of each row.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
        parties : array-like of shape (n_rows,), default=None
            The party that each row belongs to. ``None`` predicts all rows by the hypothesis with
            the largest released count.
        choices : dict, default=None
            Party -> index of its hypothesis, as ``choose`` tells it there. Needed with ``parties``
            unless choices were sent in clear.

        Returns
        -------
        targets : ndarray of shape (n_rows,)
        """
        return self._by_hypothesis(X, parties, choices)[:, 0]

    def personalize(self, X, y):
        """The model for the party that holds these rows; run it where they are.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)

        Returns
        -------
        model : fitted LinearRegression, or skorch net
            Of the hypothesis that suits the rows best. Whoever sees it learns which one that is.
        """
        index = self.choose(X, y)
        if self.net is not None:
            return self._net_of(index)
        model = LinearRegression(fit_intercept=self.fit_intercept)
        coefficients, constants = self._trainer.parts(self.hypotheses_[index])
        return self._named(model, coef_=coefficients[0], intercept_=float(constants[0]))

    def preview(self, n_parties, n_rows, n_features):
        """What a fit would release, and its noise, from public numbers alone.

        Parameters
        ----------
        n_parties : int
        n_rows : int
            Of all parties; here the noise does not depend on it.
        n_features : int

        Returns
        -------
        preview : Preview
            ``print`` it. Under metric noise its epsilon is that of all participations of a party.
        """
        return self._preview(n_parties, n_rows, n_features, 0)

    def _coded(self, step, X, y):
        X, y = self._check_rows(X, y)
        y = y.astype(np.float64)
        return (X, y) if step is None else step.apply(X, y)
