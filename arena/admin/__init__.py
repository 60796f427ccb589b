"""The Django admin of this app."""

from arena.admin import catalog, people

__all__ = ["catalog", "people"]
