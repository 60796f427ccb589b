"""The Action: its script in bash, with a runner's environment, and the one comment it keeps."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from clients.python.ringside_client import main
from tests.clients.fake_experiments import FakeExperiments, prompt_file
from tests.clients.fake_github import BOT, PERSON, FakeGitHub
from tests.environment import REPOSITORY

__all__ = ["prompt_file"]
MARKER = "<!-- ringside: a/greet -->"
ACTION = yaml.safe_load((REPOSITORY / "action.yml").read_text())
[STEP] = ACTION["runs"]["steps"]
EXPRESSION = re.compile(r"^\$\{\{ inputs\.([a-z-]+) \}\}$")


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    with FakeGitHub() as running:
        running.add(f"{MARKER}\nI quote the bot.", PERSON)
        for n in range(4):
            running.add(f"Comment {n}", BOT if n % 2 else PERSON)
        yield running


def run_step(
    fake: FakeExperiments, folder: Path, environment: dict[str, str], **inputs: str
) -> subprocess.CompletedProcess[str]:
    """Run the step as a runner does: inputs become its environment, and nothing of its script."""
    usual = {name: str(given.get("default", "")) for name, given in ACTION["inputs"].items()}
    given = usual | {"url": fake.url, "token": "rs_x", "arena": "a", "name": "greet", "judges": "x"}
    given |= {"github-token": environment.get("GITHUB_TOKEN", "")}
    given |= {name.replace("_", "-"): value for name, value in inputs.items()}
    own = {}
    for name, expression in STEP["env"].items():
        match = EXPRESSION.match(expression)
        assert match, expression
        own[name] = given[match[1]]
    script = folder / "step.sh"
    script.write_text(STEP["run"])
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "no_proxy": "127.0.0.1"}
        | {"GITHUB_ACTION_PATH": str(REPOSITORY)}
        | environment
        | own,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_action_is_made_of_its_inputs_alone() -> None:
    """No input is interpolated into the script, where it would be code."""
    assert "${{" not in STEP["run"]
    used = {match[1] for text in STEP["env"].values() if (match := EXPRESSION.match(text))}
    assert used == ACTION["inputs"].keys()
    assert (STEP["shell"], ACTION["runs"]["using"]) == ("bash", "composite")
    for name in STEP["env"].keys() - {"RINGSIDE_URL", "RINGSIDE_TOKEN", "GITHUB_TOKEN"}:
        assert f'"${name}"' in STEP["run"]
    assert STEP["run"].count('"$') + STEP["run"].count('"${') >= len(STEP["env"]) - 3


def test_three_pushes_leave_one_comment(github: FakeGitHub, prompt_file: Path) -> None:
    folder = prompt_file.parent
    for verdict, code in (("open", 0), ("worse", 1), ("better", 0)):
        with FakeExperiments({"verdict": verdict}) as fake:
            done = run_step(
                fake, folder, github.environment(folder), system_prompt_file=prompt_file.name
            )
        assert done.returncode == code, done.stdout + done.stderr
    own = [body for body in github.own if body.startswith(MARKER)]
    assert len(own) == 1
    assert "### Ringside: **better** than `concise v3`" in own[0]
    assert "`greet` at `9f3c1ab`" in own[0]
    assert ["in progress" in body for body in github.edits] == [False, True, False, True, False]
    assert github.comments[0]["body"] == f"{MARKER}\nI quote the bot."
    assert (folder / "summary.md").read_text().count("### Ringside: **") == 3
    assert github.tokens == {"Bearer ghs_of-a-test"}


def test_every_input_reaches_the_check(github: FakeGitHub, prompt_file: Path) -> None:
    folder = prompt_file.parent
    (folder / "user.txt").write_text("Q: {{ prompt }}")
    twin = {"state": "done", "prompts": 20, "flips": 1, "sentence": "It won or lost 1 of 20."}
    with FakeExperiments(side="both", margin=0.4, twin=twin) as fake:
        done = run_step(
            fake,
            folder,
            github.environment(folder),
            **{"baseline": "12", "system_prompt_file": "support.md", "template_file": "user.txt"},
            **{"endpoint": "e", "model": "m", "detect": "65", "size": "60", "margin": "40"},
            **{"require": "better", "cap": "2", "twin": "true", "wait": "5m", "comment": "false"},
        )
        [made], [plan] = fake.sent("arenas/a/experiments/"), fake.sent("run/")
        assert len(fake.sent("twin/")) == 1
    assert done.returncode == 0, done.stdout
    assert made["drafts"] == [
        {
            "name": "greet",
            "system_prompt": "Be kind.\n",
            "user_template": "Q: {{ prompt }}",
            "endpoint": "e",
            "model": "m",
        }
    ]
    assert plan == {
        "judges": ["x"],
        "side": "both",
        "detect": 0.65,
        "size": 60,
        "margin": 0.4,
        "cap": 2.0,
    }
    assert not github.asked


@pytest.mark.parametrize(
    "evil", ["$(touch pwned)", "`touch pwned`", '"; touch pwned; "', "--url=x"]
)
def test_no_input_is_run(github: FakeGitHub, prompt_file: Path, evil: str) -> None:
    folder = prompt_file.parent
    with FakeExperiments() as fake:
        run_step(
            fake,
            folder,
            github.environment(folder),
            name=evil,
            system_prompt_file="support.md",
            model=evil,
        )
        [body] = fake.sent("arenas/a/experiments/")
    assert body["drafts"][0]["model"] == evil
    assert not (folder / "pwned").exists()


@pytest.fixture
def post(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], prompt_file: Path
) -> Any:
    """Run the command in a pull request's workflow; return its exit code and what it printed."""

    def run(github: FakeGitHub, verdict: str = "worse", **environment: Any) -> tuple[int, str]:
        for name, value in (github.environment(prompt_file.parent) | environment).items():
            monkeypatch.setenv(name, value)
        with FakeExperiments({"verdict": verdict}) as fake:
            options = [f"--url={fake.url}", f"--system-prompt-file={prompt_file}", "--judge=x"]
            code = main(["check", "a", "greet", "--post", *options])
        return code, capsys.readouterr().out

    return run


def test_a_fork_gets_the_summary_alone(github: FakeGitHub, post: Any, prompt_file: Path) -> None:
    environment = github.environment(prompt_file.parent, fork=True)
    path = shutil.copy(environment["GITHUB_EVENT_PATH"], prompt_file.parent / "fork.json")
    code, said = post(github, GITHUB_EVENT_PATH=str(path))
    assert code == 1
    assert "The comment was not posted: a fork's workflow may not comment." in said
    assert not github.asked
    assert "**worse**" in (prompt_file.parent / "summary.md").read_text()


def test_a_token_that_may_not_write_changes_no_verdict(post: Any, prompt_file: Path) -> None:
    with FakeGitHub(writes=False) as github:
        code, said = post(github)
    assert code == 1
    assert "The comment was not posted: GitHub answered 403 Forbidden" in said
    assert "**worse**" in (prompt_file.parent / "summary.md").read_text()


def test_a_comment_that_was_deleted_meanwhile_is_written_anew(
    github: FakeGitHub, post: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clients.python import ringside_client

    def forget(client: Any, slug: str, patience: float) -> Any:
        github.comments[:] = [row for row in github.comments if MARKER not in row["body"]]
        return client.experiment(slug)

    monkeypatch.setattr(ringside_client.Ringside, "wait_for_experiment", forget)
    assert post(github)[0] == 1
    assert len([body for body in github.own if body.startswith(MARKER)]) == 1


@pytest.mark.parametrize(
    "environment",
    [
        *({"GITHUB_API_URL": "http://127.0.0.1:9"}, {"GITHUB_API_URL": "nowhere"}),
        *({"GITHUB_EVENT_PATH": "/no/such/file"}, {"GITHUB_EVENT_PATH": __file__}),
        {"GITHUB_TOKEN": ""},
    ],
)
def test_whatever_github_says_the_exit_code_is_the_verdicts(
    github: FakeGitHub, post: Any, environment: dict[str, str]
) -> None:
    for verdict, code in (("worse", 1), ("better", 0)):
        found, said = post(github, verdict, **environment)
        assert found == code
        assert "The comment was not posted: " in said


def test_the_token_is_sent_to_no_other_address(github: FakeGitHub, post: Any) -> None:
    with FakeGitHub() as stranger:
        github.url, own = stranger.url, github.url  # what its pages link to
        post(github, GITHUB_API_URL=own)
        assert not stranger.asked
