"""Judgements as training data in the API."""

from django.http.response import HttpResponseBase
from rest_framework.request import Request

from arena.actors import TeamPermission
from arena.api.core.parameters import check_names
from judges.exports import EXPORTS
from ranking.api.exports import ExportEndpoint, named_file, streamed
from ranking.exports import JSONL, PARQUET, file_names


class JudgementExport(ExportEndpoint):
    is_open = False

    @streamed(
        "export_judgements",
        "Export judgements as training data for judge models",
        f"{JSONL},{PARQUET}",
        "`judgements`: judges' replies in the Prometheus 2 format, for supervised fine-tuning. "
        "`judge-pairs`: two replies to one request; most people agree with the `chosen` one. "
        "`preference-collection`: two answers to which a judge gave different scores. Only the "
        "arena's team gets them, because replies may repeat references and rubrics.",
        '{"format": "pairwise", "output": "Feedback: B answers. [RESULT] B", "people": "B"}\n',
        [named_file(file_names(EXPORTS))],
    )
    def get(self, request: Request, slug: str, file: str) -> HttpResponseBase:
        self.require(TeamPermission.READ, self.arena.team_id)
        check_names(request, [])
        return self.send_kind(file)
