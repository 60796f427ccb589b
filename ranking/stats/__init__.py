"""The statistics of the boards: a pure core of NumPy and SciPy that knows nothing of Django.

Names are loaded when they are first used, so that importing the package costs no SciPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ranking.stats.battles import Battles
    from ranking.stats.bootstrap import Bootstrap
    from ranking.stats.bradley_terry import BradleyTerry
    from ranking.stats.clusters import Clusters, choose_clusters
    from ranking.stats.connectivity import Status
    from ranking.stats.crosscheck import largest_difference
    from ranking.stats.elo import Elo, EloInterval
    from ranking.stats.intervals import NoInterval
    from ranking.stats.newton import NotConverged
    from ranking.stats.ranks import clear_leader, rank_intervals
    from ranking.stats.sandwich import Sandwich

__all__ = [
    "Battles",
    "Bootstrap",
    "BradleyTerry",
    "Clusters",
    "Elo",
    "EloInterval",
    "NoInterval",
    "NotConverged",
    "Sandwich",
    "Status",
    "choose_clusters",
    "clear_leader",
    "largest_difference",
    "rank_intervals",
]

_HOMES = {
    "Battles": "battles",
    "Bootstrap": "bootstrap",
    "BradleyTerry": "bradley_terry",
    "Clusters": "clusters",
    "Elo": "elo",
    "EloInterval": "elo",
    "NoInterval": "intervals",
    "NotConverged": "newton",
    "Sandwich": "sandwich",
    "Status": "connectivity",
    "choose_clusters": "clusters",
    "clear_leader": "ranks",
    "largest_difference": "crosscheck",
    "rank_intervals": "ranks",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
