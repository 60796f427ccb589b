"""Running tallies as arrays: what votes add up to, packed into few bytes for the database."""

from ranking.tallies.cells import COUNTS, UNIT, Cells
from ranking.tallies.evidence import clustered_battles, clusters_of, outcome_rows, pair_battles
from ranking.tallies.packing import BadPack, pack, unpack

__all__ = [
    "COUNTS",
    "UNIT",
    "BadPack",
    "Cells",
    "clustered_battles",
    "clusters_of",
    "outcome_rows",
    "pack",
    "pair_battles",
    "unpack",
]
