"""What came of rows that were brought in: how many went in, and which ones did not, in words."""

from dataclasses import dataclass, field

from arena.files.tables import Problem


@dataclass
class UploadReport:
    """What an upload did. `written` is false where one bad row kept all of them out.

    `unmatched` rows name a prompt that the arena does not have, `refused` ones cannot go in.
    `missing` are the ids of the active prompts that the candidate has not answered yet.
    """

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    written: bool = True
    unmatched: list[Problem] = field(default_factory=list)
    refused: list[Problem] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[Problem]:
        """All rows that did not go in, in the order in which they came."""
        return sorted([*self.unmatched, *self.refused], key=lambda problem: problem.row)

    def keep_out(self) -> None:
        """Note that nothing was written, because `problems` were found."""
        self.written = False
        self.added = self.changed = 0
