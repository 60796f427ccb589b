"""`ringside check`: what it does, and in what order."""

from pathlib import Path
from typing import Any

import pytest

from clients.python import ringside_client
from clients.python.ringside_client import NOTHING_TO_DO, RingsideError, main
from tests.clients.check_stub import DECIDED, JUDGED, NEW, OLD, Stub, check

__all__ = ["check"]


def test_what_is_not_said_of_the_candidate_is_the_baselines(check: Any, tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Be brief.\n")
    stub = Stub()
    check(stub, f"--system-prompt-file={prompt}", "--answers-cap=0.5")

    content = {part: OLD[part] for part in ringside_client.USUAL if part in OLD}
    assert stub.done[0] == ("ensure", "new", content | {"system_prompt": "Be brief.\n"})
    assert stub.done[1] == ("generate", 17, 0.5)


def test_other_answers_are_another_version(check: Any, tmp_path: Path) -> None:
    file, notes = tmp_path / "answers.csv", []
    for text in ("x", "x", "y"):
        file.write_text(f"prompt_id,text\np1,{text}\n")
        stub = Stub()
        _, said = check(stub, f"--answers={file}")
        (_, _, made_of), upload, *_ = stub.done
        notes.append(made_of["notes"])
        assert (made_of["endpoint"], made_of["model"]) == ("", "")
        assert upload == ("upload", 17, [{"prompt_id": "p1", "text": text}], True)
    assert "Answers: 2 added, 0 changed, 1 unchanged.\nPrompts without an answer: 1." in said
    assert notes[0] == notes[1] != notes[2]


def test_a_candidate_with_unusable_answers_is_not_registered(check: Any, tmp_path: Path) -> None:
    file = tmp_path / "answers.csv"
    file.write_text("prompt_id,text\np1,x\n")
    stub = Stub(unfit=[{"index": 0, "pointer": "#/responses/0", "detail": "Row 1: Wrong."}])
    assert check(stub, f"--answers={file}") == (
        2,
        "Nothing was uploaded: one row is invalid.\n  Row 1: Wrong.\n",
    )
    assert not stub.done


def test_a_file_without_answers_registers_nothing(check: Any, tmp_path: Path) -> None:
    file = tmp_path / "answers.csv"
    file.write_text("prompt_id,text\n")
    stub = Stub()
    code, said = check(stub, f"--answers={file}")
    assert (code, said) == (2, f"{file} has no answers. Nothing was uploaded.\n")
    assert not stub.done


def test_known_answers_go_in_again_whatever_retired_since(check: Any, tmp_path: Path) -> None:
    file = tmp_path / "answers.csv"
    file.write_text("prompt_id,text\np1,x\n")
    stub = Stub(found=NEW, unfit=[{"index": 0, "pointer": "#/responses/0", "detail": "Retired."}])
    assert check(stub, f"--answers={file}")[0] == 0
    assert [what for what, *_ in stub.done] == ["ensure", "upload", "decide"]


def test_a_missing_judge_is_found_before_anything_is_entered(check: Any) -> None:
    stub = Stub(no_judge=RingsideError("There is no judge called 'x'."))
    code, said = check(stub, "--judge=x", "--model=m-2")
    assert (code, said) == (2, "There is no judge called 'x'.\n")
    assert not stub.done


@pytest.mark.parametrize("option", ["--model=m-2", "--answers"])
def test_an_order_that_would_be_refused_ends_before_answers_are_paid(
    check: Any, tmp_path: Path, option: str
) -> None:
    if option == "--answers":
        file = tmp_path / "answers.csv"
        file.write_text("prompt_id,text\np1,x\n")
        option = f"--answers={file}"
    stub = Stub(quoted=RingsideError("Set the most that the run may cost.", kind="invalid"))
    code, said = check(stub, "--judge=x", option, "--per-pair=9")
    assert (code, said) == (2, "Set the most that the run may cost.\n")
    order = {"judges": ["x"], "candidates": [17, 12], "per_pair": 9, "cap": None}
    assert [what for what, *_ in stub.done] == ["ensure", "quote"]
    assert stub.done[1] == ("quote", order)

    # As before the candidate has answers.
    for kind in (NOTHING_TO_DO, ringside_client.STILL_JUDGING):
        stub = Stub(quoted=RingsideError("No pairs.", kind=kind))
        assert check(stub, "--judge=x", option)[0] == 0
        assert [what for what, *_ in stub.done][1:4] in (
            ["quote", "generate", "judge"],
            ["quote", "upload", "judge"],
        )


def test_judging_is_ordered_for_the_two_alone(check: Any) -> None:
    stub = Stub()
    check(stub, "--judge=a:b,c:d@pairwise", "--per-pair=30", "--cap=2.5", "--wait=30m")
    assert stub.done[0] == (
        "judge",
        {"judges": ["a:b", "c:d@pairwise"], "candidates": [17, 12], "per_pair": 30, "cap": 2.5},
    )


@pytest.mark.parametrize("options", [[], ["--own-family"]])
def test_a_judge_compares_its_own_family_only_on_request(check: Any, options: list[str]) -> None:
    stub = Stub()
    check(stub, "--judge=x", *options)
    [order] = [done[1] for done in stub.done if done[0] == "judge"]
    assert order.get("own_family", False) == bool(options)


@pytest.mark.parametrize(
    ("options", "raters", "run"),
    [
        ([], "people", None),
        (["--judge=x"], "judges", JUDGED["id"]),
        (["--judge=x,y"], "juries", JUDGED["id"]),
        (["--judge=x", "--raters=combined"], "combined", JUDGED["id"]),
    ],
)
def test_the_decision_counts_the_raters_that_were_asked(
    check: Any, options: list[str], raters: str, run: int | None
) -> None:
    stub = Stub()
    check(stub, *options, "--wait=2h")
    what, pair, how = stub.done[-1]
    assert (what, pair, how["raters"], how["run"]) == ("decide", (17, 12), raters, run)
    assert how["patience"] == pytest.approx(60 if run else 7200)


@pytest.mark.parametrize(
    ("options", "patience"), [([], 1800), (["--wait=90s"], 90), (["--wait=0"], 0)]
)
def test_verdicts_are_waited_for_half_an_hour_unless_said(
    check: Any, monkeypatch: pytest.MonkeyPatch, options: list[str], patience: float
) -> None:
    waited: list[float] = []

    def wait(stub: Stub, run: int, *, patience: float) -> Any:
        waited.append(patience)
        return stub.judged

    monkeypatch.setattr(Stub, "wait_for_judges", wait)
    check(Stub(), "--judge=x", *options)
    assert waited == [pytest.approx(patience, abs=1e-6)]


def test_peoples_votes_are_not_waited_for_unasked(check: Any) -> None:
    stub = Stub()
    check(stub)
    assert stub.done[-1][2]["patience"] == 0


def test_where_all_was_judged_already_the_verdict_is_read(check: Any) -> None:
    nothing = RingsideError("All was judged already.", status=422, kind=NOTHING_TO_DO)
    code, said = check(Stub(judged=nothing), "--judge=x")
    assert code == 0
    assert said.endswith(f"All was judged already.\n{DECIDED['sentence']}\n")


def test_the_summary_is_added_as_markdown(check: Any, tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    file.write_text("Before.\n")
    rude = NEW | {"name": "new|<b>`x`", "version": 1}
    check(Stub(there={"old": OLD, "new": rude}), "--judge=x", f"--summary={file}")
    said = file.read_text()
    assert said.startswith("Before.\n**new beats old: it wins 58 % of the time")
    assert "| Candidate | new\\|\\<b\\>\\`x\\` |\n" in said
    assert "| Preferred | 58% of the time (54 to 62) |\n" in said
    assert "| Votes between the two | 1,320 |\n" in said
    assert "| Spent on judges | $0.11 |\n" in said
    assert said.endswith(f"[Decision page]({DECIDED['page']})\n")


def test_what_is_not_known_is_a_dash(check: Any, tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    unknown = DECIDED | {"verdict": "unknown", "wins": None, "wins_low": None, "wins_high": None}
    check(Stub(decided=unknown), f"--summary={file}")
    assert "| Preferred | - |" in file.read_text()


def test_the_help_says_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["check", "--help"])
    said = capsys.readouterr().out
    assert all(f"\n  {code}  " in said for code in range(4))
    assert "no vote compares the two" in said
    assert "default: 30m" in " ".join(said.split())
