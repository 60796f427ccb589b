"""The client's types match the API's description: renaming a member there fails here."""

from typing import Any

import pytest

from clients.python import ringside_client

SHOWN = {
    ringside_client.Arena: "ArenaShown",
    ringside_client.Candidate: "CandidateShown",
    ringside_client.Prompt: "PromptShown",
    ringside_client.RowProblem: "RowProblem",
    ringside_client.Report: "ResponseReportShown",
    ringside_client.AnswerRun: "AnswerRunShown",
    ringside_client.AnswerQuote: "AnswerQuoteShown",
    ringside_client.Judge: "JudgeShown",
    ringside_client.JudgeRun: "RunReportShown",
    ringside_client.Rubric: "RubricShown",
    ringside_client.Quote: "QuoteShown",
    ringside_client.Decision: "DecisionShown",
    ringside_client.Experiment: "ExperimentShown",
    ringside_client.ExperimentQuote: "ExperimentQuoteShown",
    ringside_client.Draft: "DraftShown",
    ringside_client.Battle: "BattleShown",
}
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}


@pytest.mark.parametrize("kind", SHOWN, ids=lambda kind: kind.__name__)
def test_every_member_of_a_type_is_one_of_the_api(kind: Any, api_schema: Any) -> None:
    members = api_schema["components"]["schemas"][SHOWN[kind]]["properties"]
    assert kind.__annotations__.keys() <= members.keys()
    for name, typed in kind.__annotations__.items():
        said = typed.__forward_arg__.split(" | ")
        told = members[name].get("type", [])
        told = [told] if isinstance(told, str) else told
        if plain := [PLAIN[one] for one in told if one in PLAIN]:
            assert plain == said[:1], name
        assert ("null" in told) == ("None" in said) or not told, name


def test_what_a_candidate_is_made_of_can_be_sent(api_schema: Any) -> None:
    members = api_schema["components"]["schemas"]["CandidateGivenRequest"]["properties"]
    assert {*ringside_client.USUAL, *ringside_client.FACTS} <= members.keys()


@pytest.mark.parametrize(
    "path",
    [
        "me/",
        "arenas/{slug}/",
        "arenas/{slug}/prompts/",
        "arenas/{slug}/candidates/",
        "arenas/{slug}/candidates/{id}/",
        "arenas/{slug}/candidates/{id}/versions/",
        "arenas/{slug}/candidates/{id}/responses/",
        "arenas/{slug}/candidates/{id}/answers/",
        "arenas/{slug}/judges/",
        "arenas/{slug}/judge-runs/",
        "judge-runs/{id}/",
        "teams/{slug}/rubrics/",
        "teams/{slug}/rubrics/{rubric}/versions/",
        "arenas/{slug}/experiments/",
        *("experiments/{slug}/", "experiments/{slug}/quote/", "experiments/{slug}/try/"),
        *("experiments/{slug}/run/", "experiments/{slug}/stop/", "experiments/{slug}/twin/"),
        *("experiments/{slug}/drafts/{id}/promote/", "experiments/{slug}/drafts/{id}/enter/"),
        "arenas/{slug}/decision/",
        "arenas/{slug}/boards/",
        "arenas/{slug}/boards/{id}/",
        "arenas/{slug}/battles/",
    ],
)
def test_every_path_that_it_asks_is_there(path: str, api_schema: Any) -> None:
    assert f"/api/v1/{path}" in api_schema["paths"]


def test_it_takes_as_many_rows_at_once_as_the_api() -> None:
    from arena.api.core.bodies import BULK_BODY
    from arena.files.tables import AT_MOST_ROWS

    assert ringside_client.ROWS_AT_ONCE == AT_MOST_ROWS
    assert ringside_client.BYTES_AT_ONCE < BULK_BODY


@pytest.mark.parametrize("name", ringside_client.FIGURES)
@pytest.mark.parametrize(
    "value",
    [*(None, "", " 12 ", 12, 1.5, "1.5", "1,5", "1,500", 2e-05, "2e-5", "-1", -1, True, [], "x"),
     *(2**31 - 1, 2**31, 10**6, 10**6 + 1, "1e99", "0x1", "NaN", "inf", "1_0", "\u0663")],
)  # fmt: skip
def test_it_takes_the_numbers_that_the_api_takes(name: str, value: Any) -> None:
    from arena.api.prompts import RESPONSE_KIND

    row = {"prompt_id": "p1", "text": "x", name: value}
    _, problems = RESPONSE_KIND.read([row])
    assert bool(ringside_client._wrong_with(row)) == bool(problems)


def test_an_answer_has_the_members_that_the_api_takes() -> None:
    from arena.api.prompts import RESPONSE_KIND

    # Exports name the candidate in each row; a program names it in the address.
    assert {*ringside_client.ANSWER} == {*RESPONSE_KIND.columns.names} - {"candidate"}
