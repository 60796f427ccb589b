"""Many rows in one request: what each says, and what came of them."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic

from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers

from arena.api.core.errors import Unprocessable
from arena.files.rows import UploadRow
from arena.files.tables import Columns, Problem, refuse_repeated
from arena.services.reports import UploadReport
from arena.validation import InputError, json_type, quoted

ATOMIC = OpenApiParameter(
    "atomic",
    bool,
    description="Refuse all rows with 422 if one cannot go in; false by default.",
)


class RowProblem(serializers.Serializer[Any]):
    """Why a row did not go in; `index` counts from 0."""

    index = serializers.IntegerField()
    pointer = serializers.CharField(help_text="JSON pointer into the body.")
    detail = serializers.CharField()


class ReportShown(serializers.Serializer[Any]):
    """What became of the rows."""

    added = serializers.IntegerField()
    changed = serializers.IntegerField()
    unchanged = serializers.IntegerField()
    refused = RowProblem(many=True)


@dataclass(frozen=True)
class Kind(Generic[UploadRow]):
    """A kind of rows: the body's member that lists them, and what a row may have."""

    member: str
    columns: Columns[UploadRow]

    def read(self, rows: list[Any]) -> tuple[list[UploadRow], list[Problem]]:
        """Return the rows that can be used, and what is wrong with the others."""
        good, bad, seen = list[UploadRow](), list[Problem](), dict[tuple[str, Hashable], int]()
        for index, row in enumerate(rows):
            try:
                parsed = self._parsed(index, row)
                refuse_repeated(index, parsed.key, seen)
                good.append(parsed)
            except InputError as error:
                subject = f"The member {quoted(error.column)}" if error.column else "The row"
                bad.append(Problem(index, error.column or "", f"{subject} {error.reason}."))
        return good, bad

    def _parsed(self, index: int, row: Any) -> UploadRow:
        if not isinstance(row, dict):
            raise InputError(f"is {json_type(row)}, not an object")
        fields = {self.columns.exported.get(name, name): value for name, value in row.items()}
        if len(fields) < len(row):
            raise InputError("names a member twice")
        for name in row:
            if not self.columns.has_member(name):
                raise InputError("is not a member of such a row", name)
        return self.columns.parse(index, fields, {})

    def errors(self, problems: list[Problem]) -> list[dict[str, Any]]:
        """Return what is told of each row that did not go in."""
        return [
            {"index": problem.row, "pointer": self._pointer(problem), "detail": problem.sentence}
            for problem in sorted(problems, key=lambda problem: problem.row)
        ]

    def _pointer(self, problem: Problem) -> str:
        column = problem.column.replace("~", "~0").replace("/", "~1")
        return f"#/{self.member}/{problem.row}" + (f"/{column}" if column else "")


def bring_in(
    kind: Kind[UploadRow],
    rows: list[Any],
    *,
    upsert: Callable[[list[UploadRow], list[Problem]], UploadReport],
) -> dict[str, Any]:
    """Have `upsert` write the rows that can go in, told which could not be read; return the report.

    Raises Unprocessable where one row kept all of them out.
    """
    report = upsert(*kind.read(rows))
    errors = kind.errors(report.problems)
    if not report.written:
        count = "one row" if len(errors) == 1 else f"{len(errors):,} rows"
        raise Unprocessable(f"Nothing was written, because of {count} that cannot go in.", errors)
    counts = {name: getattr(report, name) for name in ("added", "changed", "unchanged")}
    return counts | {"refused": errors, "missing": report.missing}
