"""A file of votes, ranked as it lies there: read, fitted and put in words without a database."""

from ranking.files.board import CLUSTERS, FileBoard, Settings, rank_votes
from ranking.files.reading import KINDS, BadFile, FileVotes, read_file
from ranking.files.words import as_json, as_table

__all__ = [
    "CLUSTERS",
    "KINDS",
    "BadFile",
    "FileBoard",
    "FileVotes",
    "Settings",
    "as_json",
    "as_table",
    "rank_votes",
    "read_file",
]
