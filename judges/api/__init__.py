"""The REST API of this floor: runs of judges, and a team's decision. `arena.api` says how."""
