"""The Django admin of this app."""

from arena.admin import catalog, teams

__all__ = ["catalog", "teams"]
