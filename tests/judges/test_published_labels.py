"""The how-to's commands for published labels, run on files of the same form."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from judges.models import LabelSet
from tests.environment import REPOSITORY
from tests.judges.helpers import run_command
from tests.judges.test_labels import PUBLISHED, REQUEST

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
PAGE = (REPOSITORY / "docs" / "how-to" / "use-judges.md").read_text(encoding="utf-8")
COMMANDS = dict(re.findall(r"^\| (\S+) \| `(--labels .+)` \|$", PAGE, re.MULTILINE))
OF_AUTO_J = {"scenario": "code", "prompt": "Why?", "response 1": "So.", "response 2": "No."}
OF_PANDA = {"idx": 0, "cmp_key": "bloom-7b_llama-7b", "instruction": "Why?", "input": float("nan")}
ROWS: dict[str, tuple[dict[str, Any], str]] = PUBLISHED | {
    "prometheus-eval": (
        {
            f"{side}_instruction": REQUEST.format(answer=text, reference="")
            for side, text in (("chosen", "So."), ("rejected", "No."))
        },
        "left",
    ),
    "PandaLM": (
        OF_PANDA
        | {"response1": "So.", "response2": "No."}
        | {f"annotator{number}": said for number, said in enumerate((0, 1, 2), start=1)},
        "tie",
    ),
    "Auto-J": (OF_AUTO_J | {"label": 1}, "right"),
}


def test_the_page_has_each_data_set() -> None:
    assert COMMANDS.keys() == ROWS.keys()


@pytest.mark.parametrize("data_set", COMMANDS)
def test_the_command_for_published_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data_set: str
) -> None:
    row, outcome = ROWS[data_set]
    arguments = shlex.split(COMMANDS[data_set])
    path = tmp_path / arguments[1]
    is_lines = path.suffix == ".jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(row if is_lines else [row]), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    said = run_command("calibrate", "scripted", *arguments, "--no-wait")
    assert "1 items with 1 labels." in said
    item = LabelSet.objects.get().items.get()
    assert (item.prompt, {item.response_1, item.response_2}) == ("Why?", {"So.", "No."})
    better = {"left": item.response_1, "right": item.response_2}
    said = item.labels.get().outcome
    expected = {"left": "So.", "right": "No."}
    assert better.get(said) == expected.get(outcome)
    assert (said == "tie") == (outcome == "tie")
