"""Linear and kernel support vector classification by noisy gradient rounds."""

from dataclasses import replace
from fractions import Fraction
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.svm import LinearSVC
from sklearn.utils.validation import check_is_fitted

from sklearn_fedpriv._sklearn import Interval, StrOptions, fit_context
from sklearn_fedpriv.federation._estimator import FEDERATED_CONSTRAINTS, FederatedMixin
from sklearn_fedpriv.federation._inputs import gather
from sklearn_fedpriv.federation._preview import check_public_counts, imagined_terms
from sklearn_fedpriv.federation._public_facts import RowFacts, resolve_classes
from sklearn_fedpriv.privacy._ledger import budget
from sklearn_fedpriv.privacy._randomness import Stream, derive_key, fresh_key, seed_key
from sklearn_fedpriv.privacy._schedules import AdaptiveRounds, Shares, as_schedule
from sklearn_fedpriv.svm._checks import check_class_weight, public_loss
from sklearn_fedpriv.svm._planning import SCALE_SHARE, Plan
from sklearn_fedpriv.svm._published import (
    check_published,
    check_unsampled,
    published_plan,
    train_published,
)
from sklearn_fedpriv.svm._rows import MAX_FEATURES, ROW_TICKS, RowCoder
from sklearn_fedpriv.svm._training import Problem, Scale, train


class FederatedDPSVC(FederatedMixin, ClassifierMixin, BaseEstimator):
    """Private support vector classifier of several parties, trained by noisy gradient rounds.

    Minimises ``|w|^2 / 2 + C * sum of hinge losses``; for more than two classes with the loss of
    Crammer and Singer. Each round every party sums the subgradients of its rows, and the server
    steps along the parties' noisy sum, with momentum. Steps are as large as the curvature allows
    and as small as the noise demands, so the defaults need no tuning, and an epsilon that is too
    small gives a timid model rather than a wild one. The kernel ``"rbf"`` is approximated by random
    Fourier features, which are public.

    Rows longer than ``bound`` are scaled down to it, in ``fit`` and in ``predict``.
    ``PublicEncoder`` gives rows of length 1; a ``LongRowsWarning`` says if most rows are longer.

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget of one fit, over all its releases, in (0, inf]. Infinity adds no noise.
    delta : float, default=1e-5
        In (0, 1).
    C : float, default=1.0
        Weight of the losses against the length of the weights, as in scikit-learn.
    kernel : {"linear", "rbf"}, default="linear"
    gamma : float, default=None
        Of ``exp(-gamma |x - x'|^2)``. ``None`` means ``2 / bound**2``, which suits rows about as
        long as the bound.
    n_components : int, default=500
        Number of random Fourier features of the RBF kernel, rounded up to an even one.
    bound : float, default=1.0
        Public bound on the length of a row, in the units of the data. Much too large a bound
        costs accuracy, as the noise grows with it.
    n_rounds : int, default=30
        Gradient rounds, among which the budget is split: more of them do not cost accuracy by
        themselves, but time.
    learning_rate : float, default=None
        Step length, for rows of the mean gradient. ``None`` derives it from public numbers and the
        first release; with ``calibration="published"`` it is 0.1 over the squared bound. No step
        carries the weights beyond a length that the best ones cannot have.
    noise_schedule : float, sequence or schedule, default=1.0
        Ratio of the variances of each round's noise and the next one's; or a variance, up to a
        common factor, for each round; or a ``GeometricNoise``, ``CustomNoise`` or
        ``AdaptiveRounds``.
    n_rows_hint : int, default=None
        Publicly known number of rows of all parties, roughly. ``None`` asks for a noisy count.
    parties_per_round : int, default=None
        Parties that the server picks each round, with ``calibration="published"``; ``None`` means
        all.
    classes : list, default=None
        All class labels.
    fit_intercept : bool, default=True
        Whether to fit a constant. It is held to the ridge like the other weights.
    class_weight : dict, default=None
        Class label -> positive factor of its losses; 1 for those left out. The noise grows with
        the largest; weights count in steps of 1/1024 of it, and at least as one step.
    min_honest : int, default=None
        At least so many parties do not collude; ``None`` means all. With 1, each party's noise
        protects its rows alone (local differential privacy).
    max_dropouts : int, default=0
        So many parties may be missing from a sum.
    secure_sum : {"masks", "paillier", "plain"} or settings, default="masks"
        How answers are added; nobody sees a single one under masks and Paillier.
    calibration : {"proved", "published"}, default="proved"
        ``"published"`` averages locally trained weights as printed by Truex et al. and Yuan et
        al., which has no proof; it needs ``n_rows_hint``.
    n_jobs : int, default=None
        Parties that compute at one time, as in joblib.
    random_state : int, RandomState, Generator or None, default=None
        Set, it makes the noise reproducible, and the fit not private.
    verbose : int, default=0
        Above 0: one line a release.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights; of the random features with ``kernel="rbf"``.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Constants.
    n_rounds_ : int
        Rounds that took place; fewer than ``n_rounds`` under ``AdaptiveRounds``.
    participations_ : dict
        In how many of these rounds each party took part, by its name.
    privacy_ : PrivacyReport
        What was released and what it cost.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where the parties' tables have names.

    Notes
    -----
    **Privacy**

    Unit: one record, added or removed.
    Sensitivity: the bound on a row and its constant, times the largest class weight, and the root
    of two for more than two classes, enforced in ``HingeGradient``: rows and weights are whole
    numbers, so sums are exact and a row moves its own contribution alone.
    Mechanism: discrete Gaussian in shares of the parties; one release that measures the rows, one
    a round, and the losses that ``AdaptiveRounds`` pays for without validation data.
    Server sees: RowScale, HingeGradient, HingeLoss, or LocalWeights of the published method; only
    their sums over the parties if ``secure_sum`` hides single answers.
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
    sklearn_fedpriv.preprocessing.PublicEncoder : Rows of length 1, free of charge.
    sklearn.svm.LinearSVC : Without privacy.

    References
    ----------
    Truex et al., "A hybrid approach to privacy-preserving federated learning", 2019.
    Yuan et al., "Amplitude-varying perturbation for balancing privacy and utility in federated
    learning", IEEE TIFS 2023.
    Crammer and Singer, "On the algorithmic implementation of multiclass kernel-based vector
    machines", JMLR 2001.
    Rahimi and Recht, "Random features for large-scale kernel machines", NIPS 2007.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn_fedpriv import FederatedDPSVC
    >>> from sklearn_fedpriv.datasets import load_hospitals
    >>> from sklearn_fedpriv.preprocessing import PublicEncoder
    >>> hospitals = load_hospitals()
    >>> svc = FederatedDPSVC(epsilon=4.0, classes=hospitals.public["classes"], random_state=0)
    >>> model = make_pipeline(PublicEncoder(bounds=hospitals.public["bounds"]), svc)
    >>> model = model.fit(hospitals.parties)
    >>> bool(model.score(hospitals.X_test, hospitals.y_test) > 0.9)
    True
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"X_val": True, "y_val": True}

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **FEDERATED_CONSTRAINTS,
        "C": [Interval(Real, 1e-100, 1e100, closed="both")],
        "kernel": [StrOptions({"linear", "rbf"})],
        "gamma": [Interval(Real, 0, None, closed="neither"), None],
        "n_components": [Interval(Integral, 1, MAX_FEATURES, closed="both")],
        "bound": [Interval(Real, 1e-100, 1e100, closed="both")],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "noise_schedule": [object],  # checked by as_schedule
        "n_rows_hint": [Interval(Integral, 1, None, closed="left"), None],
        "parties_per_round": [Interval(Integral, 1, None, closed="left"), None],
        "classes": ["array-like", None],
        "fit_intercept": ["boolean"],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        *,
        epsilon=1.0,
        delta=1e-5,
        C=1.0,
        kernel="linear",
        gamma=None,
        n_components=500,
        bound=1.0,
        n_rounds=30,
        learning_rate=None,
        noise_schedule=1.0,
        n_rows_hint=None,
        parties_per_round=None,
        classes=None,
        fit_intercept=True,
        class_weight=None,
        min_honest=None,
        max_dropouts=0,
        secure_sum="masks",
        calibration="proved",
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.bound = bound
        self.n_rounds = n_rounds
        self.learning_rate = learning_rate
        self.noise_schedule = noise_schedule
        self.n_rows_hint = n_rows_hint
        self.parties_per_round = parties_per_round
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.min_honest = min_honest
        self.max_dropouts = max_dropouts
        self.secure_sum = secure_sum
        self.calibration = calibration
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, parties=None, X_val=None, y_val=None):
        """Fit the classifier to the rows of all parties.

        Parameters
        ----------
        X : list of parties, list of tables, table, or Federation
            ``[(X_1, y_1), ...]`` or ``[Party, ...]``; or ``[X_1, ...]`` with ``y=[y_1, ...]``; or
            one table of shape (n_rows, n_features). Tables may be sparse.
        y : array-like of shape (n_rows,), or list of them, default=None
        parties : array-like of shape (n_rows,), default=None
            With one table: the party that each row belongs to.
        X_val : table, default=None
            Public rows, on which ``AdaptiveRounds`` watches the loss; other schedules ignore them.
        y_val : array-like of shape (n_rows_val,), default=None
            Their labels.

        Returns
        -------
        self : FederatedDPSVC
        """
        federation = gather(self, X, y, parties, accept_sparse="csr")
        self._check_columns(self.n_features_in_)
        name = type(self).__name__
        facts = RowFacts(name, local=federation.rehearsal, declared={"classes": self.classes})
        classes = resolve_classes(self.classes, federation.rows, federation.names, facts)
        facts.warn()
        coder = self._coder(self.n_features_in_, tuple(classes.tolist()))
        problem = self._problem(coder)
        loss = public_loss(self, coder, problem, X_val, y_val)
        if not isinstance(as_schedule(self.noise_schedule), AdaptiveRounds):
            loss = None
        fit = self._fit_published if self.calibration == "published" else self._fit_proved
        weights, report = fit(federation.with_transform(coder), problem, facts, loss)
        self.classes_ = classes
        self.coef_, self.intercept_ = weights[:, :-1], weights[:, -1]
        self._row_coder = coder
        self.privacy_ = report
        return self

    def _fit_proved(self, federation, problem, facts, loss):
        """Weights and report of noisy gradient rounds."""
        check_unsampled(self.parties_per_round)
        plan = self._plan(problem, public=loss is not None)
        run = self._start(federation, plan.releases())
        query = plan.scale
        answer = run.release(query, SCALE_SHARE)
        sd = run.noise_sd(query.bound, query.absolute_bound, SCALE_SHARE)
        weights = train(
            run,
            problem,
            plan.shares,
            Scale.released(answer, sd, self.n_rows_hint),
            learning_rate=self.learning_rate,
            public_loss=loss,
            loss_shares=plan.loss_shares,
        )
        self.n_rounds_ = plan.shares.n_rounds
        self.participations_ = dict.fromkeys(federation.names, self.n_rounds_)
        return weights, run.report(facts.names)

    def _fit_published(self, federation, problem, facts, loss):
        """Weights and report of averaged local training."""
        schedule = as_schedule(self.noise_schedule)
        check_published(
            schedule,
            parties_per_round=self.parties_per_round,
            n_rows_hint=self.n_rows_hint,
            n_parties=len(federation.names),
            public=loss is not None,
        )
        shares = Shares(schedule, int(self.n_rounds), Fraction(1))
        run = self._start(federation, published_plan(problem, shares), adjacency="replace")
        key = seed_key(self.random_state) or fresh_key()
        weights, self.participations_, story = train_published(
            run,
            problem,
            shares,
            n_rows=float(self.n_rows_hint),
            parties_per_round=self.parties_per_round,
            stream=Stream(derive_key(key, "participants", run.terms.fit)),
            learning_rate=self.learning_rate,
            public_loss=loss,
            verbose=self.verbose,
        )
        self.n_rounds_ = shares.n_rounds
        report = run.report(facts.names)
        return weights, replace(report, mechanism=f"{report.mechanism}; {story}")

    def preview(self, n_parties, n_rows, n_features):
        """What a fit would release, and its noise, from public numbers alone.

        Parameters
        ----------
        n_parties : int
        n_rows : int
            Of all parties, roughly.
        n_features : int

        Returns
        -------
        preview : Preview
            ``print`` it.
        """
        self._validate_params()
        self._check_budget("gaussian")
        if self.calibration == "published":
            raise ValueError("preview is about proved noise; set calibration='proved'.")
        check_public_counts(n_parties=n_parties, n_rows=n_rows, n_features=n_features)
        self._check_columns(n_features)
        classes = (0, 1) if self.classes is None else tuple(self.classes)
        problem = self._problem(self._coder(n_features, classes))
        plan = self._plan(problem, public=False)

        def terms_at(epsilon):
            spent = budget(epsilon, self.delta)
            return imagined_terms(
                n_parties, self.min_honest, self.max_dropouts, spent, plan.releases()
            )

        return plan.preview(terms_at, float(self.epsilon), n_parties, n_rows)

    def _check_columns(self, n_features: int) -> None:
        if n_features > MAX_FEATURES:
            raise ValueError(
                f"{type(self).__name__} takes at most {MAX_FEATURES} columns; got {n_features}."
            )

    def _coder(self, n_features: int, classes: tuple) -> RowCoder:
        if self.kernel == "linear":
            return RowCoder(n_features, float(self.bound), classes)
        gamma = 2 / self.bound**2 if self.gamma is None else self.gamma
        n_components = self.n_components + self.n_components % 2
        return RowCoder(n_features, float(self.bound), classes, float(gamma), int(n_components))

    def _problem(self, coder: RowCoder) -> Problem:
        weights = check_class_weight(self.class_weight, coder.classes, type(self).__name__)
        return Problem(
            coder.n_columns, coder.row_bound, weights, float(self.C), bool(self.fit_intercept)
        )

    def _plan(self, problem: Problem, *, public: bool) -> Plan:
        return Plan.of(
            problem,
            as_schedule(self.noise_schedule),
            int(self.n_rounds),
            counted=self.n_rows_hint is None,
            public=public,
        )

    def decision_function(self, X):
        """Scores: positive for the second of two classes, or one a class.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)

        Returns
        -------
        scores : ndarray of shape (n_rows,) or (n_rows, n_classes)
        """
        check_is_fitted(self, "coef_")
        X = self._check_table(X, accept_sparse="csr")
        rows = self._row_coder.code(X) * (self._row_coder.row_bound / ROW_TICKS)
        scores = np.asarray(rows @ self.coef_.T) + self.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X):
        """Class of the highest score.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)

        Returns
        -------
        labels : ndarray of shape (n_rows,)
        """
        scores = self.decision_function(X)
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[best]

    def to_sklearn(self):
        """The linear model as a fitted ``sklearn.svm.LinearSVC``.

        Returns
        -------
        svc : LinearSVC
            Predicts the same for rows within ``bound``; it does not scale longer ones down.
        """
        check_is_fitted(self, "coef_")
        if self.kernel != "linear":
            raise ValueError("Only a linear model is a LinearSVC; kernel is 'rbf'.")
        svc = LinearSVC(C=self.C, loss="hinge", multi_class="crammer_singer")
        if len(self.classes_) == 2:
            svc = LinearSVC(C=self.C, loss="hinge")
        svc.classes_, svc.coef_, svc.intercept_ = self.classes_, self.coef_, self.intercept_
        svc.n_features_in_, svc.n_iter_ = self.n_features_in_, self.n_rounds_
        if hasattr(self, "feature_names_in_"):
            svc.feature_names_in_ = self.feature_names_in_
        return svc
