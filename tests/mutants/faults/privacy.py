"""Faults in what proves and spends a budget: bounds, noise, tails, ledgers, reports."""

from tests.mutants.faults.fault import Fault

CLIP = "sklearn_fedpriv/privacy/_clip.py"
LATTICE = "sklearn_fedpriv/privacy/_fixed_point.py"
CALIBRATION = "sklearn_fedpriv/privacy/_calibration.py"
LEDGER = "sklearn_fedpriv/privacy/_ledger.py"
CEILING = "sklearn_fedpriv/privacy/_ceiling.py"
RANDOM = "sklearn_fedpriv/privacy/_randomness.py"
NOISE = "sklearn_fedpriv/privacy/_noise.py"
TAILS = "sklearn_fedpriv/privacy/_tails.py"
REPORT = "sklearn_fedpriv/privacy/_report.py"

T_CLIP = "tests/privacy/test_clip_and_fixed_point.py"
T_LEDGER = "tests/privacy/test_ledger.py"
T_CEILING = "tests/privacy/test_ceiling.py"
T_CALIBRATION = "tests/privacy/test_calibration.py"
T_RANDOM = "tests/privacy/test_randomness.py"
T_TAILS = "tests/privacy/test_tails.py"
T_REPORT = "tests/privacy/test_report.py"
T_LAWS = "tests/statistical/test_noise_laws.py"
T_RULES = "tests/test_guarantees.py"

FAULTS = [
    # bounds
    Fault(
        "G7-nan-passes-the-clip",
        CLIP,
        "np.where(np.isfinite(rows), rows, 0.0)",
        "np.where(True, rows, 0.0)",
        (T_CLIP,),
    ),
    Fault(
        "G7-clip-depends-on-neighbours",
        CLIP,
        "np.ascontiguousarray(rows, dtype=np.float64)",
        "np.asarray(rows, dtype=np.float64)",
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
    # order of a release
    Fault(
        "G12-tail-too-small",
        TAILS,
        "up.log(gmpy2.mpz(2)), 2 * (k + 1))",
        "up.log(gmpy2.mpz(2)), k + 1)",
        (T_TAILS,),
    ),
    # shares
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
    # accounting
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
        "        if self._step is not None or not isinstance(event, self._kind):",
        "        if not isinstance(event, self._kind):\n            return Fraction(0)\n"
        "        if not isinstance(event, self._kind):",
        (T_LEDGER,),
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
    # randomness
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
    # reports
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
]
