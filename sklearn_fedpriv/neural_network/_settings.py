"""What a skorch net may bring along, and what has another name here."""

from typing import Any

# skorch's arguments that mean nothing here: what to set instead.
_NOT_USED = {
    "max_epochs": "n_rounds says how many releases there are",
    "batch_size": "sampling_rate says how large a sample is on average",
    "train_split": "no row is held out; watch public rows by yourself",
    "callbacks": "callbacks could see rows; verbose=1 prints a line a release",
    "warm_start": "each fit starts anew and pays for itself",
    "iterator_train": "samples are drawn inside the parties, at sampling_rate",
}


def check_settings(net: Any, owner: str) -> None:
    """Refuse a skorch net with settings that would be ignored.

    Parameters
    ----------
    net : NeuralNet or class of nn.Module
    owner : str
        Name of the estimator's class.
    """
    if isinstance(net, type) or not hasattr(net, "get_params"):
        return
    fresh = type(net)(net.module).get_params(deep=False)
    given = net.get_params(deep=False)
    for name, instead in _NOT_USED.items():
        if name in given and not _same(given[name], fresh[name], name):
            raise ValueError(
                f"{owner} does not use {name}={given[name]!r:.80} of its net: {instead}. Leave "
                f"{name} at its default."
            )


def _same(given: Any, default: Any, name: str) -> bool:
    if given is default or (name == "train_split" and given is None):
        return True
    if name == "callbacks" and (given == "disable" or given == []):
        return True
    if isinstance(default, bool | int):
        return bool(given == default)
    # A clone has an equal object, not the same one.
    return type(given) is type(default) and getattr(given, "__dict__", 0) == getattr(
        default, "__dict__", 1
    )
