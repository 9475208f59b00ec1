"""Regression by a net that noisy rounds train over the rows of several parties."""

from typing import ClassVar

from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sklearn_fedpriv._sklearn import fit_context
from sklearn_fedpriv.federation._inputs import gather
from sklearn_fedpriv.neural_network._base import NET_CONSTRAINTS, FederatedNet


class FederatedDPNeuralNetRegressor(FederatedNet, RegressorMixin, BaseEstimator):
    """Private neural network regressor of several parties, trained by noisy rounds.

    As ``FederatedDPNeuralNetClassifier``, for one number a row. Targets far from 0 take long to
    reach: scale them by public numbers to about 1.

    Parameters
    ----------
    net : uninitialised skorch net, or class of torch.nn.Module
        Of a skorch net its module, criterion, optimizer, learning rate, device,
        ``predict_nonlinearity`` and ``iterator_valid`` are used; ``max_epochs``, ``batch_size``,
        ``train_split``, ``callbacks``, ``warm_start`` and ``iterator_train`` are not, and must be
        left alone. A module whose ``__init__`` has ``n_features`` at None gets it. A
        class is trained by SGD on the squared error.
    epsilon : float, default=1.0
        Budget of one fit, over all its releases, in (0, inf]. Infinity adds no noise.
    delta : float, default=1e-5
        In (0, 1); at least 1e-10 where rows are sampled.
    clip_norm : float, default=1.0
        Longest L2 norm of the gradient of a row, or of what a party changes in a round. Longer ones
        are scaled down to it, and the noise is in proportion to it.
    sampling_rate : float, default=0.05
        With ``unit="record"``: chance of each row to be in the sample of a step, in (0, 1]. Parties
        draw their samples for themselves and tell nobody.
    n_rounds : int, default=200
        Steps, or rounds of local training.
    n_rows_hint : int, default=None
        Publicly known number of rows of all parties, roughly. Needed with ``unit="record"``:
        times ``sampling_rate`` it divides the sums.
    noise_schedule : float, sequence or schedule, default=1.0
        Ratio of the variances of each round's noise and the next one's; or a variance, up to a
        common factor, for each round; or a ``GeometricNoise``, ``CustomNoise`` or
        ``AdaptiveRounds``. Sampled steps are a fixed number and all have the same noise.
    unit : {"record", "party"}, default="record"
        What is protected: a row that is added or removed, by steps along clipped gradients of
        single rows; or all data of one party, replaced, by rounds of local training (DP-FedAvg).
    local_epochs : int, default=1
        With ``unit="party"`` or ``calibration="published"``: passes over a party's rows in a round.
    local_batch_size : int, default=32
        With ``unit="party"``: rows a step of the local training.
    max_participations : int, default=None
        With ``unit="party"``: at most so many rounds may ask one party; all parties are in every
        round, so it is at least ``n_rounds``. ``None`` means ``n_rounds``.
    server_momentum : float, default=0.0
        With ``unit="party"``: part of a round's change that goes on in the next, in [0, 1).
    min_honest : int, default=None
        At least so many parties do not collude; ``None`` means all. With 1, each party's noise
        protects its rows alone (local differential privacy).
    max_dropouts : int, default=0
        So many parties may be missing from a sum.
    secure_sum : {"masks", "paillier", "plain"} or settings, default="masks"
        How answers are added; nobody sees a single one under masks and Paillier.
    calibration : {"proved", "published"}, default="proved"
        ``"published"`` averages the weights of local DP-SGD epochs with divided noise, as printed
        by Truex et al., which has no proof; ``local_epochs`` are those of one round.
    n_jobs : int, default=None
        Parties that compute at one time, in threads of one core each.
    random_state : int, RandomState, Generator or None, default=None
        Set, it makes weights, samples and noise reproducible, and the fit not private.
    verbose : int, default=0
        Above 0: one line a release.

    Attributes
    ----------
    net_ : skorch net
        Initialised, with the trained weights; pickles, saves parameters and moves devices as any.
        Its ``module_`` is fed rows in the type of its weights.
    n_rounds_ : int
        Rounds that took place; fewer than ``n_rounds`` under ``AdaptiveRounds``.
    privacy_ : PrivacyReport
        What was released and what it cost.
    n_features_in_ : int
        Number of columns; of shaped rows, the length of their first axis.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where the parties' tables have names.

    Notes
    -----
    **Privacy**

    Unit: one record, added or removed; with ``unit="party"`` one party's whole data, replaced.
    Sensitivity: the clip norm, enforced row by row in ``ClippedGradient``, plus a written bound on
    float errors and rounding; twice the clip norm of ``LocalUpdate`` for a party. Nets that mix
    rows are refused before the first release.
    Mechanism: discrete Gaussian in shares of the parties. Steps on samples are charged by the
    privacy loss distribution of the subsampled Gaussian for all ``n_rounds``, also when a fit is
    interrupted; without sampling, and for parties, as one Gaussian, with the losses that
    ``AdaptiveRounds`` pays for without validation data.
    Server sees: ClippedGradient, LocalUpdate, NetLoss, PartyLoss; only their sums over the parties
    if ``secure_sum`` hides single answers. Nobody sees who was sampled, or how many.
    Not covered: malicious parties, timing, that a party took part, records of one person at
    several parties.

    Raises
    ------
    BudgetExceeded
        A party or a ceiling does not allow the fit. Nothing was released.
    TooFewParties
        Fewer parties than ``min_honest``.
    ValueError
        The net mixes the rows of a batch (the layer is named), has settings that are not used, or
        outputs of another shape; net, loss and optimizer make no step on made-up rows; or a party
        holds rows that the net does not read. Nothing was charged.

    See Also
    --------
    FederatedDPNeuralNetClassifier : The same for classes.

    References
    ----------
    Abadi et al., "Deep learning with differential privacy", CCS 2016.
    McMahan et al., "Learning differentially private recurrent language models", ICLR 2018.
    Truex et al., "A hybrid approach to privacy-preserving federated learning", 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_fedpriv import FederatedDPNeuralNetRegressor
    >>> from sklearn_fedpriv.neural_network import SmallNet
    >>> X = np.linspace(-1, 1, 2000).reshape(-1, 2)
    >>> y = X[:, 0] ** 2
    >>> parties = [(X[i::4], y[i::4]) for i in range(4)]
    >>> model = FederatedDPNeuralNetRegressor(
    ...     SmallNet, epsilon=8.0, n_rounds=60, sampling_rate=0.2, n_rows_hint=1000, random_state=0
    ... )
    >>> bool(model.fit(parties).score(X, y) > 0.8)
    True
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"X_val": True, "y_val": True}

    _parameter_constraints: ClassVar[dict[str, list]] = NET_CONSTRAINTS

    def __init__(
        self,
        net,
        *,
        epsilon=1.0,
        delta=1e-5,
        clip_norm=1.0,
        sampling_rate=0.05,
        n_rounds=200,
        n_rows_hint=None,
        noise_schedule=1.0,
        unit="record",
        local_epochs=1,
        local_batch_size=32,
        max_participations=None,
        server_momentum=0.0,
        min_honest=None,
        max_dropouts=0,
        secure_sum="masks",
        calibration="proved",
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.net = net
        self.epsilon = epsilon
        self.delta = delta
        self.clip_norm = clip_norm
        self.sampling_rate = sampling_rate
        self.n_rounds = n_rounds
        self.n_rows_hint = n_rows_hint
        self.noise_schedule = noise_schedule
        self.unit = unit
        self.local_epochs = local_epochs
        self.local_batch_size = local_batch_size
        self.max_participations = max_participations
        self.server_momentum = server_momentum
        self.min_honest = min_honest
        self.max_dropouts = max_dropouts
        self.secure_sum = secure_sum
        self.calibration = calibration
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y=None, *, parties=None, X_val=None, y_val=None):
        """Fit the regressor to the rows of all parties.

        Parameters
        ----------
        X : list of parties, list of tables, table, or Federation
            ``[(X_1, y_1), ...]`` or ``[Party, ...]``; or ``[X_1, ...]`` with ``y=[y_1, ...]``; or
            one table of shape (n_rows, n_features), or of shaped rows.
        y : array-like of shape (n_rows,), or list of them, default=None
        parties : array-like of shape (n_rows,), default=None
            With one table: the party that each row belongs to.
        X_val : table, default=None
            Public rows, on which ``AdaptiveRounds`` watches the loss.
        y_val : array-like of shape (n_rows_val,), default=None
            Their labels or targets.

        Returns
        -------
        self : FederatedDPNeuralNetRegressor
        """
        self._check_arguments()
        federation = gather(self, X, y, parties, allow_nd=True, y_numeric=True)
        self._fit_net(federation, (), self._public_rows(X_val, y_val))
        return self

    def preview(self, n_parties, n_rows, n_features):
        """What a fit would release, and its noise, from public numbers alone.

        Parameters
        ----------
        n_parties : int
        n_rows : int
            Of all parties, roughly; used where there is no ``n_rows_hint``.
        n_features : int
            Of flat rows.

        Returns
        -------
        preview : Preview
            ``print`` it.
        """
        return self._preview(n_parties, n_rows, n_features, None)

    def predict(self, X):
        """Predicted number of each row.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or of shaped rows

        Returns
        -------
        numbers : ndarray of shape (n_rows,), float64
        """
        check_is_fitted(self, "net_")
        return self._outputs(self._check_table(X, allow_nd=True)).reshape(-1)
