"""Uploads of many rows at once."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic

from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers

from arena.api.core.errors import Unprocessable
from arena.files.rows import UploadRow
from arena.files.tables import Columns, Problem, refuse_repeated
from arena.services.responses import UploadReport
from arena.validation import InputError, json_type, quoted

ATOMIC = OpenApiParameter(
    "atomic",
    bool,
    description="Refuse all rows with 422 if any row is invalid; false by default.",
)


class RowProblem(serializers.Serializer[Any]):
    """Why a row was refused; `index` counts from 0."""

    index = serializers.IntegerField()
    pointer = serializers.CharField(help_text="JSON pointer into the body.")
    detail = serializers.CharField()


class ReportShown(serializers.Serializer[Any]):
    """The result of a bulk upload."""

    added = serializers.IntegerField()
    changed = serializers.IntegerField()
    unchanged = serializers.IntegerField()
    refused = RowProblem(many=True)


@dataclass(frozen=True)
class Kind(Generic[UploadRow]):
    """A kind of row: the body's member that lists such rows, and their columns."""

    member: str
    columns: Columns[UploadRow]

    def read(self, rows: list[Any]) -> tuple[list[UploadRow], list[Problem]]:
        """Return the valid rows, and the problems of the others."""
        good, bad, seen = list[UploadRow](), list[Problem](), dict[tuple[str, Hashable], int]()
        for index, row in enumerate(rows):
            try:
                if not isinstance(row, dict):
                    raise InputError(f"is {json_type(row)}, not an object")
                fields = {
                    self.columns.exported.get(name, name): value for name, value in row.items()
                }
                if len(fields) < len(row):
                    raise InputError("contains a member twice")
                for name in row:
                    if not self.columns.has_member(name):
                        raise InputError("is not a known member", name)
                parsed = self.columns.parse(index, fields, {})
                refuse_repeated(index, parsed.key, seen)
                good.append(parsed)
            except InputError as error:
                subject = f"The member {quoted(error.column)}" if error.column else "The row"
                bad.append(Problem(index, error.column or "", f"{subject} {error.reason}."))
        return good, bad

    def errors(self, problems: list[Problem]) -> list[dict[str, Any]]:
        """Return the problems as the API shows them, in the order of the rows."""
        return [
            {"index": problem.row, "pointer": self._pointer_to(problem), "detail": problem.sentence}
            for problem in sorted(problems, key=lambda problem: problem.row)
        ]

    def _pointer_to(self, problem: Problem) -> str:
        column = problem.column.replace("~", "~0").replace("/", "~1")
        return f"#/{self.member}/{problem.row}" + (f"/{column}" if column else "")


def bring_in(
    kind: Kind[UploadRow],
    rows: list[Any],
    *,
    upsert: Callable[[list[UploadRow], list[Problem]], UploadReport],
) -> dict[str, Any]:
    """Have `upsert` write the valid rows, given the problems of the others; return the report.

    Raises Unprocessable if nothing was written because of a refused row.
    """
    report = upsert(*kind.read(rows))
    errors = kind.errors(report.problems)
    if not report.written:
        count = "one row" if len(errors) == 1 else f"{len(errors):,} rows"
        raise Unprocessable(f"Nothing was written, because {count} cannot be added.", errors)
    counts = {name: getattr(report, name) for name in ("added", "changed", "unchanged")}
    return counts | {"refused": errors, "missing": report.missing}
