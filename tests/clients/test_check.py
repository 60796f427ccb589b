"""`ringside check`: how it ends, and what it says then."""

import io
from pathlib import Path
from typing import Any

import pytest

from clients.python import ringside_client
from clients.python.ringside_client import main
from tests.clients.fake_experiments import FakeExperiments, check, prompt_file
from tests.clients.fake_ringside import FakeRingside, Said, problem

__all__ = ["check", "prompt_file"]
OPEN = {"verdict": "open", "sentence": "Not decided yet."}
REPLY = {"reason": "401: no such key", "count": 7}


def checked(passed: bool, *, is_guard: bool = False) -> dict[str, Any]:
    broken = [{"prompt_id": "p9", "title": "A refund", "reason": "says: Friday", "page": ""}]
    sides = {"passed": 99, "failed": 1, "unknown": 0}
    return {
        "name": "No promise of a date",
        "baseline": sides,
        "draft": sides | {"passed": 97, "failed": 3},
        "broken": broken,
        "fixed": 0,
        "allowed": 3,
        "is_guard": is_guard,
        "passed": passed,
    }


@pytest.mark.parametrize(
    ("verdict", "require", "code"),
    [
        ("better", "not-worse", 0),
        ("better", "better", 0),
        ("better", "known", 0),
        ("no_worse", "not-worse", 0),
        ("no_worse", "better", 1),
        ("no_worse", "known", 0),
        ("open", "not-worse", 0),
        ("open", "better", 1),
        ("open", "known", 3),
        ("cannot_tell", "not-worse", 0),
        ("cannot_tell", "known", 3),
        ("worse", "not-worse", 1),
        ("worse", "better", 1),
        ("worse", "known", 1),
    ],
)
def test_the_exit_code_says_the_verdict(check: Any, verdict: str, require: str, code: int) -> None:
    found, said = check(FakeExperiments({"verdict": verdict}), f"--require={require}")
    assert (found, "Not decided to be worse." in said) == (code, verdict in ("open", "cannot_tell"))


@pytest.mark.parametrize(("detect", "code"), [("64", 3), ("0.64", 3), ("65%", 0), ("80", 0)])
def test_an_open_verdict_of_a_run_too_small_for_the_difference_is_no_pass(
    check: Any, detect: str, code: int
) -> None:
    found, said = check(FakeExperiments(OPEN), f"--detect={detect}")
    assert found == code
    assert ("It was to find a 64:36 loss" in said) == (code == 3)
    assert check(FakeExperiments({"verdict": "worse"}), f"--detect={detect}")[0] == 1
    assert check(FakeExperiments({"verdict": "no_worse"}), f"--detect={detect}")[0] == 0


def test_a_run_that_could_not_have_failed_is_no_pass(check: Any) -> None:
    code, said = check(FakeExperiments(OPEN, finds=None, size=5))
    assert code == 3
    assert "With 5 prompts, this run could not find any difference in 4 of 5 cases." in said


@pytest.mark.parametrize("verdict", ["open", "no_worse", "better"])
@pytest.mark.parametrize(("counts", "code"), [((0, 0, 0), 3), ((20, 9, 20), 3), ((20, 20, 20), 0)])
def test_missing_answers_are_not_ties(
    check: Any, counts: tuple[int, int, int], code: int, verdict: str
) -> None:
    measured = dict(zip(("better", "same", "worse"), counts, strict=True))
    found, said = check(FakeExperiments({"verdict": verdict, "looked_at": 71} | measured))
    assert found == code
    assert ("Too little was measured" in said) == (code == 3)


@pytest.mark.parametrize(
    ("looked_at", "measured", "code"),
    [(2, 0, 3), (2, 1, 0), (5, 3, 3), (5, 4, 0), (10, 8, 0), (10, 7, 3)],
)
def test_one_missing_verdict_is_no_gap(
    check: Any, looked_at: int, measured: int, code: int
) -> None:
    draft = {"verdict": "cannot_tell", "better": measured, "same": 0, "worse": 0}
    assert check(FakeExperiments(draft | {"looked_at": looked_at}))[0] == code


@pytest.mark.parametrize(
    ("verdict", "code"),
    [("open", 2), ("cannot_tell", 2), ("better", 0), ("no_worse", 0), ("worse", 1)],
)
def test_a_stopped_experiment_is_an_error_unless_its_verdict_is_known(
    check: Any, verdict: str, code: int
) -> None:
    stopped = {"state": "stopped", "reason": "greet has no answers: 401: no such key"}
    found, said = check(
        FakeExperiments({"verdict": verdict, "failed": 7, "errors": [REPLY]}, **stopped)
    )
    assert found == code
    assert "7 answers failed: 401: no such key" in said
    assert ("The experiment was stopped: greet has no answers" in said) == (code == 2)


@pytest.mark.parametrize("is_guard", [False, True])
@pytest.mark.parametrize("verdict", ["better", "open", "no_worse"])
def test_a_failed_check_fails_whatever_the_verdict(
    check: Any, verdict: str, is_guard: bool
) -> None:
    fake = FakeExperiments({"verdict": verdict, "checks": [checked(False, is_guard=is_guard)]})
    code, said = check(fake)
    assert code == 1
    assert "Check failed: No promise of a date" in said
    assert "A refund: says: Friday" in said
    assert check(FakeExperiments({"verdict": verdict, "checks": [checked(True)]}))[0] == 0


def test_what_is_not_finished_in_time_ends_with_3_and_goes_on(check: Any) -> None:
    code, said = check(FakeExperiments(OPEN, state="running"), "--wait=60s")
    assert code == 3
    assert said.endswith(f"The experiment: not finished after 60 s. {ringside_client.GOES_ON}\n")


@pytest.mark.parametrize(("verdict", "code"), [("worse", 1), ("better", 0)])
def test_a_verdict_that_no_more_verdicts_change_is_not_waited_for(
    check: Any, verdict: str, code: int
) -> None:
    assert check(FakeExperiments({"verdict": verdict}, state="running"), "--wait=0")[0] == code


def test_an_interrupted_check_ends_with_3_and_goes_on(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ringside_client.Ringside, "wait_for_experiment", interrupt)
    code, said = check(FakeExperiments())
    assert code == 3
    assert said.endswith(f"Interrupted. {ringside_client.GOES_ON}\n")


def test_what_is_refused_ends_with_2_and_its_sentence(check: Any) -> None:
    fake = FakeExperiments(**{"state": "draft"})
    fake.refused["run/"] = problem(422, "The budget is used up.")
    code, said = check(fake)
    assert code == 2
    assert said.endswith("The budget is used up. (422 Title)\n")


def test_an_experiment_that_another_job_has_started_is_waited_for(check: Any) -> None:
    fake = FakeExperiments({"verdict": "worse"})
    fake.refused["run/"] = problem(422, "This experiment has been started.")
    assert check(fake)[0] == 1


def test_a_baseline_that_is_not_there_ends_with_2(check: Any) -> None:
    fake = FakeExperiments()
    code, said = check(fake, "--baseline=nobody")
    assert (code, said) == (2, "The arena `a` has no candidate 'nobody' that you can see.\n")
    assert not fake.created


def test_a_candidate_of_which_nothing_is_known_ends_with_2(check: Any) -> None:
    code, said = check(FakeExperiments(), "--judge=x", plain=True)
    assert code == 2
    assert "--answers" in said


def test_a_file_that_is_not_there_ends_with_2(check: Any) -> None:
    options = ["--system-prompt-file=/no/such/file", "--judge=x"]
    code, said = check(FakeExperiments(), *options, plain=True)
    assert (code, said) == (2, "/no/such/file cannot be used: No such file or directory.\n")


@pytest.mark.parametrize(
    "options",
    [
        *(["--wait=soon"], ["--wait=-5"], ["--require=best"], ["--parameters=[1]"]),
        *(['--parameters={"t": NaN}'], ['--parameters={"t": 1e999}']),
        *(["--cap=nan"], ["--cap=inf"], ["--cap=-1"], ["--cap=much"], ["--answers-cap=nan"]),
        *(["--detect=50"], ["--detect=much"], ["--margin=50"], ["--margin=0"], ["--detect=nan"]),
    ],
)
def test_what_cannot_be_read_ends_with_2(check: Any, options: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        check(FakeExperiments(), *options)
    assert caught.value.code == 2


@pytest.mark.parametrize(
    "options",
    [
        *([], ["--raters=judges"], ["--raters=people", "--judge=x"]),
        *(["--raters=combined", "--judge=x"], ["--raters=combined"]),
    ],
)
def test_who_judges_has_to_be_said(check: Any, prompt_file: Path, options: list[str]) -> None:
    fake = FakeExperiments()
    code, said = check(fake, f"--system-prompt-file={prompt_file}", *options, plain=True)
    assert code == 2
    assert "--raters people" in said
    assert not fake.asked


def test_without_an_address_an_arena_or_a_name_it_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", "--url=", "--arena=a", "--candidate=b", "--judge=x"]) == 2
    assert "https://arena.example" in capsys.readouterr().out
    assert main(["check", "--judge=x"]) == main(["check", "a", "--judge=x"]) == 2
    assert "Name the arena and the candidate" in capsys.readouterr().out


@pytest.mark.parametrize(("require", "code"), [("not-worse", 0), ("better", 1), ("known", 3)])
def test_a_draft_that_is_the_baseline_itself_costs_nothing(
    check: Any, prompt_file: Path, require: str, code: int
) -> None:
    prompt_file.write_text("Be long.\n")
    fake = FakeExperiments()
    found, said = check(fake, "--model=m-1", f"--require={require}")
    assert found == code
    assert "greet is the same as concise v3: there is nothing to compare." in said
    assert not fake.sent("run/")

    fake = FakeExperiments()
    options = ["--arena=a", "--candidate=old", "--baseline=12", "--judge=x"]
    assert check(fake, *options, f"--require={require}", plain=True)[0] == code
    assert not fake.created


@pytest.mark.parametrize(
    "body",
    [{"hello": 1}, [], 5, None, {"name": "A", "results": 5, "next": None}, {"name": [], "next": 5}],
)
def test_an_answer_of_another_shape_ends_with_2(
    body: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeRingside(Said(body)) as server:
        code = main(["check", "a", "b", f"--url={server.url}", "--judge=x"])
    said = capsys.readouterr()
    assert code == 2
    assert len((said.out + said.err).splitlines()) == 1
    assert "Traceback" not in said.err


@pytest.mark.parametrize("debug", [False, True])
def test_an_internal_error_exits_with_2_and_offers_a_traceback(
    debug: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr(ringside_client.Ringside, "arena", fail)
    options = ["--debug"] if debug else []
    assert main(["check", "a", "new", "--judge=x", *options]) == 2
    *trace, last = capsys.readouterr().err.splitlines()
    assert last == "This program crashed: ZeroDivisionError: by zero. Use --debug for a traceback."
    assert bool(trace) == debug


def test_a_name_that_the_terminal_cannot_write_ends_as_ever(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="cp1252"))
    assert check(FakeExperiments(), "--candidate=\u65b0\u3057\u3044\u6848")[0] == 0
    assert b"???? against concise v3" in written.getvalue()


def test_a_reader_who_has_gone_is_no_verdict(check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, said: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("sys.stdout", Closed())
    assert check(FakeExperiments())[0] == 2


@pytest.mark.parametrize("evil", ["::error::x", "a\n::set-env name=A::b", "##[error]x", "\x1b[2J"])
def test_no_text_of_others_is_a_command_of_the_ci(check: Any, evil: str) -> None:
    draft = {"sentence": evil, "failed": 1, "errors": [{"reason": evil, "count": 1}]}
    _, said = check(FakeExperiments(draft))
    lines = [line.lstrip() for line in said.splitlines()]
    assert not [line for line in lines if line.startswith(("::", "##["))]
    assert "\x1b" not in said
