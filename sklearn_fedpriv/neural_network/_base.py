"""What classifier and regressor have in common: constraints, the plan, the flow of ``fit``."""

from dataclasses import replace
from fractions import Fraction
from math import inf
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from sklearn_fedpriv._sklearn import Interval, StrOptions
from sklearn_fedpriv._warnings import warn
from sklearn_fedpriv.exceptions import NoiseWarning
from sklearn_fedpriv.federation._estimator import FEDERATED_CONSTRAINTS, FederatedMixin
from sklearn_fedpriv.federation._federation import Federation
from sklearn_fedpriv.federation._messages import noise_of
from sklearn_fedpriv.federation._preview import (
    PlannedNoise,
    Preview,
    check_public_counts,
    imagined_terms,
    smallest_epsilon,
)
from sklearn_fedpriv.federation._query import Query
from sklearn_fedpriv.federation._terms import Terms
from sklearn_fedpriv.neural_network._entrance import check_sizes, check_values
from sklearn_fedpriv.neural_network._published import (
    NoisyEpochs,
    published_noise,
    published_plan,
    steps_of,
)
from sklearn_fedpriv.neural_network._queries import (
    FLOAT_ERROR,
    ClippedGradient,
    LocalUpdate,
    NetLoss,
    NetRows,
    PartyLoss,
)
from sklearn_fedpriv.neural_network._settings import check_settings
from sklearn_fedpriv.privacy._calibration import exact
from sklearn_fedpriv.privacy._ledger import PlannedRelease, budget
from sklearn_fedpriv.privacy._randomness import derive_key, fresh_key, seed_key
from sklearn_fedpriv.privacy._report import PrivacyReport
from sklearn_fedpriv.privacy._sampling import sampled_epsilon
from sklearn_fedpriv.privacy._schedules import AdaptiveRounds, GeometricNoise, Shares, as_schedule

# Noise in the mean of all rounds, as a part of the clip norm, beyond which it is said to drown.
_DROWNED = 0.3
# Of a net that comes as a plain class: SGD. Steps at the clip norm of 1 are of this length.
_BY_ROWS = {"lr": 0.5, "optimizer__momentum": 0.9}
_LOCAL = {"lr": 0.1}

NET_CONSTRAINTS: dict[str, list] = {
    **FEDERATED_CONSTRAINTS,
    "net": [object],
    "clip_norm": [Interval(Real, 2.0**-100, 2.0**100, closed="both")],
    "sampling_rate": [Interval(Real, 0, 1, closed="right")],
    "n_rounds": [Interval(Integral, 1, None, closed="left")],
    "n_rows_hint": [Interval(Integral, 1, None, closed="left"), None],
    "noise_schedule": [Real, "array-like", GeometricNoise, object],
    "unit": [StrOptions({"record", "party"})],
    "local_epochs": [Interval(Integral, 1, None, closed="left")],
    "local_batch_size": [Interval(Integral, 1, None, closed="left")],
    "max_participations": [Interval(Integral, 1, None, closed="left"), None],
    "server_momentum": [Interval(Real, 0, 1, closed="left")],
}


class FederatedNet(FederatedMixin):
    """Base of the estimators around a net."""

    net: Any
    clip_norm: Any
    sampling_rate: Any
    n_rounds: Any
    n_rows_hint: Any
    noise_schedule: Any
    unit: Any
    local_epochs: Any
    local_batch_size: Any
    max_participations: Any
    server_momentum: Any
    min_honest: Any
    max_dropouts: Any

    _parameter_constraints: ClassVar[dict[str, list]] = NET_CONSTRAINTS

    def _check_arguments(self) -> None:
        """Refuse what the table of constraints cannot tell."""
        name = type(self).__name__
        self._check_budget("gaussian")
        check_settings(self.net, name)
        schedule = as_schedule(self.noise_schedule)
        published = self.calibration == "published"
        if published and (self.unit != "record" or schedule != GeometricNoise(1.0)):
            raise ValueError(
                f"calibration='published' of {name} has single records with the same noise in "
                f"all steps: it needs unit='record' and noise_schedule=1; got {self.unit!r} and "
                f"{self.noise_schedule!r}."
            )
        if self.unit == "record" and self.n_rows_hint is None and not published:
            raise ValueError(
                f"{name} needs n_rows_hint, the publicly known number of rows of all parties, "
                "roughly: it divides the sums, and no party sends its number of rows."
            )
        if self._sampled and schedule != GeometricNoise(1.0):
            raise ValueError(
                f"noise_schedule of {name} must be 1 where rows are sampled: all steps then have "
                f"the same noise, and their number is fixed; got {self.noise_schedule!r}. Set "
                "sampling_rate=1 or leave noise_schedule out."
            )
        cap = self.max_participations
        if self.unit == "party" and cap is not None and cap < self.n_rounds:
            raise ValueError(
                f"{name} asks every party in each of n_rounds={self.n_rounds} rounds, more often "
                f"than max_participations={cap} allows. Lower n_rounds."
            )

    @property
    def _sampled(self) -> bool:
        return self.unit == "record" and self.sampling_rate < 1

    @property
    def _rate(self) -> Fraction:
        return Fraction(exact(self.sampling_rate))

    def _query(self, weights: np.ndarray) -> Query:
        if self.unit == "record":
            return ClippedGradient(weights, float(self.clip_norm), self._rate)
        return LocalUpdate(
            weights, float(self.clip_norm), int(self.local_epochs), int(self.local_batch_size)
        )

    def _shares(self, *, public: bool) -> tuple[Shares, Shares | None]:
        """Shares of the rounds, and of the losses where ``AdaptiveRounds`` has to pay for them."""
        schedule, n_rounds = as_schedule(self.noise_schedule), int(self.n_rounds)
        if not isinstance(schedule, AdaptiveRounds) or public or n_rounds == 1:
            return Shares(schedule, n_rounds, Fraction(1)), None
        part = Fraction(exact(schedule.loss_share))
        constant = AdaptiveRounds(schedule.discount, patience=schedule.patience)
        return Shares(schedule, n_rounds, 1 - part), Shares(constant, n_rounds, part)

    def _loss(self, weights: np.ndarray) -> Query:
        return NetLoss(weights) if self.unit == "record" else PartyLoss(weights)

    def _plan(self, weights: np.ndarray, *, public: bool = False) -> list[PlannedRelease]:
        shares, loss_shares = self._shares(public=public)
        queries = [(self._query(weights), shares)]
        if loss_shares is not None:
            queries.append((self._loss(weights), loss_shares))
        return [
            PlannedRelease(
                type(query).__name__,
                shares.left,
                sum(shares.planned(), Fraction(0)),
                shares.left * query.length,
                query.squared_norm,
                query.sampling_rate,
                min(shares.planned()),
            )
            for query, shares in queries
        ]

    def _build(self, row_shape: tuple[int, ...], n_classes: int | None, seed: bytes) -> Any:
        """The initialised skorch net, and the shape of its output for one row."""
        from sklearn_fedpriv import _torch

        net = _torch.build_net(
            self.net,
            seed=int.from_bytes(derive_key(seed, "weights")[:7], "big"),
            n_features=row_shape[-1] if len(row_shape) == 1 else None,
            n_classes=n_classes,
            options=_LOCAL if self.unit == "party" or self.calibration == "published" else _BY_ROWS,
        )
        net.set_params(train_split=None, verbose=0)
        if n_classes is not None:
            net.set_params(classes=list(range(n_classes)))
            net.classes_inferred_ = np.arange(n_classes)
        shape = _torch.output_shape(net, row_shape)
        if n_classes is not None and shape != (n_classes,):
            raise ValueError(
                f"{type(net.module_).__name__} gives an output of shape {shape} a row; there are "
                f"{n_classes} classes. Give it one output a class."
            )
        if n_classes is None and shape not in ((), (1,)):
            raise ValueError(
                f"{type(net.module_).__name__} gives an output of shape {shape} a row; a "
                "regressor needs one number."
            )
        return net, shape

    def _fit_net(
        self,
        federation: Federation,
        classes: tuple,
        public: tuple | None,
        facts: tuple[str, ...] = (),
    ) -> None:
        """Build, check, charge, train; sets ``net_``, ``n_rounds_`` and ``privacy_``."""
        from sklearn_fedpriv import _torch
        from sklearn_fedpriv.neural_network._code import PartyNet

        row_shape = tuple(federation.rows[0][0].shape[1:])
        seed = seed_key(self.random_state) or fresh_key()
        net, output = self._build(row_shape, len(classes) or None, seed)
        with _torch.one_thread():
            double = str(next(net.module_.parameters()).dtype) == "torch.float64"
            tokens, whole = _torch.rows_read(net.module_, row_shape)
            rows = NetRows(classes, whole, double, output == (1,))
            code = PartyNet(net, row_shape, rows, by_rows=self.unit == "record")
            if self.unit == "record":
                check_sizes(federation, code.row_limit(FLOAT_ERROR))
            self._check_values(federation, net, rows, public, tokens is not None)
            fit = self._fit_published if self.calibration == "published" else self._fit_proved
            watched = None if public is None else rows.apply(*public)
            report = fit(federation.with_transform(rows), net, code, watched, facts)
        self.net_, self._rows = net, rows
        self.privacy_ = report

    def _check_values(
        self, federation: Federation, net: Any, rows: NetRows, public: tuple | None, tokens: bool
    ) -> None:
        tables = []
        if federation.rehearsal:
            names = (f"Party {name!r}" for name in federation.names)
            tables = [(name, *table) for name, table in zip(names, federation.rows, strict=True)]
        if public is not None:
            tables.append(("X_val, y_val", *public))
        columns = getattr(self, "feature_names_in_", ())
        check_values(tables, net, rows, columns, tokens=tokens)

    def _fit_proved(
        self,
        federation: Federation,
        net: Any,
        code: Any,
        public: tuple | None,
        facts: tuple[str, ...],
    ) -> PrivacyReport:
        """Noisy rounds; report."""
        from sklearn_fedpriv import _torch
        from sklearn_fedpriv.neural_network._training import train_by_parties, train_by_rows

        weights = _torch.get_flat(net.module_)
        unit = {"record": "add_remove", "party": "replace"}
        run = self._start(
            federation,
            self._plan(weights, public=public is not None),
            unit=self.unit,
            adjacency=unit[self.unit],
            code=code,
        )
        self._warn_if_drowned(run.terms, weights, run.n_parties)
        shares, loss_shares = self._shares(public=public is not None)
        adaptive = isinstance(shares.schedule, AdaptiveRounds)

        def observe(weights: np.ndarray) -> None:
            if adaptive and public is not None:
                shares.observe(float(code.losses(weights, *public).mean()))
            elif loss_shares is not None and shares.left:
                loss = float(run.release(self._loss(weights), loss_shares.take())[0])
                shares.observe(loss)
                loss_shares.observe(loss)

        if self.unit == "record":
            train_by_rows(
                run,
                net,
                shares,
                clip_norm=float(self.clip_norm),
                sampling_rate=self._rate,
                expected=float(self.n_rows_hint * self._rate),
                observe=observe,
            )
        else:
            train_by_parties(
                run,
                net,
                shares,
                clip_norm=float(self.clip_norm),
                n_epochs=int(self.local_epochs),
                batch_size=int(self.local_batch_size),
                momentum=float(self.server_momentum),
                observe=observe,
            )
        self.n_rounds_ = shares.n_rounds
        return run.report(facts)

    def _fit_published(
        self,
        federation: Federation,
        net: Any,
        code: Any,
        public: tuple | None,
        facts: tuple[str, ...],
    ) -> PrivacyReport:
        """Averages of noisy local epochs; report."""
        from sklearn_fedpriv import _torch
        from sklearn_fedpriv.neural_network._training import train_published

        n_rounds, n_epochs = int(self.n_rounds), int(self.local_epochs)
        noise = published_noise(
            budget(self.epsilon, self.delta),
            clip_norm=float(self.clip_norm),
            rate=self._rate,
            n_steps=n_rounds * n_epochs * steps_of(self._rate),
            unknown_shares=max(1, federation.min_honest - 1 - federation.max_dropouts),
        )
        first = NoisyEpochs(
            _torch.get_flat(net.module_), float(self.clip_norm), self._rate, n_epochs, noise
        )
        run = self._start(federation, published_plan(first, n_rounds), code=code)
        train_published(run, net, first, n_rounds)
        self.n_rounds_ = n_rounds
        said = (
            f"noise of standard deviation {noise:.3g} in each local step" if noise else "no noise"
        )
        return replace(run.report(facts), mechanism=said)

    def _public_rows(self, X_val: Any, y_val: Any) -> tuple[Any, np.ndarray] | None:
        """Public rows for ``AdaptiveRounds``, checked."""
        if X_val is None:
            return None
        if y_val is None or np.shape(y_val) != (len(X_val),):
            raise ValueError("X_val needs a y_val of as many rows, one label or number each.")
        return self._check_table(X_val, allow_nd=True), np.asarray(y_val)

    def _noise(self, terms: Terms, weights: np.ndarray, n_parties: int) -> np.ndarray:
        """Standard deviation of each round's noise in one number of the mean."""
        query = self._query(weights)
        shares = self._shares(public=False)[0].planned()
        by_share = {share: noise_of(terms, query, share).sd(n_parties) for share in set(shares)}
        over = float(self.n_rows_hint * self._rate) if self.unit == "record" else n_parties
        return np.array([query.lattice.decode(np.array(by_share[s])) for s in shares]) / over

    def _part_of_noise(self, sds: np.ndarray, length: int) -> float:
        """Noise in the mean of all rounds, as a part of the clip norm."""
        if not sds.all():
            return 0.0
        return float((1 / (sds**-2.0).sum()) ** 0.5 * length**0.5 / self.clip_norm)

    def _warn_if_drowned(self, terms: Terms, weights: np.ndarray, n_parties: int) -> None:
        if not terms.budget.private:
            return
        if self._part_of_noise(self._noise(terms, weights, n_parties), len(weights)) > _DROWNED:
            warn(
                "The noise is expected to drown the gradients: the model may be no better than a "
                "guess. preview(n_parties, n_rows, n_features) names the epsilon from which they "
                "stand out.",
                NoiseWarning,
            )

    def _preview(
        self, n_parties: int, n_rows: int, n_features: int, n_classes: int | None
    ) -> Preview:
        from sklearn_fedpriv import _torch

        self._validate_params()
        if self.calibration == "published":
            raise ValueError("preview is about proved noise; set calibration='proved'.")
        check_public_counts(n_parties=n_parties, n_rows=n_rows, n_features=n_features)
        if self.n_rows_hint is None:
            return type(self)(**{**self.get_params(deep=False), "n_rows_hint": n_rows})._preview(
                n_parties, n_rows, n_features, n_classes
            )
        self._check_arguments()
        net, _ = self._build((n_features,), n_classes, bytes(32))
        weights = _torch.get_flat(net.module_)
        adjacency = "add_remove" if self.unit == "record" else "replace"

        def noise(epsilon: float) -> tuple[Terms, np.ndarray]:
            terms = imagined_terms(
                n_parties,
                self.min_honest,
                self.max_dropouts,
                budget(epsilon, self.delta),
                self._plan(weights),
            )
            terms = replace(terms, unit=self.unit, adjacency=adjacency)
            return terms, self._noise(terms, weights, n_parties)

        terms, sds = noise(self.epsilon)
        length = len(weights)
        signal = self.clip_norm / length**0.5
        planned = PlannedNoise(
            type(self._query(weights)).__name__,
            int(self.n_rounds),
            float(sds.mean()),
            float(signal),
            "at most, in each number of a mean of the clip norm",
        )
        if self._sampled and self.epsilon < inf:
            # The noise is in proportion to the multiplier, so one accounting is enough.
            factor = _DROWNED / self._part_of_noise(sds, length)
            multiplier = Fraction(int(float(terms.multiplier) * factor * 1024) + 1, 1024)
            smallest = sampled_epsilon(
                multiplier, terms.budget.delta, self._rate, int(self.n_rounds)
            )
        elif self._sampled:
            smallest = inf
        else:
            smallest = smallest_epsilon(
                lambda epsilon: self._part_of_noise(noise(epsilon)[1], length) <= _DROWNED
            )
        return Preview((planned,), float(self.epsilon), smallest, "the gradient stands out")

    def _outputs(self, X: Any) -> np.ndarray:
        """The net's predictions for one table, float64, a row an example.

        Filled up to sixteens, where a row's result does not depend on how many there are.
        """
        rows = self._rows.rows(X)
        filled = np.concatenate([rows, np.repeat(rows[-1:], -len(rows) % 16, axis=0)])
        return np.asarray(self.net_.predict_proba(filled), dtype=np.float64)[: len(rows)]
