"""Faults in the fit: what parties, server, terms and wire do with a release."""

from tests.mutants.faults.fault import Fault

QUERY = "sklearn_fedpriv/federation/_query.py"
PARTY = "sklearn_fedpriv/federation/_party.py"
RUN = "sklearn_fedpriv/federation/_run.py"
TERMS = "sklearn_fedpriv/federation/_terms.py"
FEDERATION = "sklearn_fedpriv/federation/_federation.py"
MESSAGES = "sklearn_fedpriv/federation/_messages.py"
ESTIMATOR = "sklearn_fedpriv/federation/_estimator.py"
FACTS = "sklearn_fedpriv/federation/_public_facts.py"
WIRE = "sklearn_fedpriv/_wire.py"

T_FACTS = "tests/federation/test_public_facts.py"
T_RUN = "tests/federation/test_run.py"
T_CEILING = "tests/privacy/test_ceiling.py"
T_WIRE = "tests/test_wire.py"
T_TREE = "tests/tree/test_decision_tree.py"
T_RULES = "tests/test_guarantees.py"
T_AUDIT = "tests/statistical/test_audit.py"
T_SPREAD = "tests/statistical/test_tree_privacy.py"
SPREAD = f"{T_SPREAD}::test_every_released_number_has_the_spread_that_theory_says"
PREDICTED = f"{T_RUN}::test_the_noise_of_a_release_has_the_predicted_spread"
T_MASK_FEDERATION = "tests/secure/test_masks_federation.py"

FAULTS = [
    # bounds
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
        "G2-replacing-costs-twice-not-four-times",
        QUERY,
        'return self.squared_norm * (4 if adjacency == "replace" else 1)',
        'return self.squared_norm * (2 if adjacency == "replace" else 1)',
        (f"{T_RUN}::test_replacing_a_record_costs_twice_the_sensitivity",),
    ),
    # order of a release
    Fault(
        "G5-no-noise",
        PARTY,
        "noisy = noisy + job.query.noise(job.noise",
        "noisy = noisy + 0 * job.query.noise(job.noise",
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
        "noisy = ticks * job.noise.scale",
        "noisy = ticks",
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
    # shares
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
        "G10-lattice-noise-charged-in-full",
        TERMS,
        "LOST = 3",
        "LOST = 0",
        (f"{T_RUN}::test_shares_are_sized_by_those_nobody_else_knows",),
    ),
    Fault(
        "G10-charged-less-than-it-costs",
        TERMS,
        "mu_squared = squared * scale**2 / (m * variance - LOST)",
        "mu_squared = squared * scale**2 / (m * variance)",
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
    # accounting
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
        "jobs = [self._parties[party].charge(ask) for party in task.parties]",
        "jobs = (self._parties[party].charge(ask) for party in task.parties)",
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
        "G14-ceilings-stay-behind",
        ESTIMATOR,
        'return {**state, "_ceilings": ceilings} if ceilings else state',
        "return state",
        (f"{T_CEILING}::test_the_state_of_a_pickle_carries_the_ceiling_only_while_it_is_in_force",),
    ),
    # randomness
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
        "G20-seed-not-reported",
        RUN,
        "seeded=terms.seeded,",
        "seeded=False,",
        (T_RULES,),
    ),
    # protocol
    Fault(
        "G16-opens-as-often-as-asked",
        PARTY,
        '        self._log.store("open", task.binding, asked, to_bytes(opening))\n',
        "",
        (T_RULES,),
    ),
    Fault(
        "G19-other-code-accepted-by-a-party",
        PARTY,
        "if fingerprint(code) != terms.code:",
        "if False:",
        (f"{T_RUN}::test_a_party_joins_only_terms_with_the_code_that_it_built",),
    ),
    Fault(
        "G19-other-terms-accepted-by-a-party",
        PARTY,
        "if ask.binding != bound:",
        "if ask.binding.release != bound.release:",
        (f"{T_RUN}::test_a_party_refuses_repeated_disordered_and_foreign_requests",),
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
    # tree
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
        "G24-score-on-parties",
        ESTIMATOR,
        "if isinstance(X, Federation) or looks_like_parties(X):\n            raise TypeError(\n",
        "if False:\n            raise TypeError(\n",
        (f"{T_TREE}::test_score_of_parties_names_the_way_out",),
    ),
    Fault(
        "G24-text-of-a-foreign-error",
        PARTY,
        'with a {type(error).__name__}."',
        'with a {error!r}."',
        (f"{T_RUN}::test_a_failing_party_is_named_without_its_rows",),
    ),
    Fault(
        "G24-silence-for-good",
        PARTY,
        "        _thread.silent -= 1\n",
        "        pass\n",
        (f"{T_RUN}::test_G24_silence_is_of_one_thread_and_leaves_nothing_behind",),
    ),
    Fault(
        "G24-silence-of-all-threads",
        PARTY,
        'return getattr(_thread, "silent", 0) > 0',
        "return True",
        (f"{T_RUN}::test_G24_silence_is_of_one_thread_and_leaves_nothing_behind",),
    ),
    Fault(
        "G7-labels-compared-by-spelling",
        FACTS,
        "    values = np.asarray(labels, dtype=object).ravel().tolist()\n",
        "    values = np.asarray(labels).ravel().tolist()\n",
        (f"{T_FACTS}::test_G7_one_text_among_labels_recodes_nobody",),
    ),
    Fault(
        "G7-dates-in-the-finest-unit",
        FACTS,
        'if kinds & {"m", "M"}:',
        "if False:",
        (f"{T_FACTS}::test_G7_dates_have_no_unit_and_are_refused",),
    ),
    Fault(
        "G7-lists-with-one-text-are-texts",
        FACTS,
        "table = np.asarray(table, dtype=object) if kind",
        "table = np.asarray(table) if kind",
        (f"{T_FACTS}::test_G7_cells_of_a_list_keep_their_types",),
    ),
    Fault(
        "G24-errors-behind-one-of-ours",
        PARTY,
        "        failure.__cause__ = failure.__context__ = None\n",
        "",
        (f"{T_RUN}::test_G24_nothing_stands_behind_an_error_of_ours",),
    ),
    Fault(
        "G7-texts-coded-as-their-array-prints",
        FACTS,
        '    if text in ("True", "False"):',
        '    return text\n    if text in ("True", "False"):',
        (f"{T_FACTS}::test_G7_a_code_does_not_hang_on_how_other_values_are_stored",),
    ),
    Fault(
        "G7-floats-printed-at-their-own-width",
        FACTS,
        '    if values.dtype.kind == "f":\n',
        "    if False:\n",
        (f"{T_FACTS}::test_G7_large_floats_are_coded_by_value_not_by_how_they_print",),
    ),
    Fault(
        "G24-cause-of-a-foreign-error",
        PARTY,
        "    raise failure\n",
        "        raise failure from error\n    raise failure\n",
        (f"{T_RULES}::test_G24_a_traceback_of_a_failing_party_quotes_no_row",),
    ),
    # reports
    Fault(
        "G2-servers-own-line-under-plain-sums",
        TERMS,
        'if hidden or len(self.parties) == 1 or self.budget.mechanism == "metric":',
        "if True:",
        (f"{T_RUN}::test_the_servers_own_line_under_plain_sums_is_that_of_one_share",),
    ),
    # masks
    Fault(
        "G15-the-same-nonces-in-every-fit",
        FEDERATION,
        "side.greet(os.urandom)",
        "side.greet(bytes)",
        (f"{T_MASK_FEDERATION}::test_no_two_fits_of_a_federation_share_nonces",),
    ),
    Fault(
        "G15-a-federation-without-colluders",
        FEDERATION,
        "names, federation.min_honest, federation.max_dropouts, os.urandom",
        "names, len(names), federation.max_dropouts, os.urandom",
        (f"{T_MASK_FEDERATION}::test_a_federations_keys_say_how_many_may_collude",),
    ),
]
