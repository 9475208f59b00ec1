"""Seeded faults: slips that would end a guarantee, each with the tests that must notice it.

A fault replaces one piece of text, which must occur exactly once in its file. The rule of
``guarantees.md`` that it breaks is the first word of its name. ``run.py`` plants them.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One slip: ``old`` becomes ``new`` in ``file``, and one of ``tests`` must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


QUERY = "sklearn_fedpriv/federation/_query.py"
PARTY = "sklearn_fedpriv/federation/_party.py"
RUN = "sklearn_fedpriv/federation/_run.py"
TERMS = "sklearn_fedpriv/federation/_terms.py"
FEDERATION = "sklearn_fedpriv/federation/_federation.py"
MESSAGES = "sklearn_fedpriv/federation/_messages.py"
ESTIMATOR = "sklearn_fedpriv/federation/_estimator.py"
FACTS = "sklearn_fedpriv/federation/_public_facts.py"
CLIP = "sklearn_fedpriv/privacy/_clip.py"
LATTICE = "sklearn_fedpriv/privacy/_fixed_point.py"
CALIBRATION = "sklearn_fedpriv/privacy/_calibration.py"
LEDGER = "sklearn_fedpriv/privacy/_ledger.py"
CEILING = "sklearn_fedpriv/privacy/_ceiling.py"
RANDOM = "sklearn_fedpriv/privacy/_randomness.py"
NOISE = "sklearn_fedpriv/privacy/_noise.py"
TAILS = "sklearn_fedpriv/privacy/_tails.py"
REPORT = "sklearn_fedpriv/privacy/_report.py"
WIRE = "sklearn_fedpriv/_wire.py"
PROTOCOL = "sklearn_fedpriv/secure/_protocol.py"
PAILLIER = "sklearn_fedpriv/secure/_paillier.py"
KEYS = "sklearn_fedpriv/secure/_paillier_keys.py"
ARITHMETIC = "sklearn_fedpriv/secure/_paillier_arithmetic.py"
PACKING = "sklearn_fedpriv/secure/_packing.py"
HISTOGRAM = "sklearn_fedpriv/tree/_histogram.py"
TREE = "sklearn_fedpriv/tree/_decision_tree.py"

T_RUN = "tests/federation/test_run.py"
T_CLIP = "tests/privacy/test_clip_and_fixed_point.py"
T_LEDGER = "tests/privacy/test_ledger.py"
T_CEILING = "tests/privacy/test_ceiling.py"
T_CALIBRATION = "tests/privacy/test_calibration.py"
T_RANDOM = "tests/privacy/test_randomness.py"
T_TAILS = "tests/privacy/test_tails.py"
T_REPORT = "tests/privacy/test_report.py"
T_WIRE = "tests/test_wire.py"
T_PROTOCOL = "tests/secure/test_protocol.py"
T_PAILLIER = "tests/secure/test_paillier.py"
T_KEYS = "tests/secure/test_paillier_keys.py"
T_PACKING = "tests/secure/test_packing.py"
T_HISTOGRAM = "tests/tree/test_histogram.py"
T_TREE = "tests/tree/test_decision_tree.py"
T_LAWS = "tests/statistical/test_noise_laws.py"
T_RULES = "tests/test_guarantees.py"
T_AUDIT = "tests/statistical/test_audit.py"
T_SPREAD = "tests/statistical/test_tree_privacy.py"

SPREAD = f"{T_SPREAD}::test_every_released_number_has_the_spread_that_theory_says"
PREDICTED = f"{T_RUN}::test_the_noise_of_a_release_has_the_predicted_spread"

FAULTS = [
    # --- bounds -----------------------------------------------------------------------------------
    Fault(
        "G7-rows-not-clipped",
        QUERY,
        "return self.lattice.encode(clip_rows(rows, self.bound))",
        "return self.lattice.encode(rows)",
        (f"{T_RUN}::test_a_query_that_breaks_its_promise_is_held_to_it",),
    ),
    Fault(
        "G7-integer-rows-not-clipped",
        QUERY,
        "return clip_integer_rows(rows, self.bound, self.absolute_bound)",
        "return rows",
        (T_RULES,),
    ),
    Fault(
        "G7-nan-passes-the-clip",
        CLIP,
        "np.where(np.isfinite(rows), rows, 0.0)",
        "np.where(True, rows, 0.0)",
        (T_CLIP,),
    ),
    Fault(
        "G7-long-integer-rows-kept",
        CLIP,
        ".sum(axis=1) <= squared_bound",
        ".sum(axis=1) >= 0",
        (T_CLIP,),
    ),
    Fault(
        "G7-squares-of-integers-wrap",
        CLIP,
        "small = np.where(beyond[:, None], 0, rows).astype(np.int64)",
        "small = rows.astype(np.int64)",
        (T_CLIP,),
    ),
    Fault(
        "G7-absolute-bound-not-held",
        CLIP,
        ".sum(axis=1) <= absolute_bound",
        ".sum(axis=1) >= 0",
        (T_RULES,),
    ),
    Fault(
        "G8-rounding-not-charged",
        LATTICE,
        "norm = ceil(exact_bound * (1 + Fraction(length + 1, 2**52))"
        " + Fraction(isqrt(length) + 1, 2))",
        "norm = int(exact_bound)",
        (T_CLIP, T_RULES),
    ),
    Fault("G8-ticks-too-coarse", LATTICE, "_TICKS = 4000", "_TICKS = 40", (T_CLIP,)),
    Fault(
        "G2-replacing-costs-twice-not-four-times",
        QUERY,
        'return self.squared_norm * (4 if adjacency == "replace" else 1)',
        'return self.squared_norm * (2 if adjacency == "replace" else 1)',
        (f"{T_RUN}::test_replacing_a_record_costs_twice_the_sensitivity",),
    ),
    # --- order of a release -------------------------------------------------------------------
    Fault(
        "G5-no-noise",
        PARTY,
        "noisy = ticks * job.noise.scale + job.noise.draw(",
        "noisy = ticks * job.noise.scale + 0 * job.noise.draw(",
        (PREDICTED,),
    ),
    Fault(
        "G5-last-number-without-noise",
        PARTY,
        "    return job.side.protect(job.task, noisy, os.urandom)",
        "    noisy[-1] = ticks[-1] * job.noise.scale\n"
        "    return job.side.protect(job.task, noisy, os.urandom)",
        (f"{T_RUN}::test_every_number_of_a_release_is_noisy",),
    ),
    Fault(
        "G5-one-number-in-ten-with-half-the-noise",
        PARTY,
        "    return job.side.protect(job.task, noisy, os.urandom)",
        "    noisy[::10] -= (noisy[::10] - ticks[::10] * job.noise.scale) // 2\n"
        "    return job.side.protect(job.task, noisy, os.urandom)",
        (SPREAD,),
    ),
    Fault(
        "G5-answer-not-scaled",
        PARTY,
        "noisy = ticks * job.noise.scale + job.noise.draw(",
        "noisy = ticks + job.noise.draw(",
        (SPREAD,),
    ),
    Fault(
        "G12-negative-counts-clamped",
        PARTY,
        "    return job.side.protect(job.task, noisy, os.urandom)",
        "    return job.side.protect(job.task, np.maximum(noisy, 0), os.urandom)",
        (PREDICTED, SPREAD),
    ),
    Fault(
        "G12-no-room-for-the-noise-of-all",
        MESSAGES,
        "limit=n * limit + noise.tail(n, bits)",
        "limit=n * limit + noise.tail(1, bits)",
        (T_RULES,),
    ),
    Fault(
        "G12-tail-too-small",
        TAILS,
        "up.log(gmpy2.mpz(2)), 2 * (k + 1))",
        "up.log(gmpy2.mpz(2)), k + 1)",
        (T_TAILS,),
    ),
    # --- shares -------------------------------------------------------------------------------
    Fault(
        "G9-shares-sized-for-all",
        TERMS,
        "return max(1, len(self.parties) - colluders - 1 - self.max_dropouts)",
        "return len(self.parties)",
        (f"{T_AUDIT}::test_one_release_leaks_what_is_claimed_and_no_more",),
    ),
    Fault(
        "G9-dropouts-ignored",
        TERMS,
        "return max(1, len(self.parties) - colluders - 1 - self.max_dropouts)",
        "return max(1, len(self.parties) - colluders - 1)",
        (f"{T_AUDIT}::test_one_release_leaks_what_is_claimed_and_no_more",),
    ),
    Fault(
        "G9-the-curious-party-forgotten",
        TERMS,
        "return max(1, len(self.parties) - colluders - 1 - self.max_dropouts)",
        "return max(1, len(self.parties) - colluders - self.max_dropouts)",
        (f"{T_RUN}::test_shares_are_sized_by_those_nobody_else_knows",),
    ),
    Fault(
        "G9-as-many-missing-as-honest",
        TERMS,
        "if max_dropouts >= min_honest or max_dropouts >= n_parties:",
        "if max_dropouts >= n_parties:",
        (f"{T_RUN}::test_trust_that_makes_no_sense_is_refused",),
    ),
    Fault(
        "G9-too-few-parties-summed",
        PROTOCOL,
        "if len(seen) < task.fewest:",
        "if not seen:",
        (T_PROTOCOL,),
    ),
    Fault(
        "G10-lattice-noise-charged-in-full",
        TERMS,
        "LOST = 3",
        "LOST = 0",
        (f"{T_RUN}::test_shares_are_sized_by_those_nobody_else_knows",),
    ),
    Fault(
        "G10-charged-less-than-it-costs",
        TERMS,
        "charged = GaussianEvent(squared * scale**2 / (m * variance - LOST))",
        "charged = GaussianEvent(squared * scale**2 / (m * variance))",
        (T_RULES,),
    ),
    Fault(
        "G10-shares-rounded-down",
        TERMS,
        "return Fraction(ceil(variance * 256), 256)",
        "return Fraction(int(variance * 256), 256)",
        (f"{T_RUN}::test_shares_are_sized_by_those_nobody_else_knows",),
    ),
    Fault(
        "G10-shares-narrower-than-the-lattice",
        TERMS,
        "_SMALLEST_SHARE = 20",
        "_SMALLEST_SHARE = Fraction(1, 2)",
        (T_RULES,),
    ),
    Fault(
        "G10-smoothing-loss-free",
        CALIBRATION,
        "loss = SMOOTHING_LOSS * n_coordinates",
        "loss = Fraction(0)",
        (T_CALIBRATION,),
    ),
    Fault(
        "G11-ratio-rounded-down",
        TAILS,
        "return Fraction(_ceil(up.mul_2exp(value, bits)), 2**bits)",
        "return Fraction(_ceil(up.mul_2exp(value, bits)) - 1, 2**bits)",
        (T_TAILS,),
    ),
    Fault(
        "G11-shares-of-one-party-too-many",
        NOISE,
        "    gap = 1 - ratio\n",
        "    gap = 1 - ratio\n    parties += 1\n",
        (f"{T_LAWS}::test_as_many_shares_as_parties_add_up_to_a_discrete_laplace",),
    ),
    Fault(
        "G11-signs-not-fair",
        NOISE,
        "parts = np.where(_coins(len(parts), stream), -parts, parts)",
        "parts = np.where(_coins(len(parts), stream) & _coins(len(parts), stream), -parts, parts)",
        (f"{T_LAWS}::test_polya_law",),
    ),
    Fault(
        "G10-every-zero-drawn-twice-as-often",
        NOISE,
        "~(negative & (x == 0))]",
        "~(negative & (x != x))]",
        (f"{T_LAWS}::test_discrete_gaussian_law",),
    ),
    # --- accounting -----------------------------------------------------------------------------
    Fault(
        "G13-the-end-of-the-search-that-is-not-private",
        CALIBRATION,
        "return _fraction(low) ** 2",
        "return _fraction(high) ** 2",
        (T_CALIBRATION, T_RULES),
    ),
    Fault(
        "G13-epsilon-rounded-down",
        CALIBRATION,
        "return _up(high)",
        "return float(low) * (1 - 2**-50)",
        (T_CALIBRATION, T_RULES),
    ),
    Fault(
        "G13-releases-cost-nothing",
        LEDGER,
        "self._left[query] = (count - 1, _minus(share, cost), numbers - length)",
        "self._left[query] = (count - 1, share, numbers - length)",
        (T_LEDGER,),
    ),
    Fault(
        "G13-more-releases-than-planned",
        LEDGER,
        "self._left[query] = (count - 1, _minus(share, cost), numbers - length)",
        "self._left[query] = (count, _minus(share, cost), numbers - length)",
        (T_LEDGER,),
    ),
    Fault(
        "G6-a-release-is-spent-unchecked",
        LEDGER,
        "        self.check(query, event",
        "        (query, event",
        (T_LEDGER,),
    ),
    Fault(
        "G6-a-fit-is-spent-unchecked",
        LEDGER,
        "        self.check(entry",
        "        (entry",
        (T_LEDGER,),
    ),
    Fault(
        "G6-an-unknown-event-is-free",
        LEDGER,
        "        if not isinstance(event, self._kind):",
        "        if not isinstance(event, self._kind):\n            return Fraction(0)\n"
        "        if not isinstance(event, self._kind):",
        (T_LEDGER,),
    ),
    Fault(
        "G6-half-of-epsilon-charged",
        PARTY,
        "charged.epsilon, charged.delta",
        "charged.epsilon / 2, charged.delta",
        (f"{T_RUN}::test_ledgers_outlive_fits",),
    ),
    Fault(
        "G6-fits-not-charged",
        PARTY,
        "self._party.ledger.commit(",
        "self._party.ledger.check(",
        (f"{T_RUN}::test_ledgers_outlive_fits",),
    ),
    Fault(
        "G6-no-veto",
        FEDERATION,
        "        for run in runs:\n            run.check()\n",
        "",
        (f"{T_RUN}::test_a_veto_charges_nobody",),
    ),
    Fault(
        "G6-a-party-believes-the-server",
        PARTY,
        "self._ledger.commit(",
        "(lambda *_: None)(",
        (T_RULES,),
    ),
    Fault(
        "G6-charged-one-by-one-while-others-answer",
        RUN,
        "jobs = [party.charge(ask) for party in self._parties.values()]",
        "jobs = (party.charge(ask) for party in self._parties.values())",
        (f"{T_RUN}::test_parties_charge_before_any_of_them_answers",),
    ),
    Fault(
        "G4-unproved-noise-charged-as-claimed",
        TERMS,
        "return replace(self.budget, epsilon=inf)",
        "return self.budget",
        (f"{T_TREE}::test_a_published_fit_says_that_nothing_is_proved",),
    ),
    Fault(
        "G4-published-report-is-finite",
        RUN,
        'epsilon=float(budget.epsilon) if proved else float("inf")',
        "epsilon=float(budget.epsilon)",
        (f"{T_TREE}::test_a_published_fit_says_that_nothing_is_proved",),
    ),
    Fault(
        "G14-ceilings-not-reserved",
        FEDERATION,
        "        reserve(self.names if self.named else None, entry.epsilon, entry.delta)\n",
        "",
        (f"{T_RUN}::test_a_ceiling_charges_nobody_either",),
    ),
    Fault(
        "G14-unnamed-parties-taken-for-different-ones",
        FEDERATION,
        "self.named = all(party.name is not None for party in self.parties)",
        "self.named = True",
        (T_RULES,),
    ),
    Fault(
        "G14-the-party-that-spent-least-counts",
        CEILING,
        "return common[0] + max(epsilons), common[1] + max(deltas)",
        "return common[0] + min(epsilons), common[1] + min(deltas)",
        (T_CEILING,),
    ),
    Fault(
        "G14-fits-on-unnamed-parties-do-not-count",
        CEILING,
        "return common[0] + max(epsilons), common[1] + max(deltas)",
        "return max(epsilons), max(deltas)",
        (T_CEILING,),
    ),
    Fault(
        "G14-ceilings-stay-behind",
        ESTIMATOR,
        'return {**state, "_ceilings": ceilings} if ceilings else state',
        "return state",
        (f"{T_CEILING}::test_the_state_of_a_pickle_carries_the_ceiling_only_while_it_is_in_force",),
    ),
    # --- randomness ---------------------------------------------------------------------------
    Fault(
        "G20-one-key-for-all-releases",
        PARTY,
        "derive_key(job.seed, release)",
        "derive_key(job.seed, 0)",
        (f"{T_RUN}::test_two_releases_of_a_fit_and_two_fits_of_a_federation_share_no_noise",),
    ),
    Fault(
        "G20-one-key-for-all-fits",
        FEDERATION,
        "derive_key(seed, terms.fit, name)",
        "derive_key(seed, name)",
        (f"{T_RUN}::test_two_releases_of_a_fit_and_two_fits_of_a_federation_share_no_noise",),
    ),
    Fault(
        "G20-one-key-for-all-parties",
        FEDERATION,
        "derive_key(seed, terms.fit, name)",
        "derive_key(seed, terms.fit)",
        (PREDICTED,),
    ),
    Fault(
        "G20-a-known-key-without-a-seed",
        PARTY,
        "key = fresh_key() if job.seed is None",
        "key = bytes(32) if job.seed is None",
        (f"{T_RUN}::test_an_identical_repeat_gets_the_same_bytes_and_an_altered_one_nothing",),
    ),
    Fault(
        "G20-streams-with-the-same-label",
        PARTY,
        'Stream(derive_key(key, "local"))',
        'Stream(derive_key(key, "noise"))',
        (T_RULES,),
    ),
    Fault(
        "G20-fresh-keys-of-32-bits",
        RANDOM,
        "return os.urandom(KEY_BYTES)",
        "return os.urandom(4).ljust(KEY_BYTES, b'0')",
        (T_RANDOM, T_RULES),
    ),
    Fault(
        "G20-seeds-of-32-bits",
        RANDOM,
        "label = int(random_state)",
        "label = int(random_state) % 2**32",
        (T_RANDOM, T_RULES),
    ),
    Fault(
        "G20-streams-of-32-bit-keys",
        RANDOM,
        "Cipher(algorithms.AES(key), ",
        "Cipher(algorithms.AES(key[:4] * 8), ",
        (T_RANDOM,),
    ),
    Fault(
        "G20-report-private-although-seeded",
        REPORT,
        "        if self.seeded:\n",
        "        if False:\n",
        (T_REPORT,),
    ),
    Fault(
        "G20-seed-not-reported",
        RUN,
        "seeded=terms.seeded,",
        "seeded=False,",
        (T_RULES,),
    ),
    # --- protocol -----------------------------------------------------------------------------
    Fault(
        "G16-replay-allowed",
        PROTOCOL,
        "if binding.release == number and known == request:",
        "if binding.release <= number:",
        (T_PROTOCOL,),
    ),
    Fault(
        "G16-opens-as-often-as-asked",
        PARTY,
        '        self._log.store("open", task.binding, asked, to_bytes(opening))\n',
        "",
        (T_RULES,),
    ),
    Fault(
        "G16-own-contribution-not-checked",
        PROTOCOL,
        "if own not in request.included:",
        "if False:",
        (T_PROTOCOL,),
    ),
    Fault(
        "G16-paillier-party-opens-anything",
        PAILLIER,
        "        check_own(task, own, request)\n",
        "",
        (T_PAILLIER, T_KEYS),
    ),
    Fault(
        "G16-two-answers-of-one-party",
        PROTOCOL,
        "if answer.sender in seen:",
        "if False:",
        (T_PROTOCOL,),
    ),
    Fault(
        "G19-other-terms-accepted-by-the-server",
        PROTOCOL,
        "if message.binding.terms != binding.terms:",
        "if False:",
        (T_PROTOCOL,),
    ),
    Fault(
        "G19-other-terms-accepted-by-a-party",
        PARTY,
        "if ask.binding != bound:",
        "if ask.binding.release != bound.release:",
        (f"{T_RUN}::test_a_party_refuses_repeated_disordered_and_foreign_requests",),
    ),
    Fault(
        "G19-answers-to-other-requests-accepted",
        PROTOCOL,
        "if message.answers != answers:",
        "if False:",
        (T_PROTOCOL,),
    ),
    Fault("G19-trailing-bytes-accepted", WIRE, "if end != len(data):", "if False:", (T_WIRE,)),
    Fault("G19-other-forms-accepted", WIRE, "if to_bytes(value) != data:", "if False:", (T_WIRE,)),
    Fault(
        "G19-other-types-accepted",
        WIRE,
        "if not _matches(value, hints[field.name]):",
        "if False:",
        (T_WIRE,),
    ),
    Fault(
        "G19-nan-on-the-wire",
        WIRE,
        'raise ValueError("NaN cannot be sent.")',
        "pass",
        (T_WIRE,),
    ),
    Fault(
        "G18-blinding-too-short",
        KEYS,
        "return -(-self.key_size // 16)",
        "return -(-self.key_size // 64)",
        (f"{T_KEYS}::test_exponents_have_half_the_bits_of_the_key_and_are_drawn_at_once",),
    ),
    Fault(
        "G18-no-blinding",
        ARITHMETIC,
        "exponents = draw(entropy, len(plaintexts) * step)",
        "exponents = bytes(len(plaintexts) * step)",
        (f"{T_KEYS}::test_two_encryptions_of_the_same_words_differ_in_every_number",),
    ),
    Fault(
        "G18-one-collusion-opens-alone",
        PAILLIER,
        "lowest = max(1, n_parties - min_honest) + 1",
        "lowest = max(1, n_parties - min_honest)",
        (T_PAILLIER, T_KEYS),
    ),
    Fault(
        "G18-small-keys-accepted",
        KEYS,
        "if key_size < SECURE_KEY_SIZE and not insecure_key:",
        "if False:",
        (T_PAILLIER, T_KEYS),
    ),
    Fault(
        "G18-a-lone-ciphertext-is-opened",
        PAILLIER,
        "if len(request.included) < 2:",
        "if len(request.included) < 1:",
        (T_PAILLIER, T_KEYS),
    ),
    Fault(
        "G19-wrong-openings-not-noticed",
        ARITHMETIC,
        "if any(power % n != 1 for power in powers):",
        "if False:",
        (T_PAILLIER, T_KEYS),
    ),
    Fault(
        "G12-slots-too-narrow",
        PACKING,
        "largest = all_biases + max(all_biases, task.limit)",
        "largest = all_biases",
        (T_PACKING,),
    ),
    Fault(
        "G12-words-too-long-accepted",
        PROTOCOL,
        "if needed > WORD_BITS:",
        "if needed > 2 * WORD_BITS:",
        (f"{T_RUN}::test_an_overflow_is_refused_before_anything_is_charged", T_PROTOCOL),
    ),
    # --- tree ---------------------------------------------------------------------------------
    Fault(
        "G7-what-is-unknown-is-counted",
        HISTOGRAM,
        "counted = (cell >= 0) & sound[:, None]",
        "counted = cell >= 0",
        (T_HISTOGRAM,),
    ),
    Fault(
        "G7-weights-not-in-the-bound",
        HISTOGRAM,
        "return int((self._n_asked * self.weight**2).max(initial=1))",
        "return int(self._n_asked.max(initial=1))",
        (T_HISTOGRAM,),
    ),
    Fault(
        "G7-weights-not-in-the-absolute-bound",
        HISTOGRAM,
        "return int((self._n_asked * self.weight).max(initial=1))",
        "return int(self._n_asked.max(initial=1))",
        (T_HISTOGRAM,),
    ),
    Fault(
        "G7-features-share-cells",
        HISTOGRAM,
        "if (lowest != highest).any():",
        "if False:",
        (T_HISTOGRAM,),
    ),
    Fault(
        "G3-rows-counted-without-noise",
        TREE,
        "n_rows = float(run.release(RowCount(), COUNT_SHARE)[0])",
        "n_rows = float(sum(len(party._X) for party in run._parties.values()))",
        (f"{T_TREE}::test_the_report_bills_the_plan_and_says_who_saw_what",),
    ),
    Fault(
        "G3-no-warning-for-facts-from-rows",
        FACTS,
        "        if self.names:\n",
        "        if False:\n",
        (f"{T_TREE}::test_undeclared_facts_are_named_once_with_the_line_to_paste",),
    ),
    Fault(
        "G3-facts-from-rows-not-reported",
        RUN,
        'proved="no" if not proved else "conditional" if facts else "yes"',
        'proved="no" if not proved else "yes"',
        (f"{T_TREE}::test_undeclared_facts_are_named_once_with_the_line_to_paste",),
    ),
    Fault(
        "G3-facts-of-other-machines-taken",
        FACTS,
        "        if not self.local:\n",
        "        if False:\n",
        (T_RULES,),
    ),
    Fault(
        "G24-raw-count-kept",
        TREE,
        "        self.privacy_ = run.report(facts.names)\n",
        "        self.privacy_ = run.report(facts.names)\n"
        "        self.n_samples_seen_ = sum(len(X) for X, _ in federation.rows)\n",
        (T_RULES,),
    ),
    Fault(
        "G24-run-kept-with-its-rows",
        TREE,
        "        self.privacy_ = run.report(facts.names)\n",
        "        self.privacy_ = run.report(facts.names)\n        self._run = run\n",
        (T_RULES,),
    ),
    Fault(
        "G24-score-on-parties",
        ESTIMATOR,
        "if isinstance(X, Federation) or looks_like_parties(X):\n            raise TypeError(\n",
        "if False:\n            raise TypeError(\n",
        (f"{T_TREE}::test_score_of_parties_names_the_way_out",),
    ),
    Fault(
        "G24-text-of-a-foreign-error",
        PARTY,
        'f"with a {type(error).__name__}."',
        'f"with a {error!r}."',
        (f"{T_RUN}::test_a_failing_party_is_named_without_its_rows",),
    ),
    Fault(
        "G24-cause-of-a-foreign-error",
        PARTY,
        "        ) from None\n",
        "        ) from error\n",
        (f"{T_RULES}::test_G24_a_traceback_of_a_failing_party_quotes_no_row",),
    ),
    # --- reports ------------------------------------------------------------------------------
    Fault(
        "G2-add-or-remove-not-doubled",
        REPORT,
        "epsilon=2 * report.epsilon,",
        "epsilon=report.epsilon,",
        (T_REPORT,),
    ),
    Fault(
        "G1-colluders-of-the-wrong-fit",
        REPORT,
        "min_honest=n_parties - min(r.n_parties - r.min_honest for r in reports)",
        "min_honest=n_parties - max(r.n_parties - r.min_honest for r in reports)",
        (T_REPORT,),
    ),
    Fault(
        "G2-servers-own-line-under-plain-sums",
        TERMS,
        "if self.secure_sum.hides_parties or len(self.parties) == 1:",
        "if True:",
        (f"{T_RUN}::test_the_servers_own_line_under_plain_sums_is_that_of_one_share",),
    ),
]
