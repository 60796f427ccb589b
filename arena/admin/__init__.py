"""The Django admin of this app."""

from arena.admin import catalog, holds, teams

__all__ = ["catalog", "holds", "teams"]
