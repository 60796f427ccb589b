"""Many rows in one request: what each says, and what came of them."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers

from arena.api.core.problems import Unprocessable
from arena.importers.base import BadRow, kind_of, shown
from arena.services.reports import UploadReport
from arena.uploads import Columns, Given, Problem

R = TypeVar("R")
ATOMIC = OpenApiParameter(
    "atomic",
    bool,
    description="Refuse all rows with 422 if one cannot go in; false unless said.",
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
class Kind(Generic[R]):
    """A kind of rows: the body's member that lists them, and what a row may have.

    `free` names the member of a row that holds further texts by name, if there is one.
    """

    member: str
    columns: Columns[R]
    free: str = ""

    def parsed(self, index: int, row: Any) -> R:
        """Return what a row says; raises BadRow."""
        if not isinstance(row, dict):
            raise BadRow(None, f"is {kind_of(row)}, not an object")
        known = {*self.columns.synonyms, self.free}
        for name in row:
            if name not in known:
                raise BadRow(name, "is not a member of such a row")
        others = self._others(row)
        return self.columns.parse(Given(row=index, fields=row, others=others))

    def _others(self, row: dict[str, Any]) -> dict[str, Any]:
        others = row.get(self.free) if self.free else None
        if others is None:
            return {}
        if not isinstance(others, dict):
            raise BadRow(self.free, f"is {kind_of(others)}, not an object")
        for name in others:
            if not self.columns.takes_other(name):
                raise BadRow(self.free, f"has {shown(name)}. {self.columns.why_not[:-1]}")
        return others

    def read(self, rows: list[Any]) -> tuple[list[R], list[Problem]]:
        """Return the rows that can be used, and what is wrong with the others."""
        good, bad, seen = list[R](), list[Problem](), dict[Any, int]()
        for index, row in enumerate(rows):
            try:
                parsed = self.parsed(index, row)
                _refuse_twice(index, self.columns.key(parsed), seen)
                good.append(parsed)
            except BadRow as problem:
                bad.append(_problem(index, problem))
        return good, bad

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
    kind: Kind[R], rows: list[Any], *, upsert: Callable[[list[R], list[Problem]], UploadReport]
) -> dict[str, Any]:
    """Have `upsert` write the rows that can go in, told which could not be read; return the report.

    Raises Unprocessable where one row kept all of them out.
    """
    report = upsert(*kind.read(rows))
    errors = kind.errors(report.problems)
    if not report.written:
        raise Unprocessable(f"Nothing was written, because of {_rows(len(errors))}.", errors)
    counts = {name: getattr(report, name) for name in ("added", "changed", "unchanged")}
    return counts | {"refused": errors, "missing": report.missing}


def _refuse_twice(index: int, key: tuple[str, Hashable], seen: dict[Any, int]) -> None:
    earlier = seen.setdefault(key, index)
    if earlier != index:
        raise BadRow(key[0], f"is the same as in row {earlier}")


def _problem(index: int, bad: BadRow) -> Problem:
    subject = f"The member {shown(bad.column)}" if bad.column else "The row"
    return Problem(index, bad.column or "", f"{subject} {bad.reason}.")


def _rows(n: int) -> str:
    return "one row that cannot go in" if n == 1 else f"{n:,} rows that cannot go in"
