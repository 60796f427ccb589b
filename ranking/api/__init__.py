"""The REST API of this floor: boards, snapshots, battles and exports. `arena.api` says how."""
