"""Faults in the search and the score: what parties vote, what it costs, what is kept."""

from tests.mutants.faults.fault import Fault

VOTES = "sklearn_fedpriv/model_selection/_votes.py"
TWIN = "sklearn_fedpriv/model_selection/_twin.py"
BASE = "sklearn_fedpriv/model_selection/_base.py"
ODDS = "sklearn_fedpriv/model_selection/_odds.py"
REFIT = "sklearn_fedpriv/model_selection/_refit.py"
SCORE = "sklearn_fedpriv/metrics/_federated_score.py"
PRINT = "sklearn_fedpriv/federation/_fingerprint.py"
PARTY = "sklearn_fedpriv/federation/_party.py"
CEILING = "sklearn_fedpriv/privacy/_ceiling.py"

T_VOTES = "tests/model_selection/test_votes.py"
T_TWIN = "tests/model_selection/test_twin.py"
T_SEARCH = "tests/model_selection/test_search.py"
T_SCORE = "tests/metrics/test_federated_score.py"

FAULTS = [
    Fault(
        "G22-number-of-votes-not-enforced",
        VOTES,
        "or votes.sum() != self.n_votes",
        "or votes.sum() > self.n_candidates",
        (f"{T_VOTES}::test_G22_a_party_casts_exactly_k_distinct_votes_whatever_it_computed",),
    ),
    Fault(
        "G22-several-votes-for-one-candidate",
        VOTES,
        "or not np.isin(votes, (0, 1)).all()",
        "",
        (f"{T_VOTES}::test_G22_a_party_casts_exactly_k_distinct_votes_whatever_it_computed",),
    ),
    Fault(
        "G22-votes-for-all-allowed",
        VOTES,
        "if not 1 <= self.n_votes < self.n_candidates:",
        "if not 1 <= self.n_votes <= self.n_candidates:",
        (f"{T_VOTES}::test_G22_votes_for_all_and_for_none_are_refused",),
    ),
    Fault(
        "G22-ties-by-index",
        VOTES,
        "np.lexsort((stream.uint64(len(scores)),",
        "np.lexsort((np.arange(len(scores)),",
        (f"{T_VOTES}::test_ties_are_broken_by_the_partys_secret_bits",),
    ),
    Fault(
        "G22-failed-candidates-rank-first",
        VOTES,
        "-np.where(last, 0, scores), last))",
        "-np.where(last, 0, scores), ~last))",
        (f"{T_VOTES}::test_the_best_get_the_votes_and_failed_ones_rank_last",),
    ),
    Fault(
        "G22-bound-of-one-comparison",
        VOTES,
        "quantile * 2**0.5 * sd",
        "quantile * sd",
        (f"{T_VOTES}::test_G22_the_selection_bound_holds_and_counts_every_share",),
    ),
    Fault(
        "G22-bound-with-the-noise-of-m-shares",
        BASE,
        "        sd = run.noise_sd(squared, squared, Fraction(1))\n",
        "        sd = run.noise_sd(squared, squared, Fraction(1))\n"
        "        sd *= (run.terms.unknown_shares / run.n_parties) ** 0.5\n",
        (f"{T_SEARCH}::test_the_bound_counts_the_noise_of_all_shares",),
    ),
    Fault(
        "G2-one-candidate-differs-each-way",
        VOTES,
        "return 2 * min(self.n_votes, self.n_candidates - self.n_votes)",
        "return min(self.n_votes, self.n_candidates - self.n_votes)",
        (f"{T_VOTES}::test_the_sensitivity_is_the_largest_distance_of_two_votes",),
    ),
    Fault(
        "G2-few-left-out-cost-nothing-when-a-party-comes",
        VOTES,
        "        return self.n_votes\n\n    def sensitivity",
        "        return min(self.n_votes, self.n_candidates - self.n_votes)\n\n    def sensitivity",
        (f"{T_VOTES}::test_the_sensitivity_is_the_largest_distance_of_two_votes",),
    ),
    Fault(
        "G2-the-unit-of-a-search-is-a-record",
        VOTES,
        "    integral = True\n    n_candidates",
        '    integral = True\n    unit = "record"\n    n_candidates',
        (f"{T_SEARCH}::test_the_candidate_that_all_parties_prefer_is_chosen",),
    ),
    Fault(
        "G6-local-fits-before-the-charge",
        BASE,
        "        check_cost(federation, *self._cost_with(candidates))\n",
        "        [code.score(0, *r) for r in federation.rows]\n"
        "        check_cost(federation, *self._cost_with(candidates))\n",
        (f"{T_SEARCH}::test_G6_nothing_runs_in_a_party_before_everybody_is_charged",),
    ),
    Fault(
        "G14-twins-under-the-ceiling",
        CEILING,
        "    if _inside_a_party.get():\n        return\n",
        "",
        (f"{T_SEARCH}::test_G14_local_fits_are_charged_nowhere",),
    ),
    Fault(
        "G14-no-ceiling-after-local-work",
        CEILING,
        "        _inside_a_party.reset(token)",
        "        pass",
        (f"{T_TWIN}::test_a_ceiling_holds_again_outside_of_local_work",),
    ),
    Fault(
        "G14-twins-in-worker-processes",
        TWIN,
        'with inside_a_party(), parallel_config(backend="sequential"), silence():',
        "with inside_a_party(), silence():",
        (f"{T_TWIN}::test_local_work_warns_of_nothing_and_makes_no_process",),
    ),
    Fault(
        "G9-twins-keep-the-trust-of-many",
        TWIN,
        "            changes |= {",
        "            _ = {",
        (f"{T_TWIN}::test_every_federated_step_of_a_twin_fits_one_party",),
    ),
    Fault(
        "G24-callbacks-see-rows",
        TWIN,
        '        vars(step).pop("_skl_callbacks", None)\n',
        "",
        (f"{T_TWIN}::test_callbacks_are_gone_and_frozen_steps_stay",),
    ),
    Fault(
        "G24-text-of-a-local-error",
        TWIN,
        "return Failure(type(error).__name__)",
        "return Failure(repr(error))",
        (f"{T_SEARCH}::test_G24_a_party_in_which_all_fail_is_named_without_the_errors_text",),
    ),
    Fault(
        "G24-warnings-of-local-fits",
        TWIN,
        'parallel_config(backend="sequential"), silence():',
        'parallel_config(backend="sequential"):',
        (f"{T_TWIN}::test_local_work_warns_of_nothing_and_makes_no_process",),
    ),
    Fault(
        "G24-warnings-of-answers",
        PARTY,
        "with one_thread(), silence():",
        "with one_thread():",
        (f"{T_SCORE}::test_G24_a_model_warns_nobody_of_rows",),
    ),
    Fault(
        "G24-exits-of-local-fits",
        TWIN,
        "        except BaseException as error:  # its text",
        "        except Exception as error:  # its text",
        (f"{T_SEARCH}::test_G24_a_party_in_which_all_fail_is_named_without_the_errors_text",),
    ),
    Fault(
        "G21-folds-by-a-generator",
        TWIN,
        'if not isinstance(getattr(cv, "random_state", 0), Integral):',
        'if getattr(cv, "random_state", 0) is None:',
        (f"{T_SEARCH}::test_G21_folds_do_not_hang_on_who_came_before",),
    ),
    Fault(
        "G24-local-scores-kept",
        BASE,
        '    results["noisy_votes"] = noisy_votes\n',
        '    results["noisy_votes"] = noisy_votes\n    results["mean_test_score"] = noisy_votes\n',
        (f"{T_SEARCH}::test_G24_nothing_in_a_fitted_search_is_a_local_score",),
    ),
    Fault(
        "G6-pooled-rows-not-charged",
        BASE,
        "            if not takes_federations(best):\n                charge_pooling(federation)\n",
        "",
        (f"{T_SEARCH}::test_G6_pooled_rows_cost_everything_and_are_charged_first",),
    ),
    Fault(
        "G4-pooled-refit-called-private",
        REFIT,
        "    if unprotected:\n",
        "    if False:\n",
        (f"{T_SEARCH}::test_a_refit_without_privacy_makes_the_whole_report_say_so",),
    ),
    Fault(
        "G2-refit-not-on-the-bill",
        BASE,
        "        self.privacy_ = bill(selection, self.best_estimator_)\n",
        "        self.privacy_ = selection\n",
        (f"{T_SEARCH}::test_the_refit_runs_on_the_same_federation_and_both_are_charged",),
    ),
    Fault(
        "G2-deep-steps-not-on-the-bill",
        REFIT,
        "    return [inner for step in real for inner in steps_of(step)]",
        "    return real",
        (f"{T_SEARCH}::test_G2_a_step_is_on_the_bill_however_deep_it_stands",),
    ),
    Fault(
        "G4-a-failed-refit-leaves-a-promise",
        BASE,
        "        selection, self.privacy_ = self.privacy_, void(self.privacy_)\n",
        "        selection = self.privacy_\n",
        (f"{T_SEARCH}::test_a_refit_that_fails_leaves_a_report_that_promises_nothing",),
    ),
    Fault(
        "G6-the-refit-is-refused-after-the-vote",
        BASE,
        "        check_cost(federation, *self._cost_with(candidates))\n",
        "",
        (f"{T_SEARCH}::test_G6_a_search_whose_dearest_refit_is_not_allowed_asks_nobody",),
    ),
    Fault(
        "G6-the-first-refit-stands-for-all",
        BASE,
        "_distinct(candidates, but=_COSTLY)",
        "_distinct(candidates)",
        (f"{T_SEARCH}::test_G6_a_search_whose_dearest_refit_is_not_allowed_asks_nobody",),
    ),
    Fault(
        "G14-a-question-is-reserved",
        CEILING,
        "            if not keep:\n                database.rollback()\n",
        "",
        (f"{T_SEARCH}::test_G6_a_search_whose_dearest_refit_is_not_allowed_asks_nobody",),
    ),
    Fault(
        "G19-search-without-fingerprint",
        TWIN,
        "        return fingerprint_of(\n"
        "            self.estimator, list(self.candidates), self.scoring, self.cv, "
        "self.error_score\n"
        "        )\n",
        '        return b""\n',
        (f"{T_SEARCH}::test_G19_the_terms_name_the_code",),
    ),
    Fault(
        "G19-parameters-not-in-the-fingerprint",
        PRINT,
        "return (name, self(value.get_params(deep=False)))",
        "return (name,)",
        (f"{T_TWIN}::test_G19_a_fingerprint_differs_with_class_parameters_and_versions",),
    ),
    Fault(
        "G24-failing-party-without-its-name-only",
        PARTY,
        'failure = LocalFailure(f"Party {job.side.name!r}: {error}")',
        "failure = error",
        (f"{T_SEARCH}::test_G24_a_party_in_which_all_fail_is_named_without_the_errors_text",),
    ),
    Fault(
        "odds-against-half-of-the-noise",
        ODDS,
        "squared, squared).sd(self.n_parties)",
        "squared, squared).sd(1)",
        (f"{T_VOTES}::test_the_chance_of_a_unanimous_candidate",),
    ),
    Fault(
        "G7-scores-by-neighbours",
        SCORE,
        "if n_rows_of(X) and type(model) in _BY_ROW:",
        "if n_rows_of(X):",
        (f"{T_SCORE}::test_G7_a_model_that_looks_at_other_rows_sees_none",),
    ),
    Fault(
        "G7-subclasses-trusted-as-ours",
        SCORE,
        "type(model) in _BY_ROW:",
        "isinstance(model, _BY_ROW):",
        (f"{T_SCORE}::test_our_own_steps_that_work_by_value_predict_together",),
    ),
    Fault(
        "G24-text-of-a-failing-prediction",
        SCORE,
        "        kind = type(error).__name__\n",
        "        kind = repr(error)\n",
        (f"{T_SCORE}::test_G24_a_failing_prediction_names_the_party_and_not_its_rows",),
    ),
    Fault(
        "wrong-predictions-left-out",
        SCORE,
        "np.where(X[:, 1] < 0, self.n_classes, X[:, 1])",
        "np.where(X[:, 1] < 0, X[:, 0], X[:, 1])",
        (f"{T_SCORE}::test_a_prediction_outside_the_classes_is_wrong",),
    ),
    Fault(
        "G19-another-fitted-model",
        SCORE,
        "self.classes, learned=True)",
        "self.classes)",
        (f"{T_SCORE}::test_another_fitted_model_has_another_fingerprint",),
    ),
    Fault(
        "G19-closures-not-in-the-fingerprint",
        PRINT,
        "value.__kwdefaults__, cells)",
        "value.__kwdefaults__)",
        (f"{T_TWIN}::test_G19_a_fingerprint_differs_with_class_parameters_and_versions",),
    ),
    Fault(
        "G7-targets-beyond-their-bounds",
        SCORE,
        "inside = np.clip(np.nan_to_num(X), self.low, self.high)",
        "inside = np.nan_to_num(X)",
        (f"{T_SCORE}::test_G7_moments_are_held_to_their_bound",),
    ),
]
