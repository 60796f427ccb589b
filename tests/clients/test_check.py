"""`ringside check`: how it ends, and what it says then."""

import io
from pathlib import Path
from typing import Any

import pytest

from clients.python import ringside_client
from clients.python.ringside_client import (
    NOTHING_MORE,
    NOTHING_TO_DO,
    STILL_JUDGING,
    RingsideError,
    StillWaiting,
    main,
)
from tests.clients.check_stub import ANSWERS, JUDGED, NEW, OLD, Stub, check, decided
from tests.clients.fake_ringside import FakeRingside, Said

__all__ = ["check"]
JAPANESE = NEW | {"name": "\u65b0\u3057\u3044\u6848"}


@pytest.mark.parametrize(
    ("verdict", "require", "code"),
    [
        ("better", "not-worse", 0),
        ("better", "better", 0),
        ("better", "known", 0),
        ("unknown", "not-worse", 0),
        ("unknown", "better", 1),
        ("unknown", "known", 3),
        ("worse", "not-worse", 1),
        ("worse", "better", 1),
        ("worse", "known", 1),
    ],
)
def test_the_exit_code_says_the_verdict(check: Any, verdict: str, require: str, code: int) -> None:
    assert check(Stub(decided=decided(verdict)), f"--require={require}")[0] == code


@pytest.mark.parametrize("options", [[], ["--judge=x"], ["--require=better"]])
def test_no_vote_between_the_two_is_no_pass(check: Any, options: list[str], tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    unmeasured = decided("unknown") | {"between": 0}
    code, said = check(Stub(decided=unmeasured), *options, f"--summary={file}")
    assert code == 3
    assert "Nothing was measured: no vote compares the two." in said
    assert "Nothing was measured" in file.read_text()


@pytest.mark.parametrize(("verdict", "code"), [("better", 0), ("worse", 1)])
def test_what_is_known_by_way_of_others_counts(check: Any, verdict: str, code: int) -> None:
    found, said = check(Stub(decided=decided(verdict) | {"between": 0}))
    assert found == code
    assert "Nothing was measured" not in said


@pytest.mark.parametrize("options", [[], ["--judge=x"], ["--require=better"]])
def test_two_incomparable_candidates_do_not_pass(
    check: Any, options: list[str], tmp_path: Path
) -> None:
    """There are votes between the two, and one of them has no score: "wins" is null."""
    file = tmp_path / "summary.md"
    apart = decided("unknown") | {"wins": None, "wins_low": None, "wins_high": None}
    code, said = check(Stub(decided=apart), *options, f"--summary={file}")
    assert code == 3
    assert "No verdict: the votes so far cannot place the two" in said
    assert "No verdict: the votes" in file.read_text()


@pytest.mark.parametrize("options", [[], ["--judge=x"], ["--require=better"]])
def test_a_check_that_could_not_have_failed_is_no_pass(
    check: Any, options: list[str], tmp_path: Path
) -> None:
    """Seven of seven lost: an eighth would make it conclusive."""
    file = tmp_path / "summary.md"
    lost = decided("unknown") | {"wins": 0.0, "between": 7, "votes_to_go": 1, "groups_to_go": 1}
    code, said = check(Stub(decided=lost), *options, f"--summary={file}")
    assert code == 3
    assert "could not have failed" in said
    assert "votes on 1 more prompt before" in said
    assert "could not have failed" in file.read_text()


@pytest.mark.parametrize("state", ["paused", "cancelled"])
@pytest.mark.parametrize(("verdict", "code"), [("unknown", 3), ("better", 0), ("worse", 1)])
def test_an_unfinished_run_leaves_unknown_results_open(
    check: Any, state: str, verdict: str, code: int
) -> None:
    judged = JUDGED | {"state": state, "pause_reason": "The cap is used up."}
    found, said = check(Stub(judged=judged, decided=decided(verdict)), "--judge=x")
    assert found == code
    assert ("It paused: The cap is used up." in said) == (state == "paused")
    assert ("did not finish" in said) == (verdict == "unknown")


@pytest.mark.parametrize(("require", "code"), [("not-worse", 0), ("better", 1), ("known", 3)])
def test_a_result_that_votes_cannot_settle_stays_open(
    check: Any, require: str, code: int, tmp_path: Path
) -> None:
    file = tmp_path / "summary.md"
    nothing = RingsideError("All was judged already.", status=422, kind=NOTHING_TO_DO)
    stub = Stub(judged=nothing, decided=decided("unknown"))
    found, said = check(stub, "--judge=x", f"--require={require}", f"--summary={file}")
    assert found == code
    assert said.endswith(f"All was judged already.\n{stub.decided['sentence']}\n{NOTHING_MORE}\n")
    assert NOTHING_MORE in file.read_text()


@pytest.mark.parametrize("between", [0, 12])
def test_what_was_never_measured_is_no_pass(check: Any, between: int) -> None:
    nothing = RingsideError("No pair is wanted.", status=422, kind=NOTHING_TO_DO)
    apart = decided("unknown") | {"between": between, "wins": None}
    code, said = check(Stub(judged=nothing, decided=apart), "--judge=x")
    assert code == 3
    assert NOTHING_MORE not in said


def test_pairs_that_another_run_has_yet_to_judge_end_with_3(check: Any) -> None:
    there = RingsideError("Run 4 is still judging these pairs.", status=422, kind=STILL_JUDGING)
    code, said = check(Stub(judged=there), "--judge=x")
    assert code == 3
    assert said.endswith("Run 4 is still judging these pairs. Run this again when it has ended.\n")


def test_verdicts_that_are_not_there_in_time_end_with_3(check: Any) -> None:
    late = StillWaiting("Run 5: not finished after 60 s.", JUDGED)
    assert check(Stub(judged=late), "--judge=x") == (
        3,
        "new v2 against old in Search:\nRun 5: not finished after 60 s.\n",
    )


def test_answers_that_paused_end_with_3(check: Any) -> None:
    paused = ANSWERS | {"state": "paused", "pause_reason": "The key is wrong."}
    code, said = check(Stub(answers=paused), "--model=m-2", "--judge=x")
    assert code == 3
    assert "The answer run paused: The key is wrong." in said


@pytest.mark.parametrize("verdict", ["unknown", "better", "worse"])
@pytest.mark.parametrize("between", [0, 12])
@pytest.mark.parametrize("require", ["not-worse", "better", "known"])
def test_a_board_that_has_not_counted_the_verdicts_is_no_result(
    check: Any, verdict: str, between: int, require: str
) -> None:
    """Some of the votes may disagree with all of them together."""
    before = decided(verdict) | {"counted": False, "between": between}
    waiting = StillWaiting("The decision: not there.", before)
    code, said = check(Stub(decided=waiting), "--judge=x", f"--require={require}")
    assert code == 3
    assert "The leaderboard has not counted the run's verdicts yet" in said
    assert "Nothing was measured" not in said


def test_peoples_votes_that_do_not_come_are_read_as_they_stand(check: Any) -> None:
    waiting = StillWaiting("The decision: not there.", decided("unknown"))
    assert check(Stub(decided=waiting))[0] == 0


def test_a_decision_of_which_nothing_was_heard_ends_with_3(check: Any) -> None:
    silent = StillWaiting("The decision: not finished after 0 s.", None)
    code, said = check(Stub(decided=silent), "--judge=x")
    assert code == 3
    assert said.endswith("The decision: not finished after 0 s.\n")


@pytest.mark.parametrize(
    "error", [RingsideError("The budget is used up.", status=422, title="Unprocessable Content")]
)
def test_what_is_refused_ends_with_2_and_its_sentence(check: Any, error: Exception) -> None:
    code, said = check(Stub(judged=error), "--judge=x")
    assert code == 2
    assert said.endswith("The budget is used up. (422 Unprocessable Content)\n")


def test_a_baseline_that_is_not_there_ends_with_2(check: Any) -> None:
    code, said = check(Stub(there={"new": NEW}))
    assert (code, said) == (2, "The arena has no candidate 'old' that you can see.\n")


def test_a_candidate_of_which_nothing_is_known_ends_with_2(check: Any) -> None:
    code, said = check(Stub(there={"old": OLD}))
    assert code == 2
    assert "--answers" in said


def test_a_file_that_is_not_there_ends_with_2(check: Any) -> None:
    assert check(Stub(), "--system-prompt-file=/no/such/file") == (
        2,
        "/no/such/file cannot be used: No such file or directory.\n",
    )


@pytest.mark.parametrize(
    "options",
    [
        *(["--wait=soon"], ["--wait=-5"], ["--require=best"], ["--parameters=[1]"]),
        *(['--parameters={"t": NaN}'], ['--parameters={"t": 1e999}']),
        *(["--cap=nan"], ["--cap=inf"], ["--cap=-1"], ["--cap=much"], ["--answers-cap=nan"]),
    ],
)
def test_what_cannot_be_read_ends_with_2(check: Any, options: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        check(Stub(), *options)
    assert caught.value.code == 2


def test_without_an_address_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--url=", "--arena=a", "--candidate=b", "--baseline=c"]) == 2
    assert "https://arena.example" in capsys.readouterr().out


@pytest.mark.parametrize(("require", "code"), [("not-worse", 0), ("better", 1), ("known", 3)])
def test_the_candidate_may_be_the_baseline_itself(check: Any, require: str, code: int) -> None:
    stub = Stub(ensured=OLD)
    found, said = check(stub, "--model=m-1", "--judge=x", f"--require={require}")
    assert found == code
    assert "the baseline itself" in said
    assert [what for what, *_ in stub.done] == ["ensure", "generate"]


@pytest.mark.parametrize("name", ["old", " old"])
def test_two_of_one_name_are_refused_before_anything_is_sent(check: Any, name: str) -> None:
    """A second run would take the first run's candidate for the baseline."""
    stub = Stub()
    code, said = check(stub, f"--candidate={name}", "--model=m-2")
    assert code == 2
    assert "both called 'old'" in said
    assert not stub.done


def test_the_baseline_may_be_named_by_its_id(check: Any) -> None:
    stub = Stub(ensured=NEW | {"name": "old"})
    code, said = check(stub, "--candidate=old", "--baseline=12", "--model=m-2")
    assert code == 0
    assert said.startswith("Answers: ")
    assert "old v2 against old in Search:" in said
    assert stub.done[-1][1] == (17, 12)


def test_a_baseline_may_be_called_by_a_number(check: Any) -> None:
    stub = Stub(there={"2026": OLD, "new": NEW})
    check(stub, "--baseline=2026")
    assert stub.done[-1][1] == (17, 12)


@pytest.mark.parametrize(
    "body",
    [{"hello": 1}, [], 5, None, {"name": "A", "results": 5, "next": None}, {"name": [], "next": 5}],
)
def test_an_answer_of_another_shape_ends_with_2(
    body: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeRingside(Said(body)) as server:
        code = main(["check", f"--url={server.url}", "--arena=a", "--candidate=b", "--baseline=c"])
    said = capsys.readouterr()
    assert code == 2
    assert len((said.out + said.err).splitlines()) == 1
    assert "Traceback" not in said.err


@pytest.mark.parametrize("debug", [False, True])
def test_an_internal_error_exits_with_2_and_offers_a_traceback(
    debug: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stub = Stub(decided=ZeroDivisionError("by\nzero"))
    monkeypatch.setattr(ringside_client, "Ringside", lambda *_, **__: stub)
    options = ["--debug"] if debug else []
    assert main(["check", "--arena=a", "--candidate=new", "--baseline=old", *options]) == 2
    *trace, last = capsys.readouterr().err.splitlines()
    assert last == "This program crashed: ZeroDivisionError: by zero. Use --debug for a traceback."
    assert bool(trace) == debug


def test_a_name_that_the_terminal_cannot_write_ends_as_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="cp1252"))
    monkeypatch.setattr(
        ringside_client, "Ringside", lambda *_, **__: Stub(there={"old": OLD, "new": JAPANESE})
    )
    assert main(["check", "--arena=a", "--candidate=new", "--baseline=old"]) == 0
    assert written.getvalue().startswith(b"???? v2 against old in Search:")


def test_a_reader_who_has_gone_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, said: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("sys.stdout", Closed())
    monkeypatch.setattr(ringside_client, "Ringside", lambda *_, **__: Stub())
    assert main(["check", "--arena=a", "--candidate=new", "--baseline=old"]) == 2
