"""Faults in the support vector classifier: coded rows, exact sums, plans, the published method."""

from tests.mutants.faults.fault import Fault

ROWS = "sklearn_fedpriv/svm/_rows.py"
QUERIES = "sklearn_fedpriv/svm/_queries.py"
TRAINING = "sklearn_fedpriv/svm/_training.py"
PLANNING = "sklearn_fedpriv/svm/_planning.py"
CHECKS = "sklearn_fedpriv/svm/_checks.py"
PUBLISHED = "sklearn_fedpriv/svm/_published.py"
SVC = "sklearn_fedpriv/svm/_svc.py"
MESSAGES = "sklearn_fedpriv/federation/_messages.py"
TERMS = "sklearn_fedpriv/federation/_terms.py"
ENCODER = "sklearn_fedpriv/preprocessing/_public_encoder.py"
SCHEDULES = "sklearn_fedpriv/privacy/_schedules.py"

T_ROWS = "tests/svm/test_rows.py"
T_QUERIES = "tests/svm/test_queries.py"
T_SVC = "tests/svm/test_svc.py"
T_PUBLISHED = "tests/svm/test_published.py"
SPREAD = f"{T_PUBLISHED}::test_the_noise_of_a_sum_is_that_of_all_chosen_parties"
T_ENCODER = "tests/preprocessing/test_public_encoder.py"
T_SCHEDULES = "tests/privacy/test_schedules.py"

FAULTS = [
    # rows
    Fault("G7-nan-in-a-row", ROWS, "np.where(np.isfinite(block), block, 0.0)", "block", (T_ROWS,)),
    Fault(
        "G7-nan-in-a-sparse-row",
        ROWS,
        "np.where(np.isfinite(X.data), X.data, 0.0)",
        "X.data",
        (T_ROWS,),
    ),
    Fault(
        "G8-long-rows-not-shrunk",
        ROWS,
        "np.trunc(ticks * factor)",
        "np.trunc(ticks)",
        (T_ROWS,),
    ),
    Fault(
        "G8-shrunk-rows-rounded-up",
        ROWS,
        "np.trunc(ticks * factor)",
        "np.rint(ticks * factor)",
        (T_ROWS,),
    ),
    Fault(
        "G8-features-rounded-up",
        ROWS,
        "np.trunc(np.sign(wave) * np.maximum(np.abs(wave) - _MARGIN, 0))",
        "np.sign(wave) * np.ceil(np.abs(wave))",
        (T_ROWS,),
    ),
    Fault(
        "G21-the-last-bit-of-a-sine-decides",
        ROWS,
        "_MARGIN = 2.0**-24",
        "_MARGIN = 0.0",
        (f"{T_ROWS}::test_the_last_bit_of_a_sine_decides_nothing",),
    ),
    Fault(
        "G8-angles-as-floats",
        ROWS,
        "whole = np.rint(turns * (_TURN / ROW_TICKS) * _FREQUENCY_TICKS)",
        "whole = turns * (_TURN / ROW_TICKS) * _FREQUENCY_TICKS",
        (T_ROWS,),
    ),
    Fault(
        "G8-sparse-duplicates-not-added-up",
        ROWS,
        "        X.sum_duplicates()\n",
        "",
        (T_ROWS,),
    ),
    # sums
    Fault(
        "G7-long-coded-rows-kept",
        QUERIES,
        "    rows[long] = 0.0\n    return rows, long",
        "    long[:] = False\n    return rows, long",
        (T_QUERIES,),
    ),
    Fault(
        "G7-labels-of-no-class-counted",
        QUERIES,
        "return np.where((y >= 0) & (y < n_classes), y, n_classes).astype(np.int64)",
        "return np.clip(y, 0, n_classes - 1).astype(np.int64)",
        (T_QUERIES,),
    ),
    Fault(
        "G8-two-blocks-charged-as-one",
        QUERIES,
        "blocks = 1 if len(self.class_levels) == 2 else 2",
        "blocks = 1",
        (T_QUERIES,),
    ),
    Fault(
        "G8-intercept-not-charged",
        QUERIES,
        "(ROW_TICKS**2 + self.intercept**2)",
        "ROW_TICKS**2",
        (T_QUERIES,),
    ),
    Fault(
        "G8-class-weights-not-charged",
        QUERIES,
        "levels = LEVELS if self.weighted else 1\n        return blocks",
        "levels = 1\n        return blocks",
        (T_QUERIES,),
    ),
    Fault(
        "G8-weights-past-what-is-exact",
        QUERIES,
        "if not (lengths < _LARGEST_WEIGHT).all() or not 0",
        "if not 0",
        (T_QUERIES,),
    ),
    Fault(
        "G8-sums-in-single-precision",
        QUERIES,
        "rows = X.astype(np.float64)\n    long",
        "rows = X.astype(np.float32)\n    long",
        (T_QUERIES,),
    ),
    Fault(
        "G7-loss-without-a-limit",
        QUERIES,
        "np.clip(1 - lead / self.margin, 0, LARGEST_LOSS)",
        "np.maximum(1 - lead / self.margin, 0)",
        (T_QUERIES,),
    ),
    Fault(
        "G7-losses-of-no-class-counted",
        QUERIES,
        "return np.array([*levels, 0], dtype=np.float64)",
        "return np.array([*levels, 1], dtype=np.float64)",
        (T_QUERIES,),
    ),
    Fault(
        "G7-losses-without-the-weights-of-classes",
        QUERIES,
        "part = self._levels[y] / self._levels.max()",
        "part = self._levels[y] > 0",
        (f"{T_QUERIES}::test_losses_are_weighted_like_the_gradients",),
    ),
    Fault(
        "G8-weights-are-not-whole",
        QUERIES,
        "whole = np.rint(np.ldexp(weights, exponent)).astype(np.int64)",
        "whole = np.ldexp(weights, exponent)",
        (T_QUERIES,),
    ),
    # before the charge
    Fault(
        "G7-a-class-that-counts-for-nothing",
        TRAINING,
        "max(1, round(LEVELS * weight / largest))",
        "round(LEVELS * weight / largest)",
        (f"{T_SVC}::test_no_class_is_so_light_that_it_counts_for_nothing",),
    ),
    Fault(
        "G6-public-rows-of-another-number-than-labels",
        CHECKS,
        "    check_consistent_length(table, labels)\n",
        "",
        (f"{T_SVC}::test_public_rows_are_checked_before_anything_is_charged",),
    ),
    Fault(
        "G6-labels-of-public-rows-alone-are-ignored",
        CHECKS,
        "if X_val is None and y_val is None:",
        "if X_val is None:",
        (f"{T_SVC}::test_public_rows_are_checked_before_anything_is_charged",),
    ),
    Fault(
        "G6-weights-that-overflow-after-the-charge",
        TRAINING,
        "before, weights = weights, shortened(1.0, ahead + push, longest)",
        "before, weights = weights, ahead + push",
        (f"{T_SVC}::test_no_learning_rate_carries_the_weights_away",),
    ),
    Fault(
        "G6-steps-that-overflow-after-the-charge",
        TRAINING,
        "push = shortened(step, pull - ridge * ahead, 2 * longest)",
        "push = step * (pull - ridge * ahead)",
        (f"{T_SVC}::test_no_learning_rate_carries_the_weights_away",),
    ),
    Fault(
        "G12-words-sized-for-the-mean-share",
        PLANNING,
        "                smallest=min(shares),\n",
        "",
        (f"{T_SVC}::test_noise_that_no_word_holds_is_refused_before_anything_is_charged",),
    ),
    Fault(
        "G12-words-of-the-published-method-sized-for-the-mean-share",
        PUBLISHED,
        "            smallest=min(map(_share_of_epsilon, shares.planned())),\n",
        "",
        (f"{T_SVC}::test_noise_that_no_word_holds_is_refused_before_anything_is_charged",),
    ),
    Fault(
        "G12-the-smallest-share-is-not-looked-at",
        MESSAGES,
        "smallest = planned.smallest or planned.share / (",
        "smallest = planned.share / (",
        (f"{T_SVC}::test_noise_that_no_word_holds_is_refused_before_anything_is_charged",),
    ),
    Fault(
        "G12-large-noise-is-no-word",
        TERMS,
        "share = (share % 2**64).astype(np.uint64).view(np.int64)",
        "pass",
        (f"{T_SVC}::test_rounds_with_huge_noise_fit_their_words",),
    ),
    # plan
    Fault(
        "G13-the-share-of-losses-is-rounded",
        PLANNING,
        "part = Fraction(exact(schedule.loss_share)) * whole",
        "part = Fraction(schedule.loss_share).limit_denominator(1000) * whole",
        (f"{T_SVC}::test_a_paid_loss_has_exactly_its_share",),
    ),
    Fault(
        "G13-losses-not-in-the-plan",
        PLANNING,
        "Shares(schedule, n_rounds, whole - part)",
        "Shares(schedule, n_rounds, whole)",
        (T_SVC,),
    ),
    Fault(
        "G13-shares-that-never-end",
        SCHEDULES,
        "left = max(1, shortened - self._done)",
        "left = max(1, self.left)",
        (T_SCHEDULES, T_SVC),
    ),
    Fault(
        "G13-what-is-left-is-spread-twice",
        SCHEDULES,
        "_spread(sum(self._grains), self.schedule.weights(left))",
        "_spread(2**_GRAIN_BITS, self.schedule.weights(left))",
        (T_SCHEDULES,),
    ),
    Fault(
        "G3-hint-replaced-by-the-rows",
        SVC,
        "counted=self.n_rows_hint is None",
        "counted=False",
        (T_SVC,),
    ),
    # published
    Fault(
        "G4-a-claim-in-proved-terms",
        MESSAGES,
        'if not query.proved and terms.calibration == "proved":',
        "if False:",
        (f"{T_PUBLISHED}::test_a_proved_fit_refuses_a_sensitivity_that_is_only_claimed",),
    ),
    Fault(
        "G4-the-published-query-says-it-is-proved",
        PUBLISHED,
        "    proved = False\n",
        "",
        (f"{T_PUBLISHED}::test_a_proved_fit_refuses_a_sensitivity_that_is_only_claimed",),
    ),
    Fault(
        "G2-a-proved-fit-takes-a-sample-of-parties",
        PUBLISHED,
        "    if parties_per_round is not None:\n",
        "    if False:\n",
        (f"{T_PUBLISHED}::test_wrong_settings_are_refused_before_anything_is_charged",),
    ),
    Fault(
        "G4-parties-not-chosen-take-part",
        PUBLISHED,
        "if tools.party not in self.chosen:",
        "if False:",
        (f"{T_PUBLISHED}::test_a_party_that_was_not_chosen_adds_noise_alone",),
    ),
    Fault(
        "G4-participations-are-those-planned",
        PUBLISHED,
        "        for name in chosen:\n",
        "        for name in names[:n_chosen]:\n",
        (f"{T_PUBLISHED}::test_real_participations_are_counted_printed_and_reported",),
    ),
    Fault(
        "G4-participation-not-in-the-noise",
        PUBLISHED,
        "participation=n_chosen / n,",
        "participation=1.0,",
        (SPREAD,),
    ),
    Fault(
        "G4-published-noise-of-one-party",
        PUBLISHED,
        "Fraction(n_chosen * variance * m / n / ",
        "Fraction(variance * m / n / ",
        (SPREAD,),
    ),
    Fault(
        "G9-published-noise-not-scaled-to-the-shares",
        PUBLISHED,
        "n_chosen * variance * m / n / (2",
        "n_chosen * variance / (2",
        (SPREAD,),
    ),
    Fault(
        "G4-the-claim-is-rounded-up-to-whole-ticks",
        PUBLISHED,
        "return self.claimed / Fraction(2) ** (2 * self.lattice.exponent)",
        "ticks = self.claimed / Fraction(2) ** (2 * self.lattice.exponent)\n"
        "        return Fraction(-(-ticks // 1))",
        (f"{T_PUBLISHED}::test_the_claim_for_many_rows_is_not_rounded_to_ticks",),
    ),
    Fault(
        "G13-published-schedule-of-precisions-not-roots",
        PUBLISHED,
        "return Fraction(float(part) ** 0.5)",
        "return part",
        (SPREAD,),
    ),
    Fault(
        "G20-the-draw-of-parties-never-changes",
        PUBLISHED,
        "names[i] for i in np.sort(order[:n_chosen])",
        "names[i] for i in range(n_chosen)",
        (f"{T_PUBLISHED}::test_every_party_is_as_likely_as_another",),
    ),
    Fault(
        "G6-local-steps-that-overflow-after-the-charge",
        PUBLISHED,
        "weights = shortened(1.0, weights + push, _FAR * self.bound)",
        "weights = weights + self.step * (pull - self.ridge * weights)",
        (f"{T_PUBLISHED}::test_weights_are_clipped_and_rows_are_held_to_the_bound",),
    ),
    # encoder
    Fault(
        "G23-unknown-values-take-the-last-category",
        ENCODER,
        "known = np.flatnonzero(code < len(column.categories))",
        "code = np.minimum(code, len(column.categories) - 1)\n"
        "                known = np.arange(len(code))",
        (T_ENCODER,),
    ),
    Fault(
        "G23-values-beyond-the-bounds",
        ENCODER,
        "2 * np.clip(share, 0, 1) - 1",
        "2 * share - 1",
        (T_ENCODER,),
    ),
    Fault(
        "G23-rows-of-any-length",
        ENCODER,
        "np.divide(coded, length, out=coded, where=length > 0)",
        "pass",
        (T_ENCODER,),
    ),
]
