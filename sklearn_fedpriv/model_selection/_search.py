"""Hyper-parameter search in which the parties vote (DP-Hype)."""

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.model_selection import ParameterGrid, ParameterSampler

from sklearn_fedpriv._sklearn import Interval
from sklearn_fedpriv.model_selection._base import DPHypeSearch


class DPHypeSearchCV(DPHypeSearch):
    """Grid search whose candidates are voted on by the parties, in private.

    Each party fits every candidate to some of its rows, scores it on the others, and votes for its
    best. One secure sum of the votes, with noise, is all that leaves the parties; the candidate
    with the most noisy votes is refitted on all of them. The price does not depend on how many
    candidates there are.

    Parameters
    ----------
    estimator : estimator
        Private or not; pipelines and other meta-estimators too. Its own epsilon pays for the refit.
    param_grid : dict or list of dict
        As in ``GridSearchCV``. Must be public: chosen without looking at the rows.
    scoring : str, callable or None, default=None
        One score, as in ``GridSearchCV``; ``None`` takes the estimator's.
    n_jobs : int, default=None
        Pairs of party and candidate that are fitted at one time, as in joblib.
    refit : bool, default=True
        Fit the chosen candidate on all parties. An estimator that is not federated is fitted on
        pooled rows, which only a rehearsal can do and which is not private.
    cv : int or splitter, default=None
        Inside each party: ``None`` holds out 20 % of its rows once, stratified for classifiers; an
        int makes folds. A splitter without ``random_state`` gets one, so that all candidates of a
        party see the same folds.
    verbose : int, default=0
        Above 0: progress of the local fits, and one line a release.
    error_score : float or "raise", default=nan
        Score of a candidate that fails in a party. NaN ranks last.
    n_votes : int or "auto", default="auto"
        Votes of each party, below the number of candidates. ``"auto"`` takes up to 5, one for each
        four candidates, as long as a candidate that all parties prefer still wins in nine of ten
        cases.
    local_estimator : estimator, default=None
        A cheap stand-in with the same parameters, to rank candidates inside the parties.
    adjacency : {"replace", "add_remove"}, default="replace"
        Neighbouring federations: one party's whole data replaced, or added or removed.
    epsilon : float, default=1.0
        Budget of the selection alone, in (0, inf].
    delta : float, default=1e-5
        In (0, 1).
    min_honest : int, default=None
        At least so many parties do not collude; ``None`` means all.
    max_dropouts : int, default=0
        So many parties may be missing from the sum.
    secure_sum : {"masks", "paillier", "plain"} or settings, default="masks"
        How votes are added.
    random_state : int, RandomState, Generator or None, default=None
        Set, it makes votes and noise reproducible, and the search not private.

    Attributes
    ----------
    cv_results_ : dict
        ``params``, a masked array ``param_...`` for each parameter, ``noisy_votes`` and ``rank``.
        No scores and no times: they stay in the parties.
    best_index_ : int
        The candidate with the most noisy votes.
    best_params_ : dict
        Its parameters.
    best_estimator_ : estimator
        Fitted on all parties, with ``refit=True``.
    selection_bound_ : float
        With probability 0.95, so many true votes at most separate the chosen candidate from the
        best.
    n_votes_ : int
        Votes of each party.
    n_splits_ : int
        Folds inside each party, where the rows have no say in it.
    scorer_ : callable
        What ``score`` uses.
    multimetric_ : bool
        False: votes are about one score.
    privacy_ : PrivacyReport
        Search and refit together, for their common unit.
    classes_ : ndarray of shape (n_classes,)
        Of the refitted classifier.
    n_features_in_ : int
        Of the refitted estimator.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Of the refitted estimator, where it has them.

    Notes
    -----
    **Privacy**

    Unit: one party's whole data, replaced (or added or removed).
    Sensitivity: the root of 2 min(k, p - k) for k votes on p candidates (root of k for
    ``"add_remove"``), enforced in ``Votes``: a party casts k votes for k candidates, always.
    Mechanism: discrete Gaussian in shares of the parties; one release, whatever p. Local training
    need not be private: only the votes leave a party, and the noise covers any change of them.
    Server sees: Votes; only their sum over the parties if ``secure_sum`` hides single answers.
    The refit adds its own releases and its own epsilon.
    Not covered: malicious parties, timing, that a party took part, records of one person at
    several parties; a refit without privacy, which makes the whole report say so.

    Raises
    ------
    BudgetExceeded
        A party or a ceiling does not allow the search. Nothing was released.
    LocalFailure
        Every candidate failed in a party.
    TooFewParties
        Fewer parties than ``min_honest``.

    See Also
    --------
    sklearn_fedpriv.metrics.federated_score : A private score of the chosen model.
    sklearn_fedpriv.DPHypeRandomizedSearchCV : The same over sampled candidates.

    References
    ----------
    Liebenow, Peinemann and Mohammadi, "DP-Hype: distributed differentially private hyperparameter
    search", PoPETs 2026.

    Examples
    --------
    >>> from sklearn_fedpriv import FederatedDPDecisionTree, DPHypeSearchCV
    >>> from sklearn_fedpriv.datasets import load_hospitals
    >>> hospitals = load_hospitals()
    >>> tree = FederatedDPDecisionTree(epsilon=4.0, **hospitals.public)
    >>> search = DPHypeSearchCV(tree, {"max_depth": [1, 3, 8]}, epsilon=8.0)
    >>> search = search.fit(hospitals.parties)
    >>> search.privacy_.unit, search.privacy_.epsilon
    ('record', 12.0)
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **DPHypeSearch._parameter_constraints,
        "param_grid": [dict, list],
    }

    def __init__(
        self,
        estimator,
        param_grid,
        *,
        scoring=None,
        n_jobs=None,
        refit=True,
        cv=None,
        verbose=0,
        error_score=np.nan,
        n_votes="auto",
        local_estimator=None,
        adjacency="replace",
        epsilon=1.0,
        delta=1e-5,
        min_honest=None,
        max_dropouts=0,
        secure_sum="masks",
        random_state=None,
    ):
        self.estimator = estimator
        self.param_grid = param_grid
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.refit = refit
        self.cv = cv
        self.verbose = verbose
        self.error_score = error_score
        self.n_votes = n_votes
        self.local_estimator = local_estimator
        self.adjacency = adjacency
        self.epsilon = epsilon
        self.delta = delta
        self.min_honest = min_honest
        self.max_dropouts = max_dropouts
        self.secure_sum = secure_sum
        self.random_state = random_state

    def _candidates(self) -> list[dict[str, Any]]:
        return list(ParameterGrid(self.param_grid))


class DPHypeRandomizedSearchCV(DPHypeSearch):
    """Search over sampled candidates that are voted on by the parties, in private.

    Each party fits every candidate to some of its rows, scores it on the others, and votes for its
    best. One secure sum of the votes, with noise, is all that leaves the parties; the candidate
    with the most noisy votes is refitted on all of them. The price does not depend on how many
    candidates there are.

    Parameters
    ----------
    estimator : estimator
        Private or not; pipelines and other meta-estimators too. Its own epsilon pays for the refit.
    param_distributions : dict or list of dict
        As in ``RandomizedSearchCV``. Must be public: chosen without looking at the rows.
    n_iter : int, default=10
        Number of candidates.
    candidates_seed : int, default=0
        Public seed of the candidates, from which every party draws the same ones. It has nothing to
        do with the noise; ``random_state`` does.
    scoring : str, callable or None, default=None
        One score, as in ``GridSearchCV``; ``None`` takes the estimator's.
    n_jobs : int, default=None
        Pairs of party and candidate that are fitted at one time, as in joblib.
    refit : bool, default=True
        Fit the chosen candidate on all parties. An estimator that is not federated is fitted on
        pooled rows, which only a rehearsal can do and which is not private.
    cv : int or splitter, default=None
        Inside each party: ``None`` holds out 20 % of its rows once, stratified for classifiers; an
        int makes folds. A splitter without ``random_state`` gets one, so that all candidates of a
        party see the same folds.
    verbose : int, default=0
        Above 0: progress of the local fits, and one line a release.
    error_score : float or "raise", default=nan
        Score of a candidate that fails in a party. NaN ranks last.
    n_votes : int or "auto", default="auto"
        Votes of each party, below the number of candidates. ``"auto"`` takes up to 5, one for each
        four candidates, as long as a candidate that all parties prefer still wins in nine of ten
        cases.
    local_estimator : estimator, default=None
        A cheap stand-in with the same parameters, to rank candidates inside the parties.
    adjacency : {"replace", "add_remove"}, default="replace"
        Neighbouring federations: one party's whole data replaced, or added or removed.
    epsilon : float, default=1.0
        Budget of the selection alone, in (0, inf].
    delta : float, default=1e-5
        In (0, 1).
    min_honest : int, default=None
        At least so many parties do not collude; ``None`` means all.
    max_dropouts : int, default=0
        So many parties may be missing from the sum.
    secure_sum : {"masks", "paillier", "plain"} or settings, default="masks"
        How votes are added.
    random_state : int, RandomState, Generator or None, default=None
        Set, it makes votes and noise reproducible, and the search not private.

    Attributes
    ----------
    cv_results_ : dict
        ``params``, a masked array ``param_...`` for each parameter, ``noisy_votes`` and ``rank``.
        No scores and no times: they stay in the parties.
    best_index_ : int
        The candidate with the most noisy votes.
    best_params_ : dict
        Its parameters.
    best_estimator_ : estimator
        Fitted on all parties, with ``refit=True``.
    selection_bound_ : float
        With probability 0.95, so many true votes at most separate the chosen candidate from the
        best.
    n_votes_ : int
        Votes of each party.
    n_splits_ : int
        Folds inside each party, where the rows have no say in it.
    scorer_ : callable
        What ``score`` uses.
    multimetric_ : bool
        False: votes are about one score.
    privacy_ : PrivacyReport
        Search and refit together, for their common unit.
    classes_ : ndarray of shape (n_classes,)
        Of the refitted classifier.
    n_features_in_ : int
        Of the refitted estimator.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Of the refitted estimator, where it has them.

    Notes
    -----
    **Privacy**

    Unit: one party's whole data, replaced (or added or removed).
    Sensitivity: the root of 2 min(k, p - k) for k votes on p candidates (root of k for
    ``"add_remove"``), enforced in ``Votes``: a party casts k votes for k candidates, always.
    Mechanism: discrete Gaussian in shares of the parties; one release, whatever p. Local training
    need not be private: only the votes leave a party, and the noise covers any change of them.
    Server sees: Votes; only their sum over the parties if ``secure_sum`` hides single answers.
    The refit adds its own releases and its own epsilon.
    Not covered: malicious parties, timing, that a party took part, records of one person at
    several parties; a refit without privacy, which makes the whole report say so.

    Raises
    ------
    BudgetExceeded
        A party or a ceiling does not allow the search. Nothing was released.
    LocalFailure
        Every candidate failed in a party.
    TooFewParties
        Fewer parties than ``min_honest``.

    See Also
    --------
    sklearn_fedpriv.metrics.federated_score : A private score of the chosen model.
    sklearn_fedpriv.DPHypeSearchCV : The same over a grid.

    References
    ----------
    Liebenow, Peinemann and Mohammadi, "DP-Hype: distributed differentially private hyperparameter
    search", PoPETs 2026.

    Examples
    --------
    >>> from sklearn_fedpriv import FederatedDPDecisionTree, DPHypeRandomizedSearchCV
    >>> from sklearn_fedpriv.datasets import load_hospitals
    >>> hospitals = load_hospitals()
    >>> tree = FederatedDPDecisionTree(epsilon=4.0, **hospitals.public)
    >>> search = DPHypeRandomizedSearchCV(tree, {"max_depth": [1, 3, 8]}, epsilon=8.0, n_iter=3)
    >>> search = search.fit(hospitals.parties)
    >>> search.privacy_.unit, search.privacy_.epsilon
    ('record', 12.0)
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **DPHypeSearch._parameter_constraints,
        "param_distributions": [dict, list],
        "n_iter": [Interval(Integral, 1, None, closed="left")],
        "candidates_seed": [Interval(Integral, 0, 2**32 - 1, closed="both")],
    }

    def __init__(
        self,
        estimator,
        param_distributions,
        *,
        n_iter=10,
        candidates_seed=0,
        scoring=None,
        n_jobs=None,
        refit=True,
        cv=None,
        verbose=0,
        error_score=np.nan,
        n_votes="auto",
        local_estimator=None,
        adjacency="replace",
        epsilon=1.0,
        delta=1e-5,
        min_honest=None,
        max_dropouts=0,
        secure_sum="masks",
        random_state=None,
    ):
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.n_iter = n_iter
        self.candidates_seed = candidates_seed
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.refit = refit
        self.cv = cv
        self.verbose = verbose
        self.error_score = error_score
        self.n_votes = n_votes
        self.local_estimator = local_estimator
        self.adjacency = adjacency
        self.epsilon = epsilon
        self.delta = delta
        self.min_honest = min_honest
        self.max_dropouts = max_dropouts
        self.secure_sum = secure_sum
        self.random_state = random_state

    def _candidates(self) -> list[dict[str, Any]]:
        sampler = ParameterSampler(
            self.param_distributions, self.n_iter, random_state=self.candidates_seed
        )
        return list(sampler)
