"""Faults in the support vector classifier: coded rows, exact sums, plans, the published method."""

from tests.mutants.faults.fault import Fault

ROWS = "sklearn_fedpriv/svm/_rows.py"
QUERIES = "sklearn_fedpriv/svm/_queries.py"
TRAINING = "sklearn_fedpriv/svm/_training.py"
PLANNING = "sklearn_fedpriv/svm/_planning.py"
PUBLISHED = "sklearn_fedpriv/svm/_published.py"
SVC = "sklearn_fedpriv/svm/_svc.py"
MESSAGES = "sklearn_fedpriv/federation/_messages.py"
ENCODER = "sklearn_fedpriv/preprocessing/_public_encoder.py"
SCHEDULES = "sklearn_fedpriv/privacy/_schedules.py"

T_ROWS = "tests/svm/test_rows.py"
T_QUERIES = "tests/svm/test_queries.py"
T_SVC = "tests/svm/test_svc.py"
T_PUBLISHED = "tests/svm/test_published.py"
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
        "np.trunc(size * np.sin(",
        "np.ceil(size * np.sin(",
        (T_ROWS,),
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
    # plan
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
        (T_PUBLISHED,),
    ),
    Fault(
        "G4-parties-not-chosen-take-part",
        PUBLISHED,
        "if tools.party not in self.chosen:",
        "if False:",
        (T_PUBLISHED,),
    ),
    Fault(
        "G4-participation-not-in-the-noise",
        PUBLISHED,
        "participation=n_chosen / n_parties,",
        "participation=1.0,",
        (T_PUBLISHED,),
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
