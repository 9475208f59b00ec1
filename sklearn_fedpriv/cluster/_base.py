"""What both clustered estimators have in common: constraints and the flow of ``fit``."""

from copy import deepcopy
from dataclasses import replace
from fractions import Fraction
from math import inf
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from sklearn_fedpriv._sklearn import Interval, StrOptions, n_rows_of
from sklearn_fedpriv._warnings import warn
from sklearn_fedpriv.cluster._clipping import clip_norms
from sklearn_fedpriv.cluster._linear import LabelCoder, LinearModel
from sklearn_fedpriv.cluster._planning import Plan, leakage_of, metric_budget
from sklearn_fedpriv.cluster._queries import (
    WIDEST,
    ClusterUpdate,
    OpenClusterUpdate,
    PublishedUpdate,
    best_hypothesis,
)
from sklearn_fedpriv.cluster._training import spread_start, train, train_as_published
from sklearn_fedpriv.exceptions import NoiseWarning
from sklearn_fedpriv.federation._estimator import (
    FEDERATED_CONSTRAINTS,
    LARGEST_EPSILON,
    FederatedMixin,
)
from sklearn_fedpriv.federation._federation import Federation
from sklearn_fedpriv.federation._inputs import is_table
from sklearn_fedpriv.federation._messages import noise_of
from sklearn_fedpriv.federation._preview import (
    PlannedNoise,
    Preview,
    check_public_counts,
    imagined_terms,
    smallest_epsilon,
)
from sklearn_fedpriv.privacy._calibration import Exact, exact
from sklearn_fedpriv.privacy._ledger import Budget, budget
from sklearn_fedpriv.privacy._randomness import derive_key, fresh_key, seed_key

# Noise in the mean update of a hypothesis over all rounds, in parts of the clip norm, beyond which
# it is said to drown: in simulations with two parameters 9 of 10 fits still recover at a quarter.
_DROWNED = 0.25
_LARGEST_RATIO = 100.0  # of the published method: more is beyond the range of its words
_STEP = 0.1  # of local training, unless something else is asked for

CLUSTER_CONSTRAINTS: dict[str, list] = {
    **FEDERATED_CONSTRAINTS,
    "net": [object],
    "n_clusters": [Interval(Integral, 1, 1000, closed="both")],
    "n_rounds": [Interval(Integral, 1, None, closed="left")],
    "parties_per_round": [Interval(Integral, 1, None, closed="left"), None],
    "local_epochs": [Interval(Integral, 1, None, closed="left")],
    "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
    "batch_size": [Interval(Integral, 1, None, closed="left"), None],
    "clip_norm": [object],  # checked by clip_norms
    "mechanism": [StrOptions({"gaussian", "metric"})],
    "noise_ratio": [Interval(Real, 0, 1e6, closed="both")],
    "hide_membership": ["boolean"],
    "max_participations": [Interval(Integral, 1, None, closed="left"), None],
    "max_leakage": [Interval(Real, 0, None, closed="neither"), None],
    "patience": [Interval(Integral, 1, None, closed="left"), None],
    "spread": [Interval(Real, 0, None, closed="neither")],
    "fit_intercept": ["boolean"],
}


class Clustered(FederatedMixin):
    """Base of the estimators with several hypotheses."""

    net: Any
    n_clusters: Any
    n_rounds: Any
    parties_per_round: Any
    local_epochs: Any
    learning_rate: Any
    batch_size: Any
    clip_norm: Any
    mechanism: Any
    noise_ratio: Any
    hide_membership: Any
    max_participations: Any
    max_leakage: Any
    patience: Any
    spread: Any
    fit_intercept: Any
    min_honest: Any
    max_dropouts: Any

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"X_val": True, "y_val": True}
    _parameter_constraints: ClassVar[dict[str, list]] = CLUSTER_CONSTRAINTS

    @property
    def _published(self) -> bool:
        return bool(self.calibration == "published")

    @property
    def _noise(self) -> str:
        """The mechanism; the published method has metric noise only."""
        return "metric" if self._published else self.mechanism

    def _check_arguments(self) -> None:
        """Refuse what the table of constraints cannot tell."""
        name = type(self).__name__
        self._check_budget(self._noise)
        if self.mechanism == "gaussian" and not self.hide_membership and not self._published:
            raise ValueError(
                f"{name}(hide_membership=False) sends choices in clear, for which Gaussian noise "
                "proves nothing less. It goes with mechanism='metric'; leave it True."
            )
        if self._published and self.patience is not None:
            raise ValueError(
                f"patience of {name} goes with calibration='proved': the published method has a "
                "fixed number of rounds. Leave it None."
            )
        if self.max_leakage is not None and self._noise == "gaussian":
            raise ValueError(
                f"max_leakage of {name} is for mechanism='metric'; with Gaussian noise epsilon and "
                "delta are the limit."
            )
        if self._published and self.noise_ratio > _LARGEST_RATIO:
            raise ValueError(
                f"noise_ratio of {name} may be at most {_LARGEST_RATIO:g} as published; got "
                f"{self.noise_ratio!r}."
            )
        clip_norms(self.clip_norm, int(self.n_rounds))

    def _plan(self, n_parties: int) -> Plan:
        """Who may take part how often; refuses what the caps do not allow."""
        n_chosen = n_parties
        if self.parties_per_round is not None:
            n_chosen = min(n_parties, int(self.parties_per_round))
        plan = Plan(n_parties, n_chosen, int(self.n_rounds))
        cap = self.max_participations
        if cap is not None and plan.participations > cap:
            raise ValueError(self._too_often(plan, f"max_participations={cap}", int(cap)))
        return plan

    def _too_often(self, plan: Plan, limit: str, allowed: int) -> str:
        rounds = allowed * plan.n_parties // plan.n_chosen
        return (
            f"{type(self).__name__}: {plan.n_rounds} rounds with {plan.n_chosen} of "
            f"{plan.n_parties} parties let a party take part {plan.participations} times, more "
            f"than {limit} allows. Set n_rounds to {rounds} or less, or parties_per_round lower."
        )

    def _first_query(
        self, model: LinearModel | None, start: np.ndarray, chosen: tuple[str, ...]
    ) -> ClusterUpdate:
        """The query of the first round."""
        norm = clip_norms(self.clip_norm, int(self.n_rounds))[0]
        kind: type[ClusterUpdate] = ClusterUpdate if self.hide_membership else OpenClusterUpdate
        if self._published:
            kind, norm = PublishedUpdate, WIDEST
        batch_size = 0 if self.batch_size is None else int(self.batch_size)
        return kind(model, start, norm, chosen, int(self.local_epochs), batch_size)

    def _spends(self, query: ClusterUpdate, plan: Plan) -> Budget:
        """What the fit may cost a party."""
        if self._noise == "gaussian":
            return budget(self.epsilon, self.delta)
        spends = metric_budget(query, self.noise_ratio, plan.participations)
        if self.noise_ratio and spends.epsilon > LARGEST_EPSILON:
            raise ValueError(
                f"noise_ratio={self.noise_ratio:g} of {type(self).__name__} is next to no noise: a "
                f"leakage of more than {LARGEST_EPSILON:g}. Raise it, or set 0 for none at all."
            )
        if self.max_leakage is not None and spends.epsilon > self.max_leakage:
            each = leakage_of(query, self.noise_ratio) if self.noise_ratio else inf
            allowed = int(self.max_leakage / each)
            limit = f"max_leakage={self.max_leakage:g}, at {float(each):g} each time,"
            raise ValueError(self._too_often(plan, limit, allowed))
        return spends

    def _planned_cost(self) -> tuple[Exact, Exact]:
        if self._published or self._noise == "gaussian":
            return super()._planned_cost()
        # What metric noise costs hangs on how many parties there are.
        return inf if self.max_leakage is None else exact(self.max_leakage), Fraction(0)

    def _build(
        self, row_shape: tuple[int, ...], classes: tuple, seed: bytes
    ) -> tuple[Any, np.ndarray, Any]:
        """The model to train, its parameters before the first round, and the step that codes rows.

        Parameters
        ----------
        row_shape : tuple of int
            Of one row.
        classes : tuple
            Sorted labels; empty for regression.
        seed : bytes
            Public, of a net's first weights.
        """
        rate = None if self.learning_rate is None else float(self.learning_rate)
        if self.net is None:
            if len(row_shape) != 1:
                raise ValueError(
                    f"The linear model of {type(self).__name__} takes tables; rows of shape "
                    f"{row_shape} need a net."
                )
            rate = _STEP if rate is None else rate
            model = LinearModel(row_shape[0], len(classes), bool(self.fit_intercept), rate)
            return model, np.zeros(model.n_parameters), LabelCoder(classes) if classes else None
        from sklearn_fedpriv.cluster._nets import build_trainer

        return build_trainer(self.net, row_shape, classes, seed, rate, type(self).__name__)

    def _fit_clusters(
        self,
        federation: Federation,
        step: Any,
        trainer: Any,
        origin: np.ndarray,
        facts: tuple[str, ...],
        X_val: Any,
        y_val: Any,
    ) -> None:
        """Plan, charge, train; sets the fitted attributes that both estimators have.

        ``trainer`` is the linear model or the net that each party builds; ``step`` codes rows.
        """
        plan = self._plan(len(federation.names))
        key = self._start_key()
        rng = np.random.default_rng(int.from_bytes(derive_key(key, "start"), "big"))
        k = int(self.n_clusters)
        if self._published:
            start = origin + self.spread * rng.standard_normal((k, len(origin)))
        else:
            start = spread_start(origin, k, float(self.spread), rng)
        lots = plan.lots(tuple(sorted(federation.names)), key)
        linear = isinstance(trainer, LinearModel)
        query = self._first_query(trainer if linear else None, start, lots[0])
        loss = self._public_loss(trainer, step, X_val, y_val)
        if loss is not None and not np.isfinite(loss(start)):
            raise ValueError(
                f"{type(self).__name__} watches the loss on X_val and y_val, and it is no finite "
                "number to begin with. Give finite rows and targets, of the scale of the fit."
            )
        spends = self._spends(query, plan)
        run = self._start(
            federation.with_transform(step) if step is not None else federation,
            plan.releases(query),
            mechanism=self._noise,
            unit="party",
            adjacency="replace",
            code=None if linear else trainer,
            spends=spends,
        )
        if self._published:
            trained = train_as_published(run, plan, query, lots)
        else:
            if self._drowned(query, plan, run.noise_sd_of(query, plan.share)):
                _warn_of_noise()
            trained = train(
                run,
                plan,
                query,
                clip_norms(self.clip_norm, plan.n_rounds),
                lots,
                rng,
                spread=float(self.spread),
                loss=loss,
                patience=self.patience,
            )
        # A copy has no working nets, whose gradients and optimizers were made of rows (G24).
        self._trainer, self._coding = deepcopy(trainer), step
        self.hypotheses_ = trained.hypotheses
        self.counts_ = trained.counts
        self.n_rounds_ = trained.n_rounds
        taken = [name for chosen in lots[: trained.n_rounds] for name in chosen]
        self.participations_ = {name: taken.count(name) for name in federation.names}
        self.leakage_ = float(spends.epsilon)
        self.history_ = {
            "hypotheses": np.array(trained.path),
            "counts": np.array(trained.all_counts),
        }
        if query.discloses:
            self.choices_ = trained.choices
        elif hasattr(self, "choices_"):
            del self.choices_
        self.privacy_ = run.report(facts)

    def _start_key(self) -> bytes:
        """Of what is drawn in public: first weights, directions, who takes part when."""
        return seed_key(self.random_state) or fresh_key()

    def _public_loss(self, trainer: Any, step: Any, X_val: Any, y_val: Any) -> Any:
        """Mean over the public tables of the loss of the best hypothesis, as a function of them."""
        if X_val is None:
            if self.patience is not None:
                raise ValueError(
                    f"patience of {type(self).__name__} watches the loss on public rows: pass "
                    "X_val and y_val to fit. A loss of the parties' rows would leak."
                )
            return None
        if y_val is None:
            raise ValueError("X_val came without y_val.")
        if n_rows_of(X_val) == 0:
            raise ValueError("X_val has no rows.")
        several = isinstance(X_val, list) and all(map(is_table, X_val))
        if several and len(X_val) != len(y_val):
            raise ValueError(f"{len(X_val)} tables came as X_val and {len(y_val)} as y_val.")
        tables = zip(X_val, y_val, strict=True) if several else [(X_val, y_val)]
        coded = [self._coded(step, *table) for table in tables]

        def loss(hypotheses: np.ndarray) -> float:
            return float(
                np.mean([min(trainer.loss(w, X, y) for w in hypotheses) for X, y in coded])
            )

        return loss

    def _drowned(self, query: ClusterUpdate, plan: Plan, sd: float) -> bool:
        return _noise_over_signal(query, plan, sd) > _DROWNED

    def _preview(self, n_parties: int, n_rows: int, n_features: int, n_classes: int) -> Preview:
        self._validate_params()
        check_public_counts(n_parties=n_parties, n_rows=n_rows, n_features=n_features)
        self._check_arguments()
        if self._published:
            raise ValueError("preview is about proved noise; set calibration='proved'.")
        model, origin, _ = self._build((n_features,), tuple(range(n_classes)), bytes(32))
        plan = self._plan(n_parties)
        names = tuple(sorted(map(str, range(n_parties))))
        start = np.tile(origin, (int(self.n_clusters), 1))
        linear = model if isinstance(model, LinearModel) else None
        query = self._first_query(linear, start, plan.lots(names, bytes(32))[0])
        spends = self._spends(query, plan)

        def sd(spends: Budget) -> float:
            terms = imagined_terms(
                n_parties, self.min_honest, self.max_dropouts, spends, plan.releases(query)
            )
            terms = replace(terms, unit="party", adjacency="replace")
            noise = noise_of(terms, query, plan.share)
            return noise.sd(n_parties if noise.shared else plan.n_chosen)

        def wins(epsilon: float) -> bool:
            return not self._drowned(query, plan, sd(replace(spends, epsilon=_exactly(epsilon))))

        planned = PlannedNoise(
            type(query).__name__,
            plan.n_rounds,
            sd(spends) / query.ticks_of_norm,
            plan.n_chosen / query.n_clusters,
            "parties of an average hypothesis",
        )
        smallest = smallest_epsilon(wins)
        return Preview((planned,), float(spends.epsilon), smallest, "the updates stand out")

    def choose(self, X: Any, y: Any) -> int:
        """Which hypothesis suits these rows best; run it where the rows are.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)

        Returns
        -------
        index : int
            Of the smallest loss.
        """
        check_is_fitted(self, "hypotheses_")
        return best_hypothesis(self._trainer, self.hypotheses_, *self._coded(self._coding, X, y))

    def _check_rows(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Rows with their targets, validated, in this process."""
        X = self._check_table(X, allow_nd=self.net is not None)
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        return X, y

    def _by_hypothesis(self, X: Any, parties: Any, choices: Any) -> np.ndarray:
        """Each row's prediction by its hypothesis: numbers, or probabilities of the classes."""
        check_is_fitted(self, "hypotheses_")
        X = self._check_table(X, allow_nd=self.net is not None)
        index = self._index_of_rows(len(X), parties, choices)
        used = np.unique(index)
        parts = {j: self._outputs(self.hypotheses_[j], X[index == j]) for j in used.tolist()}
        first = next(iter(parts.values()))
        out = np.empty((len(X), first.shape[1]))
        for j, part in parts.items():
            out[index == j] = part
        return out

    def _outputs(self, weights: np.ndarray, X: np.ndarray) -> np.ndarray:
        if isinstance(self._trainer, LinearModel):
            model = self._trainer
            return model.probabilities(weights, X) if model.n_classes else model.outputs(weights, X)
        from sklearn_fedpriv.cluster._nets import outputs

        predicted = outputs(self._trainer, weights, self._coding.rows(X))
        return predicted.reshape(len(X), -1)

    def _net_of(self, index: int) -> Any:
        from sklearn_fedpriv.cluster._nets import net_with

        return net_with(self._trainer, self.hypotheses_[index])

    def _named(self, model: Any, **attributes: Any) -> Any:
        """A model of scikit-learn with these attributes, and with this estimator's columns."""
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                attributes[name] = getattr(self, name)
        for name, value in attributes.items():
            setattr(model, name, value)
        return model

    def _index_of_rows(self, n_rows: int, parties: Any, choices: Any) -> np.ndarray:
        """The hypothesis that predicts each row."""
        if parties is None:
            if choices is not None:
                raise ValueError("choices go with parties=labels, the party of each row.")
            return np.full(n_rows, int(np.argmax(self.counts_)))
        if choices is None:
            choices = getattr(self, "choices_", None)
        if choices is None:
            raise ValueError(
                f"Nobody knows which hypothesis a party uses (hide_membership=True). Each party "
                f"calls personalize(X, y) of this {type(self).__name__} on its own rows, or tells "
                "its choose(X, y) to be passed as choices={party: index}."
            )
        labels = np.array([str(label) for label in np.asarray(parties).tolist()])
        if labels.shape != (n_rows,):
            raise ValueError(
                f"parties must hold one label a row: got {labels.shape} for {n_rows} rows."
            )
        known = {str(name): int(index) for name, index in choices.items()}
        if strange := sorted(set(labels.tolist()) - set(known)):
            raise ValueError(f"No choice is known of parties {strange[:5]}.")
        if not all(0 <= index < len(self.hypotheses_) for index in known.values()):
            raise ValueError(f"Choices must be indices below {len(self.hypotheses_)}.")
        return np.array([known[label] for label in labels.tolist()], dtype=int)


def _noise_over_signal(query: ClusterUpdate, plan: Plan, sd: float) -> float:
    """Length of the noise in a hypothesis's mean update over all rounds, over the clip norm."""
    each = sd / query.ticks_of_norm * query.n_parameters**0.5
    if query.discloses:  # the noise of its own members alone
        each /= query.n_clusters**0.5
    return each / (plan.n_chosen / query.n_clusters) / plan.n_rounds**0.5


def _exactly(epsilon: float) -> Any:
    return budget(epsilon, 0.1).epsilon


def _warn_of_noise() -> None:
    warn(
        "The noise is expected to drown the updates: the hypotheses may be no better than a guess. "
        "preview(n_parties, n_rows, n_features) names the epsilon from which they stand out.",
        NoiseWarning,
    )
