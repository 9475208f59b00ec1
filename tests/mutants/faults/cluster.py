"""Faults in the clustered estimators: blocks, metric noise, participations, what is told."""

from tests.mutants.faults.fault import Fault

QUERY = "sklearn_fedpriv/federation/_query.py"
QUERIES = "sklearn_fedpriv/cluster/_queries.py"
PLANNING = "sklearn_fedpriv/cluster/_planning.py"
TRAINING = "sklearn_fedpriv/cluster/_training.py"
BASE = "sklearn_fedpriv/cluster/_base.py"
METRIC = "sklearn_fedpriv/privacy/_metric.py"
LEDGER = "sklearn_fedpriv/privacy/_ledger.py"
NOISE = "sklearn_fedpriv/federation/_metric.py"
TERMS = "sklearn_fedpriv/federation/_terms.py"
MESSAGES = "sklearn_fedpriv/federation/_messages.py"
PARTY = "sklearn_fedpriv/federation/_party.py"
RUN = "sklearn_fedpriv/federation/_run.py"
ESTIMATOR = "sklearn_fedpriv/federation/_estimator.py"

T_QUERIES = "tests/cluster/test_queries.py"
T_CLUSTER = "tests/cluster/test_clustered.py"
T_PARTIAL = "tests/federation/test_partial.py"
T_METRIC = "tests/privacy/test_metric.py"

FAULTS = [
    Fault(
        "G9-open-choices-under-shared-noise",
        MESSAGES,
        'if query.discloses and terms.budget.mechanism != "metric":',
        "if False:",
        (f"{T_CLUSTER}::test_G9_choices_in_clear_need_noise_in_full",),
    ),
    Fault(
        "G12-a-loss-that-is-no-number",
        BASE,
        "if loss is not None and not np.isfinite(loss(start)):",
        "if False:",
        (f"{T_CLUSTER}::test_patience_watches_public_rows_and_the_whole_plan_is_billed",),
    ),
    # blocks
    Fault(
        "G7-update-not-clipped",
        QUERIES,
        "/ self.clip_norm, 1.0)",
        "/ self.clip_norm, 9.0)",
        (T_QUERIES,),
    ),
    Fault(
        "G17-integer-norm-not-enforced",
        QUERIES,
        "held: np.ndarray = clip_integer_rows(ticks, size**2)[0]",
        "held: np.ndarray = ticks[0]",
        (T_QUERIES,),
    ),
    Fault(
        "G17-count-longer-than-the-norm",
        QUERIES,
        "block[slot, -1] = self.ticks_of_norm",
        "block[slot, -1] = 2 * self.ticks_of_norm",
        (T_QUERIES,),
    ),
    Fault(
        "G17-distance-of-one-norm",
        QUERIES,
        'return (4 if adjacency == "replace" else 2) * self.ticks_of_norm**2',
        'return (1 if adjacency == "replace" else 2) * self.ticks_of_norm**2',
        (T_QUERIES,),
    ),
    Fault(
        "G17-open-distance-of-one-norm",
        QUERIES,
        'return (4 if adjacency == "replace" else 1) * self.ticks_of_norm**2',
        "return self.ticks_of_norm**2",
        (T_CLUSTER,),
    ),
    Fault(
        "G17-open-noise-in-the-wrong-slot",
        QUERIES,
        "here = slice(slot * self.n_parameters, (slot + 1) * self.n_parameters)",
        "here = slice(0, self.n_parameters)",
        (T_QUERIES,),
    ),
    Fault(
        "G17-choices-told-unasked",
        QUERIES,
        '    discloses = "every party\'s choice of hypothesis, which is sent in clear"\n',
        "",
        (T_CLUSTER,),
    ),
    Fault("G4-published-passes-for-proved", QUERIES, "    proved = False\n", "", (T_CLUSTER,)),
    Fault(
        "G24-batches-in-order",
        QUERY,
        'order = np.argsort(stream.uint64(n_rows), kind="stable")',
        "order = np.arange(n_rows)",
        (T_QUERIES,),
    ),
    # metric noise
    Fault(
        "G17-rate-doubled",
        NOISE,
        "MetricNoise(epsilon / distance,",
        "MetricNoise(2 * epsilon / distance,",
        (T_PARTIAL,),
    ),
    Fault(
        "G17-noise-shared-among-parties",
        NOISE,
        "return multivariate_laplace(self.rate, length, stream)",
        "return multivariate_laplace(7 * self.rate, length, stream)",
        (T_QUERIES, "tests/statistical/test_cluster_privacy.py"),
    ),
    Fault(
        "G17-noise-not-joint",
        NOISE,
        "return multivariate_laplace(self.rate, length, stream)",
        "return np.hstack([multivariate_laplace(self.rate, 1, stream) for _ in range(length)])",
        (T_QUERIES,),
    ),
    Fault(
        "G4-published-noise-charged-as-proved",
        NOISE,
        'proved = terms.calibration == "proved"',
        "proved = True",
        (T_PARTIAL,),
    ),
    Fault(
        "G17-one-normal-too-few",
        METRIC,
        "_Radius(rate, d + 1, stream)",
        "_Radius(rate, d, stream)",
        (T_METRIC,),
    ),
    Fault(
        "G17-noise-rounded-down",
        METRIC,
        "half_up = z * size + 0.5",
        "half_up = z * size",
        (T_METRIC,),
    ),
    Fault(
        "G12-tail-of-one-draw",
        METRIC,
        "gmpy2.mpq(shares * (d + 1), 2), None",
        "gmpy2.mpq(d + 1, 2), None",
        (T_METRIC,),
    ),
    Fault(
        "G17-leakage-halved",
        PLANNING,
        "return 2 * each if query.proved else each",
        "return each",
        (T_CLUSTER,),
    ),
    # participations
    Fault(
        "G2-participations-averaged",
        PLANNING,
        "return ceil(self.n_rounds * self.n_chosen / self.n_parties)",
        "return max(1, self.n_rounds * self.n_chosen // self.n_parties)",
        (T_CLUSTER,),
    ),
    Fault(
        "G2-lots-with-repeats",
        PLANNING,
        "[name for name in fresh if name not in first]",
        "list(fresh)",
        (T_CLUSTER,),
    ),
    Fault(
        "G2-cap-ignored",
        BASE,
        "if cap is not None and plan.participations > cap:",
        "if False:",
        (T_CLUSTER,),
    ),
    Fault(
        "G17-max-leakage-ignored",
        BASE,
        "if self.max_leakage is not None and spends.epsilon > self.max_leakage:",
        "if False:",
        (T_CLUSTER,),
    ),
    Fault(
        "G2-participations-not-counted",
        LEDGER,
        "self._parts[query] -= 1",
        "self._parts[query] -= 0",
        (T_PARTIAL,),
    ),
    Fault(
        "G2-participants-charged-nothing",
        LEDGER,
        "takes_part = takes_part or query not in self._parts\n        cost = self._cost(event) if "
        "takes_part else Fraction(0)\n        if takes_part and query in self._parts:",
        "cost = Fraction(0)\n        if takes_part and query in self._parts:",
        (T_PARTIAL,),
    ),
    Fault(
        "G2-a-party-not-in-its-own-count",
        PARTY,
        "query.squared_norm, takes_part\n",
        "query.squared_norm, False\n",
        (T_PARTIAL,),
    ),
    Fault(
        "G9-rows-of-others-asked",
        PARTY,
        "    if job.takes_part:\n        ticks",
        "    if True:\n        ticks",
        (T_PARTIAL,),
    ),
    Fault(
        "G9-only-participants-add-shared-noise",
        PARTY,
        "if job.takes_part or job.noise.shared:",
        "if job.takes_part:",
        (T_PARTIAL,),
    ),
    Fault(
        "G9-subset-under-shared-noise",
        TERMS,
        'if few and self.budget.mechanism == "metric" and self.max_dropouts == 0:',
        "if few:",
        (T_PARTIAL,),
    ),
    Fault(
        "G9-the-uninvited-answer",
        PARTY,
        "if self.name not in task.parties:",
        "if False:",
        (T_PARTIAL,),
    ),
    Fault(
        "G19-release-numbers-fall",
        PARTY,
        "number = max(number, ask.binding.release)",
        "number = ask.binding.release",
        (T_PARTIAL,),
    ),
    Fault(
        "G19-release-numbers-jump-in-any-fit",
        PARTY,
        "if self._terms.partial:",
        "if True:",
        (T_PARTIAL,),
    ),
    Fault(
        "G6-participants-without-a-plan",
        MESSAGES,
        "if query.participants and not terms.partial:",
        "if False:",
        (T_PARTIAL,),
    ),
    Fault(
        "G3-disclosure-not-in-the-terms",
        MESSAGES,
        "if query.discloses and query.discloses not in terms.disclosed:",
        "if False:",
        (T_PARTIAL,),
    ),
    Fault(
        "G3-disclosure-not-in-the-report",
        RUN,
        "(*facts_from_rows, *terms.disclosed)",
        "tuple(facts_from_rows)",
        (T_PARTIAL,),
    ),
    # what is told
    Fault(
        "G24-nets-of-parties-kept",
        BASE,
        "self._trainer, self._coding = deepcopy(trainer), step",
        "self._trainer, self._coding = trainer, step",
        ("tests/cluster/test_nets.py",),
    ),
    Fault("G24-choices-kept", BASE, 'elif hasattr(self, "choices_"):', "elif False:", (T_CLUSTER,)),
    Fault(
        "G4-no-warning-without-noise",
        ESTIMATOR,
        "if not spends.private:",
        "if False:",
        (T_CLUSTER,),
    ),
    Fault(
        "G13-stopped-runs-bill-less",
        BASE,
        "self.privacy_ = run.report(facts)",
        "self.privacy_ = replace(run.report(facts), epsilon=self.leakage_)",
        (T_CLUSTER,),
    ),
    Fault(
        "G24-patience-without-public-rows",
        BASE,
        "if self.patience is not None:",
        "if False:",
        (T_CLUSTER,),
    ),
    Fault(
        "G3-mean-by-noisy-counts-alone",
        TRAINING,
        "divisor = np.clip(self._share, self._equal, self._plan.n_chosen)",
        "divisor = self._share",
        (T_CLUSTER,),
    ),
]
