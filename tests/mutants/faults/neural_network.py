"""Faults in sampled steps, their accountant, and what a net adds to a sum."""

from tests.mutants.faults.fault import Fault

SAMPLING = "sklearn_fedpriv/privacy/_sampling.py"
LEDGER = "sklearn_fedpriv/privacy/_ledger.py"
TERMS = "sklearn_fedpriv/federation/_terms.py"
QUERY = "sklearn_fedpriv/federation/_query.py"
QUERIES = "sklearn_fedpriv/neural_network/_queries.py"
BASE = "sklearn_fedpriv/neural_network/_base.py"
CODE = "sklearn_fedpriv/neural_network/_code.py"
ENTRANCE = "sklearn_fedpriv/neural_network/_entrance.py"
PUBLISHED = "sklearn_fedpriv/neural_network/_published.py"
GRADIENTS = "sklearn_fedpriv/_torch/_gradients.py"
INDEPENDENCE = "sklearn_fedpriv/_torch/_independence.py"
LOCAL = "sklearn_fedpriv/_torch/_local.py"

T_SAMPLING = "tests/privacy/test_sampling.py"
T_TERMS = "tests/federation/test_sampled.py"
T_QUERIES = "tests/neural_network/test_queries.py"
T_ESTIMATORS = "tests/neural_network/test_estimators.py"
T_ADAPTIVE = "tests/neural_network/test_adaptive.py"
T_PUBLISHED = "tests/neural_network/test_published.py"
T_BEFORE = "tests/neural_network/test_before_charging.py"
T_TORCH = "tests/torch/test_torch.py"

FAULTS = [
    Fault(
        "G13-transforms-never-round",
        SAMPLING,
        "_FOURIER = 1e-11",
        "_FOURIER = 0.0",
        (T_SAMPLING,),
    ),
    Fault(
        "G13-transforms-never-round-in-reports",
        SAMPLING,
        "get_epsilon_for_delta(float(delta) - _FOURIER)",
        "get_epsilon_for_delta(float(delta))",
        (T_SAMPLING,),
    ),
    Fault(
        "G24-buffers-of-a-party-kept",
        LOCAL,
        "        net = self._pristine(weights)\n        before",
        "        net = self._mine()\n        set_flat(net.module_, weights)\n"
        '        net._initialize_optimizer(reason="")\n        before',
        (T_QUERIES,),
    ),
    Fault(
        "G8-any-number-of-rows-at-the-entrance",
        ENTRANCE,
        "        if len(X) > limit:",
        "        if False:",
        (T_BEFORE,),
    ),
    Fault(
        "G24-size-of-a-party-told",
        ENTRANCE,
        'f"Party {name!r}: with this net one',
        'f"Party {name!r} of {len(X)}: with this net one',
        (T_BEFORE,),
    ),
    Fault(
        "G6-charged-before-a-trial-step",
        CODE,
        "            _try_step(copy_net(net), X, y, advice, by_rows=by_rows)\n",
        "            pass\n",
        (T_BEFORE,),
    ),
    Fault(
        "G6-targets-of-another-kind-tried",
        CODE,
        "    return rows.apply(X",
        "    rows = NetRows((), rows.whole, rows.double, rows.column)\n    return rows.apply(X",
        (T_BEFORE,),
    ),
    Fault(
        "G6-tokens-not-looked-at",
        ENTRANCE,
        "        if tokens:",
        "        if False:",
        (T_BEFORE,),
    ),
    Fault(
        "G24-value-of-a-target-told",
        ENTRANCE,
        "y holds targets that",
        "y holds {y.max()}, {y.min()} that",
        (T_BEFORE,),
    ),
    Fault(
        "G19-body-of-a-module-not-in-the-terms",
        CODE,
        "self.fingerprint = digest((self.fingerprint, code_of(net)))",
        "digest((self.fingerprint, code_of(net)))",
        (T_BEFORE,),
    ),
    Fault(
        "G13-multiplier-rounded-down",
        SAMPLING,
        "    return Fraction(high, GRID)\n\n\n@lru_cache",
        "    return Fraction(low, GRID)\n\n\n@lru_cache",
        (T_SAMPLING,),
    ),
    Fault(
        "G13-optimistic-losses",
        SAMPLING,
        "pessimistic_estimate=True",
        "pessimistic_estimate=False",
        (T_SAMPLING,),
    ),
    Fault(
        "G13-steps-not-composed",
        SAMPLING,
        "return one.self_compose(count)",
        "return one.self_compose(max(1, count // 2))",
        (T_SAMPLING,),
    ),
    Fault(
        "G10-sampled-smoothing-free",
        SAMPLING,
        "target, goal = float(epsilon - 2 * loss), float(delta * (1 - loss)) - _FOURIER",
        "target, goal = float(epsilon), float(delta) - _FOURIER",
        (T_SAMPLING,),
    ),
    Fault(
        "G13-one-step-more-than-planned",
        LEDGER,
        "        return Fraction(1, planned.count)\n",
        "        self._left[planned.query] = (9, Fraction(9), 9**9)\n"
        "        return Fraction(1, 9 * planned.count)\n",
        (T_SAMPLING,),
    ),
    Fault(
        "G13-loud-steps-accepted",
        LEDGER,
        "too_loud = event.mu_squared * self._multiplier**2 > 1",
        "too_loud = False",
        (T_SAMPLING,),
    ),
    Fault(
        "G13-dense-samples-accepted",
        LEDGER,
        "if event.sampling_rate > planned.sampling_rate or too_loud:",
        "if too_loud:",
        (T_SAMPLING,),
    ),
    Fault(
        "G13-sampled-steps-beside-others",
        LEDGER,
        'if len(plan) > 1 or plan[0].share != 1 or mechanism != "gaussian":',
        "if False:",
        (T_SAMPLING,),
    ),
    Fault(
        "G9-sampled-noise-shared-by-all",
        TERMS,
        "wanted = squared * terms.multiplier**2",
        "wanted = squared * terms.multiplier**2 * Fraction(m, len(terms.parties))",
        (T_TERMS,),
    ),
    Fault(
        "G20-sample-known-to-all",
        QUERY,
        "words = stream.uint64(n_rows)",
        "words = Stream(bytes(32)).uint64(n_rows)",
        (T_QUERIES,),
    ),
    Fault(
        "G2-sample-of-fixed-size",
        QUERY,
        "return np.flatnonzero(words < np.uint64(rate.numerator * 2**64 // rate.denominator))",
        "return np.sort(np.argsort(words)[: round(n_rows * rate)])",
        (T_QUERIES,),
    ),
    Fault(
        "G20-sample-drawn-once",
        QUERIES,
        "sample = poisson_sample(len(X), self.sampling_rate, tools.stream)",
        "sample = poisson_sample(len(X), self.sampling_rate, type(tools.stream)(bytes(32)))",
        (T_QUERIES,),
    ),
    Fault(
        "G8-float-errors-not-charged",
        QUERIES,
        "ceil(ticks * (1 + Fraction(FLOAT_ERROR)))",
        "ceil(ticks)",
        (T_QUERIES,),
    ),
    Fault(
        "G8-rounding-of-a-net-not-charged",
        QUERIES,
        "+ isqrt(self.length) + 1) ** 2",
        ") ** 2",
        (T_QUERIES,),
    ),
    Fault(
        "G8-any-number-of-rows",
        QUERIES,
        "if len(X) > tools.code.row_limit(FLOAT_ERROR):",
        "if False:",
        (T_QUERIES,),
    ),
    Fault(
        "G7-gradients-not-clipped",
        GRADIENTS,
        "factors = (clip_norm / (squares.sqrt() * margin)).clamp(max=1.0)",
        "factors = torch.ones_like(squares)",
        (T_QUERIES,),
    ),
    Fault(
        "G7-batch-norm-accepted",
        INDEPENDENCE,
        "        if (batch and (part.training or part.running_mean is None)) or (",
        "        if (batch and part.running_mean is None) or (",
        (T_ESTIMATORS,),
    ),
    Fault(
        "G8-bare-remainders",
        "sklearn_fedpriv/_torch/_sizes.py",
        "SIZES = tuple(range(256, 0, -32))",
        "SIZES = (*range(256, 0, -32), 1)",
        (T_TORCH,),
    ),
    Fault(
        "G3-sums-divided-by-the-rows-there-are",
        BASE,
        "expected=float(self.n_rows_hint * self._rate),",
        "expected=float(sum(len(X) for X, _ in federation.rows) * self._rate),",
        (T_ESTIMATORS,),
    ),
    Fault(
        "G2-party-update-replaced-counts-once",
        BASE,
        'unit = {"record": "add_remove", "party": "replace"}',
        'unit = {"record": "add_remove", "party": "add_remove"}',
        (T_ESTIMATORS,),
    ),
    Fault(
        "G2-participations-beyond-the-cap",
        BASE,
        'if self.unit == "party" and cap is not None and cap < self.n_rounds:',
        "if False:",
        (T_ESTIMATORS,),
    ),
    Fault(
        "G19-frozen-weights-not-in-the-fingerprint",
        LOCAL,
        "            hashed.update(name.encode() + value",
        "            len(name.encode() + value",
        (T_QUERIES,),
    ),
    Fault(
        "G13-losses-for-nothing",
        BASE,
        "return Shares(schedule, n_rounds, 1 - part), Shares(constant, n_rounds, part)",
        "return Shares(schedule, n_rounds, Fraction(1)), Shares(constant, n_rounds, part)",
        (T_ADAPTIVE,),
    ),
    Fault(
        "G7-losses-without-a-largest",
        QUERIES,
        "np.floor(np.clip(known, 0, LARGEST_LOSS) *",
        "np.floor(known *",
        (T_ADAPTIVE,),
    ),
    Fault(
        "G7-losses-beside-other-rows",
        LOCAL,
        "zip(rows.split(1), targets.split(1), strict=True)",
        "zip(rows.split(4), targets.split(4), strict=True)",
        (T_ADAPTIVE,),
    ),
    Fault(
        "G4-published-net-counts-as-proved",
        PUBLISHED,
        "    proved = False\n",
        "    proved = True\n",
        (T_PUBLISHED,),
    ),
]

# Rows and parties that reach each other through a net.

KNOWN = "sklearn_fedpriv/_torch/_known.py"
LAYERS = "sklearn_fedpriv/_torch/_layers.py"
METHODS = "sklearn_fedpriv/_torch/_methods.py"
NET = "sklearn_fedpriv/_torch/_net.py"
SIZES = "sklearn_fedpriv/_torch/_sizes.py"
SYNTHETIC = "sklearn_fedpriv/_torch/_synthetic.py"

T = "tests/torch/test_independence.py::test_"

FAULTS_OF_INDEPENDENCE = [
    Fault(
        "G8-rows-in-scalar-tails",
        SIZES,
        "SIZES = tuple(range(256, 0, -32))",
        "SIZES = tuple(range(256, 0, -16))",
        (T + "rows_of_odd_width_have_the_same_bits_in_chunks_of_all_sizes",),
    ),
    Fault(
        "G8-places-not-compared",
        SIZES,
        "torch.randint(n_known, (size,), generator=generator) for",
        "torch.arange(size) % n_known for",
        (T + "a_last_bit_that_goes_by_anything_but_the_row_is_seen",),
    ),
    Fault(
        "G8-no-nan-neighbours",
        SIZES,
        "    rows[1::2] = torch.nan\n",
        "",
        (T + "a_last_bit_that_goes_by_anything_but_the_row_is_seen",),
    ),
    Fault(
        "G7-plans-of-redefined-classes",
        LOCAL,
        "plans = _plans if self._known else {}",
        "plans = _plans",
        (T + "only_plans_of_known_nets_are_remembered",),
    ),
    Fault(
        "G7-fast-way-for-any-code",
        KNOWN,
        "    if reason := unknown_part(module, criterion):",
        "    if (reason := unknown_part(module, criterion)) is None:",
        (T + "what_made_up_rows_do_not_trigger_cannot_reach_other_rows",),
    ),
    Fault(
        "G7-subclasses-known",
        KNOWN,
        "if type(part) not in LAYERS and not _is_container(type(part)):",
        "if not isinstance(part, (*LAYERS, *CONTAINERS)):",
        (T + "parts_are_known_by_their_exact_type_without_hooks",),
    ),
    Fault(
        "G7-any-sequential-known",
        KNOWN,
        "all(vars(each).keys() <= _HARMLESS for each in own)",
        "all('forward' not in vars(each) for each in own)",
        (T + "parts_are_known_by_their_exact_type_without_hooks",),
    ),
    Fault(
        "G7-hooks-known",
        KNOWN,
        "    return hooked or any(",
        "    return any(",
        (T + "parts_are_known_by_their_exact_type_without_hooks",),
    ),
    Fault(
        "G7-softmax-over-rows",
        KNOWN,
        "return isinstance(layer.dim, int) and layer.dim % n_axes != 0",
        "return layer.dim != 0",
        (T + "layers_that_may_take_the_rows_for_something_else_have_no_fast_way",),
    ),
    Fault(
        "G7-losses-stretched-over-rows",
        KNOWN,
        "    if type(criterion) in BY_NUMBER and output.shape != y.shape:",
        "    if type(criterion) in BY_NUMBER and len(output) != len(y):",
        (T + "layers_that_may_take_the_rows_for_something_else_have_no_fast_way",),
    ),
    Fault(
        "G7-single-rows-share-a-net",
        METHODS,
        "        own, own_criterion = deepcopy((module, criterion))",
        "        own, own_criterion = module, criterion",
        (T + "what_a_row_leaves_behind_reaches_no_row_round_or_party",),
    ),
    Fault(
        "G7-chunks-share-a-net",
        METHODS,
        "    module, criterion = deepcopy((module, criterion))\n    parameters",
        "    parameters",
        (T + "code_that_counts_its_calls_does_not_count_those_of_others",),
    ),
    Fault(
        "G7-losses-share-a-net",
        LOCAL,
        "pair if self._known else deepcopy(pair)",
        "pair",
        (T + "what_a_row_leaves_behind_reaches_no_row_round_or_party",),
    ),
    Fault(
        "G7-globals-not-looked-for",
        INDEPENDENCE,
        "        _check_single(module, criterion, X[:_FEW], y[:_FEW])\n",
        "        by_single(module, criterion, X[:_FEW], y[:_FEW])\n",
        (T + "what_is_kept_outside_of_the_net_is_refused",),
    ),
    Fault(
        "G2-parties-share-a-net",
        LOCAL,
        "        net = copy_net(self._net)\n        set_flat",
        "        net = self._mine()\n        set_flat",
        (T + "parties_get_a_fresh_net_each",),
    ),
    Fault(
        "G7-embeddings-rewrite-weights",
        INDEPENDENCE,
        "and part.max_norm is not None:",
        "and part.max_norm == 0:",
        (T + "embeddings_that_rewrite_their_weights_are_refused",),
    ),
    Fault(
        "G7-squares-underflow",
        LAYERS,
        "        elif b.dtype == torch.float64:",
        "        elif b.dtype == torch.float16:",
        (T + "no_square_is_lost_in_float64",),
    ),
    Fault(
        "G7-a-bad-row-silences-its-chunk",
        GRADIENTS,
        "found = _row_by_row(one_chunk, rows, targets, real, plan.sizes[-1])",
        "found = []",
        (T + "a_row_at_which_the_net_raises_adds_zero_and_the_others_what_they_did",),
    ),
    Fault(
        "G7-a-bad-row-ends-the-fit",
        GRADIENTS,
        "        except Exception:  # the row adds zero",
        "        except ZeroDivisionError:",
        (T + "a_target_at_which_the_loss_raises_adds_zero",),
    ),
    Fault(
        "G7-a-bad-row-ends-local-training",
        LOCAL,
        "                with suppress(Exception):",
        "                with suppress():",
        (T + "a_row_at_which_the_net_raises_adds_zero_and_the_others_what_they_did",),
    ),
    Fault(
        "G7-vectors-of-bad-rows-stay",
        LAYERS,
        "        self._vectors[bad[self._owner]] = 0\n",
        "        pass\n",
        (T + "a_token_whose_vector_is_no_number_adds_nothing",),
    ),
    Fault(
        "G13-masks-of-32-bits",
        GRADIENTS,
        "seeded(seed, X.device, secret=True)",
        "seeded(seed, X.device)",
        (T + "masks_come_from_all_bits_of_the_seed",),
    ),
    Fault(
        "embeddings-cut-real-columns",
        SYNTHETIC,
        "for tokens, whole in ((None, False), (min(sizes), False), (min(sizes), True)):",
        "for tokens, whole in ((min(sizes), True),):",
        (T + "rows_are_whole_numbers_only_for_nets_that_read_nothing_else",),
    ),
]
FAULTS += FAULTS_OF_INDEPENDENCE
