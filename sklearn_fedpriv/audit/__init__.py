"""Attacks, as illustrations of what can leak: that one fails is no guarantee."""

from sklearn_fedpriv.audit._gradients import RebuiltRecord, rebuild_record, sanitise_layers

__all__ = ["RebuiltRecord", "rebuild_record", "sanitise_layers"]
