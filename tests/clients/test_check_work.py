"""`ringside check`: what it does, and in what order."""

from pathlib import Path
from typing import Any

import pytest

from clients.python import ringside_client
from clients.python.ringside_client import main
from tests.clients.fake_experiments import NEW, PLANNED, FakeExperiments, check, prompt_file
from tests.clients.fake_ringside import problem

__all__ = ["check", "prompt_file"]
ROW = {"prompt_id": "p1", "text": "x"}


def test_it_says_what_it_costs_and_finds_before_anything_is_spent(check: Any) -> None:
    fake = FakeExperiments()
    _, said = check(fake, "--detect=65", "--cap=0.5")
    quote, verdict = (
        said.index("Quote: 100 prompts, about $0.84, at most $1.10"),
        said.index("wins"),
    )
    assert quote < verdict
    assert "stopped at the cap of $0.50; it can find a 65:35 loss in 4 of 5 cases." in said
    plan = {"judges": ["x"], "side": "worse", "detect": 0.65, "cap": 0.5}
    assert fake.sent("quote/") == fake.sent("run/") == [plan]


def test_too_few_prompts_for_the_difference_are_said_before(check: Any) -> None:
    fake = FakeExperiments()
    fake.quote |= {"detect": 0.55, "needed": 620, "available": 120}
    _, said = check(fake, "--detect=55")
    assert "To find a 55:45 loss takes 620 prompts; this arena has 120." in said


@pytest.mark.parametrize(
    ("options", "plan"),
    [
        ([], {"judges": ["x"], "side": "worse"}),
        (["--require=better"], {"judges": ["x"], "side": "both"}),
        (["--require=known"], {"judges": ["x"], "side": "worse"}),
        (["--size=60"], {"judges": ["x"], "side": "worse", "size": 60}),
        (["--margin=40"], {"judges": ["x"], "side": "worse", "margin": 0.4}),
        (["--per-pair=60"], {"judges": ["x"], "side": "worse", "size": 60}),
        (["--cap=2", "--answers-cap=0.5"], {"judges": ["x"], "side": "worse", "cap": 2.5}),
        (["--own-family"], {"judges": ["x"], "side": "worse", "own_family": True}),
        (["--judge=a:b,c:d@pairwise"], {"judges": ["a:b", "c:d@pairwise"], "side": "worse"}),
        (["--judge=x,y", "--raters=juries"], {"judges": ["x", "y"], "side": "worse"}),
    ],
)  # fmt: skip
def test_the_options_are_the_plan(check: Any, options: list[str], plan: dict[str, Any]) -> None:
    fake = FakeExperiments()
    check(fake, *options)
    assert fake.sent("run/") == [plan]


@pytest.mark.parametrize(("options", "votes"), [([], 50), (["--per-pair=80"], 80)])
def test_people_are_asked_by_a_link_and_not_waited_for(
    check: Any, prompt_file: Path, options: list[str], votes: int
) -> None:
    people = {"done": 0, "wanted": votes, "link": "https://arena.example/r/s/"}
    claim = {"prompts": 0, "votes": 0, "missing": None}
    fake = FakeExperiments(
        {"verdict": "open", "people": claim}, judges=[], people=people, state="running", finds=None
    )
    given = ["--raters=people", f"--system-prompt-file={prompt_file}", *options]
    code, said = check(fake, *given, plain=True)
    assert code == 3
    assert fake.sent("run/") == [{"side": "worse", "people": votes}]
    assert "https://arena.example/r/s/" in said


@pytest.mark.parametrize(("prompts", "code"), [(7, 3), (8, 0)])
def test_few_human_votes_are_no_verdict(
    check: Any, prompt_file: Path, prompts: int, code: int
) -> None:
    people = {"done": prompts, "wanted": 50, "link": ""}
    claim = {"prompts": prompts, "votes": prompts, "missing": None}
    fake = FakeExperiments({"verdict": "open", "people": claim}, judges=[], people=people)
    given = ["--raters=people", f"--system-prompt-file={prompt_file}"]
    assert check(fake, *given, plain=True)[0] == code


def test_the_draft_is_what_was_given_and_reuses_an_experiment(
    check: Any, prompt_file: Path
) -> None:
    fake = FakeExperiments()
    check(fake, "--baseline=old", "--model=m-2")
    draft = {"name": "greet", "system_prompt": "Be kind.\n", "model": "m-2"}
    plan = {"judges": ["x"], "side": "worse"}
    body = {"drafts": [draft], "baseline": 12, "name": "greet", "reuse": True, "plan": plan}
    assert fake.sent("arenas/a/experiments/") == [body]


def test_the_old_options_name_the_same(prompt_file: Path) -> None:
    with FakeExperiments() as fake:
        options = ["--arena=a", "--candidate=greet", "--baseline=12", "--judge=x"]
        main(["check", f"--url={fake.url}", *options, f"--system-prompt-file={prompt_file}"])
        [body] = fake.sent("arenas/a/experiments/")
    assert (body["name"], body["baseline"]) == ("greet", 12)


def test_a_draft_is_called_like_its_file_unless_it_has_a_name(prompt_file: Path) -> None:
    with FakeExperiments() as fake:
        options = [f"--url={fake.url}", "--judge=x", f"--system-prompt-file={prompt_file}"]
        main(["check", "a", *options])
        [body] = fake.sent("arenas/a/experiments/")
    assert body["name"] == "support.md"


@pytest.mark.parametrize("state", ["running", "done", "stopped"])
def test_an_experiment_that_is_there_is_not_paid_twice(check: Any, state: str) -> None:
    fake = FakeExperiments()
    fake.before = PLANNED | {"state": state}
    assert check(fake)[0] == 0
    assert fake.created == 1
    assert len(fake.sent("run/")) == (state == "stopped")


@pytest.mark.parametrize(
    ("options", "quoted"),
    [
        *((["--judge=y"], {}), (["--require=better"], {}), (["--margin=40"], {})),
        (["--size=50"], {"size": 50}),
    ],
)
def test_the_same_draft_measured_in_another_way_is_another_experiment(
    check: Any, options: list[str], quoted: dict[str, Any]
) -> None:
    fake = FakeExperiments()
    fake.before, fake.quote = PLANNED | {"state": "done"}, fake.quote | quoted
    _, said = check(fake, *options)
    assert "measured in another way" in said
    assert [body["reuse"] for body in fake.sent("arenas/a/experiments/")] == [True, False]


def test_answers_are_uploaded_into_the_experiment(check: Any, tmp_path: Path) -> None:
    file, models = tmp_path / "answers.csv", []
    for text in ("x", "x", "y"):
        file.write_text(f"prompt_id,text\np1,{text}\n")
        fake = FakeExperiments()
        _, said = check(fake, f"--answers={file}")
        [body] = fake.sent("arenas/a/experiments/")
        [draft] = body["drafts"]
        models.append(draft["model"])
        assert (draft["endpoint"], draft["parameters"], body["prompts"]) == ("", {}, ["p1"])
        [sent] = fake.sent("arenas/x-1/candidates/214/responses/")
        assert sent == {"responses": [{"prompt_id": "p1", "text": text}]}
    assert "Prompts without an answer, which are left out: 1.\nAnswers: 1 added" in said
    assert models[0] == models[1] != models[2]


def test_answers_of_an_experiment_that_has_started_stay(check: Any, tmp_path: Path) -> None:
    file = tmp_path / "answers.csv"
    file.write_text("prompt_id,text\np1,x\np2,y\n")
    fake = FakeExperiments()
    fake.before = PLANNED | {"state": "done"}
    assert check(fake, f"--answers={file}")[0] == 0
    assert not fake.sent("responses/")


@pytest.mark.parametrize(
    ("row", "why"),
    [("p9,x", "Nothing was uploaded: one row is invalid.\n  Row 1:"), ("", "has no answers.")],
)
def test_unusable_answers_create_nothing(check: Any, tmp_path: Path, row: str, why: str) -> None:
    file = tmp_path / "answers.csv"
    file.write_text(f"prompt_id,text\n{row}\n")
    fake = FakeExperiments()
    code, said = check(fake, f"--answers={file}")
    assert code == 2
    assert why in said
    assert not fake.created


def test_a_candidate_of_the_arena_is_compared_by_the_answers_it_has(check: Any) -> None:
    fake = FakeExperiments()
    fake.answers_of[17] = [ROW | {"messages": None, "tokens_in": None, "cost": 0.001}]
    options = ["--candidate=new", "--judge=x"]
    check(fake, *options, plain=True)
    [draft] = fake.sent("arenas/a/experiments/")[0]["drafts"]
    assert (draft["system_prompt"], draft["endpoint"]) == (NEW["system_prompt"], "")
    assert draft["model"].startswith("m-1, answers ")
    assert fake.sent("candidates/214/responses/") == [{"responses": [ROW | {"cost": 0.001}]}]

    fake = FakeExperiments()
    check(fake, *options, plain=True)
    [draft] = fake.sent("arenas/a/experiments/")[0]["drafts"]
    assert (draft["model"], draft["endpoint"]) == ("m-1", "local")


def test_a_missing_judge_is_found_before_anything_is_created(check: Any) -> None:
    fake = FakeExperiments()
    fake.refused["judges/"] = problem(422, "There is no judge called 'x'.")
    code, said = check(fake)
    assert (code, said) == (2, "There is no judge called 'x'. (422 Title)\n")
    assert not fake.created


def test_the_baseline_against_itself_costs_no_more_than_the_cap(check: Any) -> None:
    twin = {"state": "done", "prompts": 20, "flips": 1, "sentence": "It won or lost 1 of 20."}
    fake = FakeExperiments(twin=twin)
    code, said = check(fake, "--twin")
    assert code == 0
    assert "It won or lost 1 of 20." in said
    assert fake.sent("twin/") == [{"cap": pytest.approx(1.1 - 0.6)}]


def test_a_baseline_that_cannot_be_compared_with_itself_changes_no_verdict(check: Any) -> None:
    fake = FakeExperiments()
    fake.refused["twin/"] = problem(422, "Uploaded answers have no twin.")
    code, said = check(fake, "--twin")
    assert code == 0
    assert "Uploaded answers have no twin." in said


@pytest.mark.parametrize(
    ("options", "patience"), [([], 1800), (["--wait=90s"], 90), (["--wait=0"], 0)]
)
def test_verdicts_are_waited_for_half_an_hour_unless_said(
    check: Any, monkeypatch: pytest.MonkeyPatch, options: list[str], patience: float
) -> None:
    waited: list[float] = []

    def wait(client: Any, slug: str, patience: float) -> Any:
        waited.append(patience)
        return client.experiment(slug)

    monkeypatch.setattr(ringside_client.Ringside, "wait_for_experiment", wait)
    check(FakeExperiments(), *options)
    assert waited == [pytest.approx(patience, abs=1e-6)]


def test_the_summary_is_added_and_the_comment_replaced(check: Any, tmp_path: Path) -> None:
    summary, comment = tmp_path / "summary.md", tmp_path / "comment.md"
    summary.write_text("Before.\n")
    for _ in range(2):
        check(FakeExperiments(), f"--summary={summary}", f"--comment={comment}")
    assert summary.read_text().startswith("Before.\n### Ringside: **better** than `concise v3`\n")
    assert summary.read_text().count("### Ringside") == 2
    assert comment.read_text().startswith("<!-- ringside: a/greet -->\n### Ringside: **better**")
    assert comment.read_text().count("### Ringside") == 1


def test_a_file_that_cannot_be_written_changes_no_verdict(check: Any) -> None:
    code, said = check(FakeExperiments({"verdict": "worse"}), "--comment=/no/such/folder/file")
    assert code == 1
    assert "/no/such/folder/file was not written: No such file or directory." in said


def test_the_help_says_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["check", "--help"])
    said = capsys.readouterr().out
    assert all(f"\n  {code}  " in said for code in range(4))
    assert "nothing was measured" in said
    assert "default: 30m" in " ".join(said.split())


def test_answers_to_half_of_the_prompts_give_no_verdict(check: Any, tmp_path: Path) -> None:
    file = tmp_path / "answers.csv"
    file.write_text("prompt_id,text\np1,x\n")
    code, said = check(FakeExperiments(), f"--answers={file}")
    assert code == 3
    assert "Too little was uploaded: answers to 1 of 2 prompts only." in said


def test_a_link_out_of_the_repository_is_not_read(
    check: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("token")
    (tmp_path / "repository").mkdir()
    link = tmp_path / "repository" / "prompt.txt"
    link.symlink_to(tmp_path / "secret")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path / "repository"))
    fake = FakeExperiments()
    code, said = check(fake, f"--system-prompt-file={link}")
    assert (code, fake.created) == (2, 0)
    assert "leads outside of the repository" in said
