"""A decision tree from one private histogram a level."""

from fractions import Fraction
from numbers import Integral
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sklearn_fedpriv._sklearn import Interval, StrOptions, fit_context
from sklearn_fedpriv._warnings import warn
from sklearn_fedpriv.exceptions import NoiseWarning
from sklearn_fedpriv.federation._estimator import FEDERATED_CONSTRAINTS, FederatedMixin
from sklearn_fedpriv.federation._inputs import gather
from sklearn_fedpriv.federation._preview import (
    PlannedNoise,
    Preview,
    check_public_counts,
    imagined_terms,
    smallest_epsilon,
)
from sklearn_fedpriv.federation._public_facts import RowFacts, resolve_classes, resolve_columns
from sklearn_fedpriv.federation._run import Run
from sklearn_fedpriv.federation._terms import noise_for
from sklearn_fedpriv.privacy._ledger import MECHANISMS, PlannedRelease, budget
from sklearn_fedpriv.tree._coding import TableCoder
from sklearn_fedpriv.tree._growth import FINEST_WEIGHT, MAX_DEPTH, Growth, planned_depth, stands_out
from sklearn_fedpriv.tree._histogram import RowCount
from sklearn_fedpriv.tree._published import grow_published, published_depth, published_numbers
from sklearn_fedpriv.tree._splits import Schema
from sklearn_fedpriv.tree._tree import Tree, export_text, importances

COUNT_SHARE = Fraction(1, 50)  # of the budget, for the number of rows when there is no hint
_MOST_NODES = 2**20


def grow(
    run: Run,
    schema: Schema,
    *,
    n_rows_hint: int | None = None,
    max_depth: int | None = None,
) -> Tree:
    """Grow a tree: the number of rows if nobody hints at it, then one release a level."""
    private = run.terms.budget.private
    n_rows, share = n_rows_hint, Fraction(1)
    if n_rows is None:
        share -= COUNT_SHARE
        n_rows = float(run.release(RowCount(), COUNT_SHARE)[0])

    def sd_at(depth: int) -> float:
        n_features = len(schema.n_values)
        return run.noise_sd(n_features, n_features, share / int(depth))

    if not stands_out(n_rows, sd_at(max_depth or 1)):
        warn(
            "The noise is expected to drown the rows: the tree may be no better than a guess. "
            "preview(n_parties, n_rows, n_features) names the epsilon from which splits show.",
            NoiseWarning,
        )
    if max_depth is None:
        max_depth = planned_depth(n_rows, sd_at)
    level_share = share / int(max_depth)
    growth = Growth(schema, n_rows, laplace=private and run.terms.budget.mechanism == "laplace")
    for _ in range(max_depth):
        query = growth.ask(lambda squared, total: run.noise_sd(squared, total, level_share))
        if query is None:
            break
        growth.learn(run.release(query, level_share))
    return growth.finish()


class FederatedDPDecisionTree(FederatedMixin, ClassifierMixin, BaseEstimator):
    """Private decision tree of several parties: one noisy sum of histograms a level.

    For each level of the tree, every party counts its rows by open node, feature value and class;
    the server adds the parties' noisy counts and chooses all splits of the level from the sum.
    Splits cut a feature's values in two: bins at a threshold, categories by their classes. What is
    asked of a child is what was worth asking at its parent. Rounds of communication grow with the
    depth, not with the number of nodes.

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget of one fit, over all its releases, in (0, inf]. Infinity adds no noise.
    delta : float, default=1e-5
        In (0, 1), or 0 with ``mechanism="laplace"``, which does not spend it.
    max_depth : int, default=None
        Number of levels, among which the budget is split evenly: unlike in scikit-learn, a large
        number is no mere ceiling but leaves little for each level. ``None`` takes the most, up to
        12, for which the average leaf still stands out of the noise, from ``n_rows_hint`` or a
        noisy count.
    n_rows_hint : int, default=None
        Publicly known number of rows of all parties, roughly. ``None`` spends 2 % of the budget on
        a noisy count.
    mechanism : {"gaussian", "laplace"}, default="gaussian"
        Gaussian noise grows with the root of the number of features; Laplace noise grows with the
        number itself and gives pure epsilon (delta 0).
    categories : dict or list, default=None
        Column name or index -> list of values; or a list with an entry, perhaps None, a column. A
        column is categorical if it has categories, else numeric. Values outside are counted
        nowhere.
    bounds : pair, dict or list, default=None
        One ``(low, high)`` for all numeric columns; or as ``categories``, with pairs. In the units
        of the data. Choose them without looking at the rows; values outside count as the nearest
        bound.
    n_bins : int, default=16
        Bins of equal width between the bounds of a numeric column.
    classes : list, default=None
        All class labels.
    min_honest : int, default=None
        At least so many parties do not collude; ``None`` means all. With 1, each party's noise
        protects its rows alone (local differential privacy).
    max_dropouts : int, default=0
        So many parties may be missing from a sum.
    secure_sum : {"masks", "paillier", "plain"} or settings, default="masks"
        How answers are added; nobody sees a single one under masks and Paillier.
    calibration : {"proved", "published"}, default="proved"
        ``"published"`` runs Algorithm 2 of Truex et al. as printed, which has no proof.
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
    tree_ : Tree
        Plain arrays: splits, children, released counts, probabilities.
    feature_importances_ : ndarray of shape (n_features,)
        Gini importance from the released counts; sums to 1, or is all 0 for a tree without a split.
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
    Sensitivity: 1 for the row count; for a level's histogram the root of the number of features
    asked (L1: the number itself), enforced in ``LevelHistogram``: a row counts once a feature, at
    one node.
    Mechanism: discrete Gaussian, or discrete Laplace, in shares of the parties; one release a
    level, and one of the row count without a hint.
    Server sees: RowCount, LevelHistogram; only their sums over the parties if ``secure_sum``
    hides single answers.
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
    sklearn_fedpriv.Federation : Parties whose keys and ledgers outlive a fit.

    References
    ----------
    Truex et al., "A hybrid approach to privacy-preserving federated learning", 2019.
    Friedman and Schuster, "Data mining with differential privacy", KDD 2010.

    Examples
    --------
    >>> from sklearn_fedpriv import FederatedDPDecisionTree
    >>> from sklearn_fedpriv.datasets import load_hospitals
    >>> hospitals = load_hospitals()
    >>> tree = FederatedDPDecisionTree(epsilon=4.0, random_state=0, **hospitals.public)
    >>> tree = tree.fit(hospitals.parties)
    >>> bool(tree.score(hospitals.X_test, hospitals.y_test) > 0.8)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **FEDERATED_CONSTRAINTS,
        "max_depth": [Interval(Integral, 1, None, closed="left"), None],
        "n_rows_hint": [Interval(Integral, 1, None, closed="left"), None],
        "mechanism": [StrOptions(set(MECHANISMS))],
        "categories": ["array-like", dict, None],
        "bounds": ["array-like", dict, None],
        "n_bins": [Interval(Integral, 2, 2**14, closed="both")],
        "classes": ["array-like", None],
    }

    def __init__(
        self,
        *,
        epsilon=1.0,
        delta=1e-5,
        max_depth=None,
        n_rows_hint=None,
        mechanism="gaussian",
        categories=None,
        bounds=None,
        n_bins=16,
        classes=None,
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
        self.max_depth = max_depth
        self.n_rows_hint = n_rows_hint
        self.mechanism = mechanism
        self.categories = categories
        self.bounds = bounds
        self.n_bins = n_bins
        self.classes = classes
        self.min_honest = min_honest
        self.max_dropouts = max_dropouts
        self.secure_sum = secure_sum
        self.calibration = calibration
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = self.categories is not None
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, parties=None):
        """Fit the tree to the rows of all parties.

        Parameters
        ----------
        X : list of parties, list of tables, table, or Federation
            ``[(X_1, y_1), ...]`` or ``[Party, ...]``; or ``[X_1, ...]`` with ``y=[y_1, ...]``; or
            one table of shape (n_rows, n_features).
        y : array-like of shape (n_rows,), or list of them, default=None
        parties : array-like of shape (n_rows,), default=None
            With one table: the party that each row belongs to.

        Returns
        -------
        self : FederatedDPDecisionTree
        """
        federation = gather(self, X, y, parties, dtype=None)
        declared = {name: getattr(self, name) for name in ("categories", "bounds", "classes")}
        facts = RowFacts(type(self).__name__, local=federation.rehearsal, declared=declared)
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        classes = resolve_classes(self.classes, federation.rows, federation.names, facts)
        columns = resolve_columns(
            self.categories,
            self.bounds,
            federation.rows,
            federation.names,
            [str(name) for name in names],
            facts,
        )
        facts.warn()
        coder = TableCoder(columns, int(self.n_bins), tuple(classes.tolist()))
        schema = schema_of(coder)
        run = self._start(
            federation.with_transform(coder),
            self._plan(schema),
            mechanism=self.mechanism,
        )
        if self.calibration == "published":
            depth = int(self.max_depth or published_depth(self.n_features_in_))
            self.tree_ = grow_published(schema, depth, self.epsilon, run.release)
        else:
            self.tree_ = grow(run, schema, n_rows_hint=self.n_rows_hint, max_depth=self.max_depth)
        self.classes_ = classes
        self._coder = coder
        self.privacy_ = run.report(facts.names)
        return self

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
        self._check_budget(self.mechanism)
        check_public_counts(n_parties=n_parties, n_rows=n_rows, n_features=n_features)
        if self.calibration == "published":
            raise ValueError("preview is about proved noise; set calibration='proved'.")
        n_classes = 2 if self.classes is None else len(self.classes)
        n_values = np.full(n_features, self.n_bins)
        plan = self._plan(Schema(n_values, np.ones(n_features, dtype=bool), n_classes))
        share = plan[-1].share

        def noise(epsilon):
            terms = imagined_terms(
                n_parties,
                self.min_honest,
                self.max_dropouts,
                budget(epsilon, self.delta, self.mechanism),
                plan,
            )

            def sd_at(depth):
                return noise_for(terms, share / int(depth), n_features, n_features).sd(n_parties)

            return terms, sd_at

        terms, sd_at = noise(self.epsilon)
        depth = self.max_depth or planned_depth(n_rows, sd_at)
        leaf = n_rows / 2**depth
        releases = [
            PlannedNoise("LevelHistogram", depth, sd_at(depth), leaf, "rows of an average leaf")
        ]
        if len(plan) > 1:
            sd = noise_for(terms, COUNT_SHARE, 1, 1).sd(n_parties)
            releases.insert(0, PlannedNoise("RowCount", 1, sd, float(n_rows), "rows"))
        smallest = smallest_epsilon(
            lambda epsilon: stands_out(n_rows, noise(epsilon)[1](self.max_depth or 1))
        )
        return Preview(tuple(releases), float(self.epsilon), smallest, "a first split stands out")

    def _plan(self, schema: Schema) -> list[PlannedRelease]:
        """The releases of a fit, at most; from public facts alone."""
        n_features = len(schema.n_values)
        if self.calibration == "published":
            depth = int(self.max_depth or published_depth(n_features))
            count = (depth + 1) * (2 + 2 * n_features)
            numbers, squared = published_numbers(schema, depth), 1
        else:
            count = depth = int(self.max_depth or MAX_DEPTH)
            numbers = min(2**depth, _MOST_NODES) * schema.n_codes * schema.n_classes
            squared = FINEST_WEIGHT**2 * n_features ** (2 if self.mechanism == "laplace" else 1)
        hinted = self.n_rows_hint is not None or self.calibration == "published"
        share = Fraction(1) if hinted else 1 - COUNT_SHARE
        plan = [] if hinted else [PlannedRelease("RowCount", 1, COUNT_SHARE, 1)]
        return [*plan, PlannedRelease("LevelHistogram", count, share, numbers, squared)]

    @property
    def feature_importances_(self):
        """Gini importance of each column, ndarray of shape (n_features,)."""
        check_is_fitted(self, "tree_")
        return importances(self.tree_, self.n_features_in_)

    def predict_proba(self, X):
        """Class probabilities from the released counts of each row's leaf.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_rows, n_classes)
        """
        check_is_fitted(self, "tree_")
        X = self._check_table(X, dtype=None)
        return self.tree_.probabilities[self.tree_.apply(self._coder.encode(X))]

    def predict(self, X):
        """Most probable class of each row.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)

        Returns
        -------
        labels : ndarray of shape (n_rows,)
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def export_text(self, *, decimals=2):
        """The tree as indented rules, in the form of ``sklearn.tree.export_text``."""
        check_is_fitted(self, "tree_")
        return export_text(self.tree_, self._coder, decimals=decimals)


def schema_of(coder: TableCoder) -> Schema:
    """What growing a tree needs to know of the columns."""
    numeric = np.array([column.numeric for column in coder.columns])
    return Schema(coder.n_values, numeric, len(coder.classes))
