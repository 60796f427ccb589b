"""`manage.py rank` ranks a file with no database: none of these tests may touch one."""

import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.environment import REPOSITORY

ROUND = "left,right,winner,prompt,worker\n" + "".join(
    f"{left},{right},{winner},p{prompt},w{prompt % 3}\n"
    for prompt in range(6)
    for left, right, winner in [
        ("A", "B", "left" if prompt % 3 else "right"),
        ("B", "C", "left" if prompt % 2 else "tie"),
        ("C", "A", "right" if prompt % 4 else "left"),
    ]
)


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    path = tmp_path / "votes.csv"
    path.write_text(ROUND)
    return path


def rank(path: Path, *arguments: str) -> str:
    out, err = StringIO(), StringIO()
    call_command("rank", str(path), *arguments, stdout=out, stderr=err)
    assert err.getvalue() == ""
    return out.getvalue()


def ranked(path: Path, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(rank(path, "--json", *arguments))
    return found


def refused(path: Path, *arguments: str) -> str:
    with pytest.raises(CommandError) as caught:
        rank(path, *arguments)
    return str(caught.value)


def packed(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "packed.zip", "w") as archive:
        for path in folder.glob("*.jsonl"):
            archive.write(path, path.name)
    return folder / "packed.zip"


def contest(path: Path, pairs: str, n_raters: int) -> Path:
    """Each pair meets once on each of 40 prompts; the first letter wins, but for every ninth."""
    rows = [
        f"{a},{b},{'left' if prompt % 9 or a == 'A' else 'right'},p{prompt},w{prompt % n_raters}\n"
        for prompt in range(40)
        for a, b in pairs.split()
    ]
    path.write_text("left,right,winner,prompt,worker\n" + "".join(rows))
    return path


def test_a_number_one_that_never_lost_is_not_called_incomparable(tmp_path: Path) -> None:
    found = ranked(contest(tmp_path / "votes.csv", "AB AC BC", 10))
    assert found["clear_leader"] == "A"
    assert found["fragility"]["words"].startswith("Number one has no finite score")


def test_few_raters_leave_the_first_place_open(tmp_path: Path) -> None:
    found = ranked(contest(tmp_path / "votes.csv", "BC CD BD", 2))
    assert found["clear_leader"] is None
    assert found["settings"]["clusters"] == "prompt"
    assert [row["sure_rank_low"] for row in found["standings"][:2]] == [1, 1]
    assert found["standings"][0]["sure_rank_high"] == 2


def test_json_holds_scores_and_their_uncertainty(votes: Path) -> None:
    found = ranked(votes)
    assert found["n_votes"] == 18
    assert [row["candidate"] for row in found["standings"]] == ["A", "B", "C"]
    best = found["standings"][0]
    assert best["low"] < best["score"] < best["high"]
    assert best["se"] > 0
    assert (best["rank_low"], best["votes"], best["status"]) == (1, 12, "ranked")
    assert best["rank_high"] <= best["sure_rank_high"] <= 3
    assert sum(row["score"] for row in found["standings"]) == pytest.approx(3000)
    assert found["settings"]["clusters"] == "prompt"
    assert found["settings"]["effective"] == {"prompts": 6, "raters": 3}
    assert found["choix_difference"] < 1e-4


def test_candidate_with_few_votes_has_no_interval(votes: Path) -> None:
    votes.write_text(ROUND + "A,D,tie,p0,w0\nD,B,left,p1,w1\n")
    rows = {row["candidate"]: row for row in ranked(votes)["standings"]}
    assert rows["D"]["score"] is not None
    assert {rows["D"][name] for name in ("low", "high", "se", "rank_low", "sure_rank_low")} == {
        None
    }
    assert rows["A"]["low"] is not None
    assert "\n-: no interval, because it has fewer than 5 groups of votes.\n" in rank(votes)


def test_the_same_seed_gives_the_same_intervals(votes: Path) -> None:
    ends = [
        [row["low"] for row in ranked(votes, "--seed", seed)["standings"]]
        for seed in ("7", "7", "8")
    ]
    assert ends[0] == ends[1] != ends[2]


@pytest.mark.parametrize(
    ("cluster", "rule", "groups"),
    [
        ("auto", "prompt", 6),
        ("unit", "prompt_pair", 18),
        ("prompt_pair", "prompt_pair", 18),
        ("prompt", "prompt", 6),
        ("rater", "rater", 3),
        ("none", "vote", 18),
    ],
)
def test_votes_are_clustered_as_asked(votes: Path, cluster: str, rule: str, groups: int) -> None:
    found = ranked(votes, "--cluster", cluster)
    assert (found["settings"]["clusters"], found["settings"]["n_clusters"]) == (rule, groups)
    assert (found["standings"][0]["low"] is None) == (groups < 5)
    assert bool(found["interval_reason"]) == (groups < 5)


def test_clusters_that_the_file_does_not_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("left,right,winner\nA,B,left\nB,A,left\n")
    assert "2 of 2 votes have no prompt" in refused(path, "--cluster", "prompt")
    assert "2 of 2 votes have no rater" in refused(path, "--cluster", "rater")


def test_the_table_is_aligned_and_says_the_rest_in_sentences(votes: Path) -> None:
    votes.write_text(ROUND + "A,日本 D,left,p1,w1\nA,B,both_bad,p1,w2\n")
    lines = rank(votes).splitlines()
    assert lines[0].split() == ["rank", "candidate", "score", "interval", "ranks", "votes"]
    assert lines[1].split()[:2] == ["1", "A"]
    assert len({len(line) for line in lines[:4]}) == 1
    text = "\n".join(lines[4:])
    assert '19 votes by people; 1 more "both bad", which do not affect the scores.' in text
    assert "Votes on the same prompt are treated as dependent" in text
    assert "The results hold for these 3 raters only: they are too few." in text
    assert "Clear leader, at every look: none." in text
    assert "votes would change number one." in text
    assert "Not ranked: 日本 D. It has never won or tied" in text


def test_what_cannot_be_known_is_null_with_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("left,right,winner\nA,B,left\n")
    found = ranked(path)
    assert {row["status"] for row in found["standings"]} == {"undefeated", "winless"}
    for row in found["standings"]:
        names = ("rank", "score", "low", "high", "se", "rank_low", "rank_high")
        assert [row[name] for name in names] == [None] * 7
        assert row["reason"]
    assert found["interval_reason"]
    assert found["clear_leader"] is None
    assert "No candidate has a score yet." in rank(path)


def test_groups_without_a_chain_between_them_are_ranked_on_their_own(tmp_path: Path) -> None:
    path = contest(tmp_path / "v.csv", "BC DE", 10)
    found = ranked(path)
    assert [row["rank"] for row in found["standings"]] == [None] * 4
    places = [[(place["candidate"], place["rank"]) for place in one] for one in found["groups"]]
    assert sorted(places) == [[("B", 1), ("C", 2)], [("D", 1), ("E", 2)]]
    assert "A group with scores of its own, which cannot be compared with others: B 1" in rank(path)


def test_bad_rows_are_named_by_file_line_column_and_reason(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("left,right,winner\nA,B,left\nA,A,tie\nB,,left\nC,D,lft\n")
    assert refused(path).splitlines() == [
        f"{path}, line 3, column right: 'A' is compared with itself; correct it, or leave the row"
        " out",
        f"{path}, line 4, column right: is empty; fill it in, or leave the row out",
        f"{path}, line 5, column winner: is 'lft', which is not one of left, right, tie, both_bad, "
        "or the name of one of the two",
        "Nothing was ranked: 3 bad rows. Use --skip-bad to rank the rest.",
    ]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("v.csv", "", "is empty"),
        ("v.csv", "left,right,winner\n", "has no votes"),
        ("v.csv", "a,b\n", "for votes as a table, there is no winner"),
        ("prompts.jsonl", '{"id": "p", "text": "?"}\n', "has no votes"),
        ("v.pdf", "x", "not a file of a known format"),
    ],
)
def test_a_file_without_votes_is_refused(
    tmp_path: Path, name: str, content: str, words: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    assert words in refused(path)
    assert "There is no file" in refused(tmp_path / "absent.csv")


def test_accents_however_they_are_written_are_one_name(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("left,right,winner\nCafé,B,left\nCafe\u0301,B,right\n", encoding="utf-8")
    assert {row["candidate"] for row in ranked(path)["standings"]} == {"Café", "B"}


def vote(**fields: Any) -> str:
    return json.dumps({"a": "A", "b": "B", "outcome": "left"} | fields) + "\n"


def test_a_native_file_of_votes_names_its_own_candidates(tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    path.write_text(vote(prompt="p") + vote(prompt="p", outcome=None, preference_b=0.75))
    rows = {row["candidate"]: row["score"] for row in ranked(path)["standings"]}
    odds = 10 ** ((rows["A"] - rows["B"]) / 400)
    assert odds / (1 + odds) == pytest.approx(1.25 / 2)
    path.write_text(vote(b="A"))
    assert "line 1, column b: 'A' is compared with itself" in refused(path)


def test_a_native_folder_lists_who_may_be_voted_on(tmp_path: Path) -> None:
    (tmp_path / "candidates.jsonl").write_text(
        "".join(
            json.dumps({"name": name, "retired": name == "Old"}) + "\n"
            for name in ("A", "B", "C", "Old")
        )
    )
    (tmp_path / "votes.jsonl").write_text(vote() + vote(outcome="right"))
    found = {row["candidate"]: row["status"] for row in ranked(tmp_path)["standings"]}
    assert found == {"A": "ranked", "B": "ranked", "C": "no_votes"}
    assert rank(packed(tmp_path)) == rank(tmp_path)
    (tmp_path / "votes.jsonl").write_text(vote(b="X"))
    assert "line 1, column b: there is no candidate 'X'" in refused(tmp_path)
    assert "packed.zip/votes.jsonl, line 1, column b" in refused(packed(tmp_path))
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04")
    assert "broken.zip cannot be unpacked" in refused(tmp_path / "broken.zip")


def test_the_output_includes_further_findings(votes: Path) -> None:
    found = ranked(votes)
    assert [pair["upper"] for pair in found["neighbours"]] == ["A", "B"]
    assert found["transitivity"] == {"share": 1.0, "triads": 1, "transitive": 1}
    assert found["agreement"] is None  # each prompt and pair has one vote
    assert "ties" not in found
    assert sum(row["elo"] for row in found["standings"]) == pytest.approx(3000)
    votes.write_text(ROUND + "B,A,right,p1,w0\nB,A,left,p1,w2\n")
    agreement = ranked(votes)["agreement"]
    assert (agreement["n_pairs"], agreement["share"]) == (3, pytest.approx(1 / 3))


def test_one_rater_s_votes_on_unknown_prompts_are_one_piece_of_evidence(votes: Path) -> None:
    votes.write_text(ROUND + "A,D,left,,w1\n" * 30)
    found = {row["candidate"]: row for row in ranked(votes)["standings"]}
    assert (found["D"]["status"], found["D"]["rank"]) == ("winless", None)


def test_people_and_judges_are_never_pooled(tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    judged = vote(judge="J") + vote(judge="J", outcome="right") + vote(judge="J")
    path.write_text(judged + vote(rater="x") + vote(rater="x", outcome="right"))
    found = ranked(path)
    assert (found["settings"]["raters"], found["n_votes"], found["n_left_out"]) == ("people", 2, 3)
    assert "3 votes by other raters left out" in rank(path)
    assert ranked(path, "--raters", "judges")["n_votes"] == 3
    path.write_text(judged)
    assert ranked(path)["settings"]["raters"] == "judges"
    assert "has no votes by people" in refused(path, "--raters", "people")


def test_other_names_and_spellings_give_the_same_ranking(votes: Path) -> None:
    usual = ranked(votes)
    text = ROUND.replace("left,right,winner,prompt,worker", "Model_A,Model_B,Winner,prompt,rater")
    for plain, other in ((",left,", ",model_a,"), (",right,", ",B,"), (",tie,", ",Draw,")):
        text = text.replace(plain, other)
    votes.write_text(text)
    assert ranked(votes) == usual


def test_both_bad_votes_are_counted_apart_in_whatever_way_they_are_read(votes: Path) -> None:
    votes.write_text(ROUND + "A,B,tie (bothbad),p1,w2\n")
    quick = ranked(votes)
    assert (quick["n_votes"], quick["n_both_bad"]) == (18, 1)
    votes.write_text(ROUND + '\nA,B,"both_bad",p1,w2,\n')  # a blank line: read row by row
    assert ranked(votes) == quick


def test_the_order_of_the_file_is_kept_where_bad_rows_interrupt_it(votes: Path) -> None:
    usual = ranked(votes)
    lines = ROUND.splitlines(keepends=True)
    votes.write_text("".join([*lines[:9], "A,B,maybe,p,w\n", "A,A,tie,p,w\n", *lines[9:]]))
    assert "2 bad rows. Use --skip-bad to rank the rest." in refused(votes)
    out, err = StringIO(), StringIO()
    call_command("rank", str(votes), "--json", "--skip-bad", stdout=out, stderr=err)
    assert json.loads(out.getvalue()) == usual  # online Elo depends on the order
    assert f"{votes}, line 10, column winner: is 'maybe'" in err.getvalue()
    assert "line 11, column right: 'A' is compared with itself" in err.getvalue()
    assert err.getvalue().endswith("2 bad rows skipped.\n")


def test_more_candidates_than_can_be_measured_are_refused_at_once(votes: Path) -> None:
    rows = (f"A{n},A{n + 1},tie\n" for n in range(5000))
    votes.write_text("left,right,winner\n" + "".join(rows))
    assert refused(votes) == (
        "5,001 candidates are too many: intervals and ranks can be computed for at most 5,000."
    )


def test_a_file_without_a_good_row_has_no_votes(votes: Path) -> None:
    votes.write_text("left,right,winner\nA,A,tie\n")
    assert "has no votes by people" in refused(votes, "--skip-bad")


@pytest.mark.parametrize("option", [("--bootstrap", "1"), ("--seed", "-1"), ("--cluster", "moon")])
def test_options_without_sense_are_refused(votes: Path, option: tuple[str, str]) -> None:
    assert option[0] in refused(votes, *option)


def test_it_ends_without_a_word_when_nobody_reads_its_output(votes: Path) -> None:
    command = [sys.executable, "manage.py", "rank", str(votes), "--json", "--bootstrap", "2"]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        command, cwd=REPOSITORY, stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")


@pytest.mark.slow
def test_it_runs_where_no_database_answers(votes: Path, tmp_path: Path) -> None:
    environment = os.environ | {
        "DATABASE_URL": "postgres://nobody@127.0.0.1:1/nowhere",
        "RINGSIDE_HOME": str(tmp_path / "home"),
    }
    command = [sys.executable, "manage.py", "rank", str(votes), "--json", "--bootstrap", "50"]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["settings"]["n_resamples"] == 50


@pytest.fixture
def crowd(data_dir: Path) -> Path:
    return data_dir / "crowd-votes" / "llmfao.csv"


@pytest.mark.data
def test_a_real_crowd_gives_the_reference_numbers(crowd: Path) -> None:
    found = ranked(crowd)
    standings = found["standings"]
    assert (found["n_votes"], len(standings), found["clear_leader"]) == (8931, 59, None)
    assert [(row["candidate"], round(row["score"], 2)) for row in standings[:7]] == [
        ("GPT 4", 1172.13),
        ("Platypus-2 Instruct (70B)", 1112.45),
        ("command", 1110.17),
        ("ReMM SLERP L2 13B", 1099.61),
        ("LLaMA-2-Chat (70B)", 1094.64),
        ("Claude v1", 1093.81),
        ("GPT 3.5 Turbo", 1091.22),
    ]
    assert (standings[-1]["candidate"], round(standings[-1]["score"], 2)) == (
        "Dolly v2 (3B)",
        845.66,
    )
    assert found["log_likelihood"] == -5743.381724
    elo = {row["candidate"]: round(row["elo"], 4) for row in standings}
    assert (elo["GPT 4"], elo["command"]) == (1095.5935, 1094.5451)
    best = standings[0]
    names = ("rank_low", "rank_high", "sure_rank_low", "sure_rank_high")
    assert [best[name] for name in names] == [1, 18, 1, 53]
    assert found["fragility"]["words"] == "13 of 8,931 votes would change number one"
    assert found["settings"]["clusters"] == "prompt_rater"
    assert found["settings"]["clusters_note"] == ""


@pytest.mark.data
def test_a_real_crowd_gives_the_reference_findings(crowd: Path) -> None:
    found = ranked(crowd, "--bootstrap", "2")
    agreement = found["agreement"]
    assert (agreement["n_pairs"], agreement["decisive_n_pairs"]) == (15112, 6755)
    assert round(agreement["share"], 5) == 0.53223
    assert round(agreement["decisive_share"], 5) == 0.70126
    assert agreement["alpha"] == pytest.approx(0.2906, abs=5e-4)
    assert found["transitivity"]["triads"] == 5249
    assert found["transitivity"]["transitive"] == 4739
    assert len(found["neighbours"]) == 58


@pytest.mark.data
@pytest.mark.parametrize(
    ("cluster", "error"), [("none", 27.86), ("unit", 31.17), ("rater", 35.28), ("prompt", 37.78)]
)
def test_a_real_crowd_gives_the_reference_errors(crowd: Path, cluster: str, error: float) -> None:
    best = ranked(crowd, "--cluster", cluster, "--bootstrap", "200")["standings"][0]
    assert round(best["se"], 2) == error
    # The interval is the bootstrap's: near the same error, wide of the rating on both sides.
    assert 3.5 * error < best["high"] - best["low"] < 5.5 * error


# Two candidates.


def test_two_are_compared_by_their_votes(votes: Path) -> None:
    rows = "".join(
        f"{a},{b},{'left' if n % 5 else 'right'},p{n},w{n % 12}\n"
        for n in range(80)
        for a, b in (("B", "A"),)
    )
    votes.write_text(f"left,right,winner,prompt,worker\n{rows}")
    says = rank(votes, "--compare", "B", "A").strip()
    assert says.startswith("B is better than A for raters and prompts like these: it wins 80% of")
    found = json.loads(rank(votes, "--compare", "A", "B", "--json"))
    assert (found["candidate"], found["baseline"], found["raters"]) == ("A", "B", "people")
    assert (found["claim"]["verdict"], found["claim"]["scope"]) == ("worse", "raters")
    assert found["sentence"].startswith("A is worse than B")


def test_a_margin_lets_it_be_no_worse(votes: Path) -> None:
    rows = "".join(f"B,A,{'left' if n % 2 else 'right'},p{n},w{n % 3}\n" for n in range(3000))
    votes.write_text(f"left,right,winner,prompt,worker\n{rows}")
    found = json.loads(rank(votes, "--compare", "B", "A", "--margin", "45", "--json"))
    assert found["claim"]["verdict"] == "no_worse"
    assert json.loads(rank(votes, "--compare", "B", "A", "--json"))["claim"]["verdict"] == "open"
    assert "between 0 and 50" in refused(votes, "--compare", "B", "A", "--margin", "50")


def test_unknown_names_are_told_with_those_there_are(votes: Path) -> None:
    votes.write_text(ROUND)
    assert "There is no candidate" in refused(votes, "--compare", "nobody", "A")
    assert "two different candidates" in refused(votes, "--compare", "A", "A")


def test_an_anchor_moves_every_score_by_the_same_number(tmp_path: Path) -> None:
    path = contest(tmp_path / "votes.csv", "BC CD BD", 10)
    free, fixed = ranked(path), ranked(path, "--anchor=C=1114")
    move = fixed["settings"]["center"] - 1000
    for before, after in zip(free["standings"], fixed["standings"], strict=True):
        ends = {name: before[name] for name in ("score", "low", "high")}
        assert ends["score"] is not None
        moved = {name: None if end is None else end + move for name, end in ends.items()}
        assert after == before | {name: pytest.approx(end) for name, end in moved.items()}
    assert {row["candidate"]: row["score"] for row in fixed["standings"]}["C"] == 1114
    assert fixed["settings"]["anchor"] == {"candidate": "C", "score": 1114, "reason": ""}
    assert free["settings"]["anchor"] is None
    table = rank(path, "--anchor", "C=1114")
    assert "The scale is fixed: C scores 1114." in table
    assert re.search(r"C +1114\.0 ", table)


def test_an_anchor_without_a_score_leaves_the_mean_at_1000(tmp_path: Path) -> None:
    path = contest(tmp_path / "votes.csv", "AB AC BC", 10)  # A never lost
    found = ranked(path, "--anchor=A=1114")
    assert (found["settings"]["center"], found["settings"]["anchor"]["reason"]) == (
        *(1000, "unconnected"),
    )
    assert "A should score 1114, but no chain of wins and losses" in rank(path, "--anchor=A=1114")


def test_the_name_of_an_anchor_may_have_equals_signs(tmp_path: Path) -> None:
    path = contest(tmp_path / "votes.csv", "BC CD BD", 10)
    path.write_text(path.read_text().replace("C,", "t=0.7,").replace(",C", ",t=0.7"))
    names = {
        row["candidate"]: row["score"] for row in ranked(path, "--anchor=t=0.7=0")["standings"]
    }
    assert names["t=0.7"] == 0


@pytest.mark.parametrize(
    ("anchor", "words"),
    [
        ("E=1114", "There is no candidate 'E'. Choose from: 'A', 'B', 'C'."),
        ("=1114", "There is no candidate ''"),
        ("A", "must be NAME=SCORE"),
        ("A=", "must be NAME=SCORE"),
        ("A=x", "not 'A=x'"),
        ("A=nan", "must be NAME=SCORE"),
        ("A=inf", "must be NAME=SCORE"),
        ("A=1e9", "at most 1,000,000"),
    ],
)
def test_an_anchor_that_is_none_is_refused(votes: Path, anchor: str, words: str) -> None:
    assert words in refused(votes, f"--anchor={anchor}")


def test_two_are_compared_without_a_scale(votes: Path) -> None:
    assert "not allowed with" in refused(votes, "--anchor=A=1114", "--compare", "A", "B")


@pytest.mark.slow
def test_an_anchor_is_named_where_no_database_answers(votes: Path) -> None:
    command = [sys.executable, "manage.py", "rank", str(votes), "--bootstrap=50", "--anchor=A=1114"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "A scores 1114" in done.stdout or "A should score 1114" in done.stdout


def test_columns_and_values_can_be_chosen_and_what_is_not_used_is_named(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text(
        "question_id,model_a,model_b,judge,verdict,mood\n"
        + "".join(f"q{n},{'oak,elm' if n % 2 else 'elm,oak'},ann,{n % 3},good\n" for n in range(30))
    )
    out, err = StringIO(), StringIO()
    with pytest.raises(CommandError, match="'0', a code that could mean several things"):
        call_command("rank", str(path), stdout=out, stderr=err)
    chosen = ["--value", "0=left", "--value", "1=tie", "--value", "2=right"]
    call_command("rank", str(path), "--json", *chosen, "--column", "rater=", stdout=out, stderr=err)
    assert json.loads(out.getvalue())["n_votes"] == 30


def test_columns_that_are_not_used_are_named(tmp_path: Path) -> None:
    path, err = tmp_path / "v.csv", StringIO()
    rows = "".join(f"oak,elm,{side},ann,1700000000,x\n" for side in ("model_a", "model_b", "tie"))
    path.write_text(f"model_a,model_b,winner,judge,tstamp,ip\n{rows}")
    call_command("rank", str(path), stdout=StringIO(), stderr=err)
    assert "Not used: 'ip'." in err.getvalue()
