"""The one door to torch and skorch, opened only by what needs them.

* ``_net``: build a net, its parameters as one flat vector, its fingerprint;
* ``_layers``: per-example gradients of common layers, without one backward pass a row;
* ``_known``: of which nets it is known that rows stand by themselves;
* ``_methods``: per-example gradients of any net, in three ways;
* ``_gradients``: the sum of clipped per-example gradients, and the bound on its float error;
* ``_independence``, ``_sizes``, ``_synthetic``: the checks of a net before it sees a row (G7);
* ``_local``: the net as each party holds it, on one thread;
* ``modules``: the networks of the papers.
"""

try:
    import skorch  # noqa: F401
    import torch  # noqa: F401
except ImportError as missing:
    raise ImportError(
        "Neural networks need torch and skorch, which are not installed here: "
        "pip install 'sklearn-fedpriv[torch]'."
    ) from missing

from sklearn_fedpriv._torch._gradients import Plan, clipped_gradient_sum, sum_error
from sklearn_fedpriv._torch._independence import check_row_independence
from sklearn_fedpriv._torch._local import (
    LocalNet,
    apply_gradient,
    one_thread,
    output_shape,
)
from sklearn_fedpriv._torch._methods import example_losses
from sklearn_fedpriv._torch._net import (
    build_net,
    fingerprint,
    get_flat,
    parameter_names,
    parameter_shapes,
    set_flat,
)
from sklearn_fedpriv._torch._synthetic import rows_read, synthetic_rows, token_limit

__all__ = [
    "LocalNet",
    "Plan",
    "apply_gradient",
    "build_net",
    "check_row_independence",
    "clipped_gradient_sum",
    "example_losses",
    "fingerprint",
    "get_flat",
    "one_thread",
    "output_shape",
    "parameter_names",
    "parameter_shapes",
    "rows_read",
    "set_flat",
    "sum_error",
    "synthetic_rows",
    "token_limit",
]
