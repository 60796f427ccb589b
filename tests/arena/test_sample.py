"""The sample arena is whole, varied and honest about where its votes come from."""

import json
import re
import runpy
import time
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from arena.models import Arena, Reason, Response
from arena.models.arenas import FAULTS, STRENGTHS
from benchmarks import make_sample

FOLDER = make_sample.FOLDER
FIELDS = {
    "prompts": {"id", "category", "text"},
    "candidates": {
        *("name", "model", "variant", "system_prompt", "user_template", "notes"),
        *("organisation", "licence", "link"),
    },
    "responses": {"candidate", "prompt", "text", "tokens_in", "tokens_out", "seconds", "cost"},
    "votes": {"prompt", "a", "b", "outcome", "rater", "kind"},
    "jury_votes": {"prompt", "a", "b", "outcome", "rater", "kind"},
}
OPTIONAL = {"reference", "reasons_a", "reasons_b", "retired", "showcased"}
QUALITY = make_sample.QUALITY | make_sample.SHOWCASE
KINDS_OF_MARKUP = {
    "code": r"(?m)^```(python|sql|javascript)\n",
    "table": r"(?m)^\|(\s*:?-+:?\s*\|)+$",
    "bullets": r"(?m)^- ",
    "numbered list": r"(?m)^1\. ",
    "heading": r"(?m)^#+ ",
    "quote": r"(?m)^> ",
    "bold": r"\*\*\S",
    "inline formula": r"\$[^$\s][^$\n]*\^[^$\n]*\$",
    "bracket formula": r"\\\(.+\\\)",
    "displayed formula": r"(?m)^\$\$.+\$\$$",
}


def read(name: str) -> list[dict[str, Any]]:
    lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("name", FIELDS)
def test_every_line_has_the_fields_of_its_file(name):
    for row in read(name):
        assert set(row) - OPTIONAL == FIELDS[name]
        assert all(value.strip() if isinstance(value, str) else value for value in row.values())


def test_every_candidate_answers_every_prompt_once():
    answered = Counter((row["candidate"], row["prompt"]) for row in read("responses"))
    wanted = {(c["name"], p["id"]) for c in read("candidates") for p in read("prompts")}
    assert set(answered) == wanted
    assert len(wanted) == 48 * 8
    assert set(answered.values()) == {1}


def test_prompts_are_spread_over_their_categories():
    per_category = Counter(row["category"] for row in read("prompts"))
    assert per_category == dict.fromkeys(["support", "writing", "data and code", "planning"], 12)
    showcased = Counter(row["category"] for row in read("prompts") if "showcased" in row)
    assert showcased == dict.fromkeys(per_category, 2)


def test_variants_share_a_model_and_differ_in_what_they_send():
    candidates = read("candidates")
    assert len({row["model"] for row in candidates[:5]}) == 1
    assert len({row["model"] for row in candidates}) == 3
    assert len({(row["system_prompt"], row["user_template"]) for row in candidates}) == 8
    assert all(row["user_template"].count("{{ prompt }}") == 1 for row in candidates)


def test_answers_are_of_readable_length_and_all_different():
    texts = [row["text"] for row in read("responses")]
    assert all(len(text.split()) <= 350 for text in texts)
    assert sum(len(text.split()) >= 40 for text in texts) >= 190
    assert len(set(texts)) == 48 * 8


def test_no_answer_gives_its_candidate_away():
    names = {row[key] for row in read("candidates") for key in ("name", "model", "variant")}
    given_away = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b", re.IGNORECASE)
    assert [row for row in read("responses") if given_away.search(row["text"])] == []


@pytest.mark.parametrize("pattern", KINDS_OF_MARKUP.values(), ids=KINDS_OF_MARKUP)
def test_answers_show_each_kind_of_markup(pattern):
    assert any(re.search(pattern, row["text"]) for row in read("responses"))


def test_python_in_the_answers_compiles():
    blocks = [re.findall(r"```python\n(.*?)```", row["text"], re.S) for row in read("responses")]
    sources = [source for found in blocks for source in found]
    assert len(sources) >= 5
    for source in sources:
        compile(source, "answer", "exec")


def test_the_script_writes_the_same_bytes_again(monkeypatch):
    written = {}
    monkeypatch.setattr(Path, "write_bytes", lambda path, data: written.update({path: data}))
    runpy.run_path(make_sample.__file__, run_name="__main__")
    files = [FOLDER / "votes.jsonl", FOLDER / "jury_votes.jsonl"]
    assert written == {path: path.read_bytes() for path in files}


def test_the_script_judges_exactly_the_answers_there_are():
    assert [row["name"] for row in read("candidates")] == list(make_sample.CANDIDATES)
    assert [row["id"] for row in read("prompts")] == list(QUALITY)


def test_votes_reach_every_prompt_every_rater_and_every_pair():
    votes = read("votes")
    per_pair = Counter(frozenset((vote["a"], vote["b"])) for vote in votes)
    assert len(votes) == 3136
    assert per_pair == {frozenset(p): 112 for p in combinations(make_sample.CANDIDATES, 2)}
    assert {vote["prompt"] for vote in votes} == set(QUALITY)
    assert len({vote["rater"] for vote in votes}) == 40
    assert {vote["kind"] for vote in votes} == {"person"}


def test_sides_are_balanced_for_every_pair():
    seats = Counter((vote["a"], vote["b"]) for vote in read("votes"))
    for first, second in combinations(make_sample.CANDIDATES, 2):
        assert abs(seats[first, second] - seats[second, first]) <= 1


def test_nobody_votes_twice_on_the_same_two_responses():
    seen = Counter((v["rater"], v["prompt"], frozenset((v["a"], v["b"]))) for v in read("votes"))
    assert max(seen.values()) == 1


def test_outcomes_come_in_believable_shares():
    votes = read("votes")
    shares = {kind: n / len(votes) for kind, n in Counter(v["outcome"] for v in votes).items()}
    assert set(shares) == {"left", "right", "tie", "both_bad"}
    assert 0.10 <= shares["tie"] <= 0.20
    assert 0.03 <= shares["both_bad"] <= 0.09
    assert abs(shares["left"] - shares["right"]) <= 0.10


def test_better_answers_win_more_often_than_not():
    votes = [vote for vote in read("votes") if vote["outcome"] in ("left", "right")]
    quality = {
        (prompt, name): value
        for prompt, row in QUALITY.items()
        for name, value in zip(make_sample.CANDIDATES, row, strict=True)
    }
    upheld = sum(
        (quality[v["prompt"], v["a"]] > quality[v["prompt"], v["b"]]) == (v["outcome"] == "left")
        for v in votes
    )
    assert 0.65 <= upheld / len(votes) <= 0.95


def test_the_jury_is_one_and_says_that_it_is_a_script():
    votes = read("jury_votes")
    assert {(vote["rater"], vote["kind"]) for vote in votes} == {("scripted-sample-jury", "jury")}
    assert len(votes) == 28 * 20


def test_reasons_are_offered_by_the_arena_and_given_by_some():
    votes = read("votes")
    offered = {True: set(STRENGTHS), False: set(FAULTS)}
    for vote in votes:
        for side, outcome in (("a", "left"), ("b", "right")):
            assert set(vote.get(f"reasons_{side}", [])) <= offered[vote["outcome"] == outcome]
    explained = [vote for vote in votes if OPTIONAL & set(vote)]
    assert 0.2 <= len(explained) / len(votes) <= 0.4


@pytest.mark.django_db
def test_loading_it_fills_every_view_in_time(no_doorbell):
    start = time.process_time()
    call_command("load_sample", quiet=True)
    seconds = time.process_time() - start
    arena = Arena.objects.get(slug="sample")
    assert arena.is_sample
    assert "Example" in arena.guide
    assert arena.votes.of_people().count() == 3136
    assert arena.votes.count() == 3136 + 560
    assert Reason.objects.filter(vote__arena=arena).count() >= 500
    assert not Response.objects.filter(cost=None).exists()
    assert not Response.objects.filter(seconds=None).exists()
    assert seconds < 10
    before = Reason.objects.count()
    call_command("load_sample", quiet=True)
    assert (Reason.objects.count(), arena.votes.count()) == (before, 3136 + 560)


def test_readme_and_script_say_the_votes_are_nobodys_opinion():
    sentence = "come from a seeded script and are nobody's opinion"
    assert sentence in (FOLDER / "README.md").read_text(encoding="utf-8")
    assert sentence in make_sample.__doc__
