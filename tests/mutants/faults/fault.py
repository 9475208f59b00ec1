"""What one seeded fault is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One slip: ``old`` becomes ``new`` in ``file``, and one of ``tests`` must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
