"""The style-controlled scores, recomputed from the exported votes by an optimiser of SciPy's."""

import json
import random

import numpy as np
import pytest
from django.test import Client
from django.utils import timezone
from scipy.optimize import minimize

from arena.models import Response
from ranking.exported_votes import STYLE
from tests.factories import make_arena, make_person, make_vote
from tests.ranking.helpers import publish

pytestmark = pytest.mark.django_db

ELO = 400 / np.log(10)


def test_style_s_figures_follow_from_the_export(client: Client) -> None:
    arena = make_arena(n_candidates=3, n_prompts=30, slug="styled")
    chance = random.Random(4)
    for answer in Response.objects.filter(candidate__arena=arena).order_by("pk"):
        words = "word " * chance.randint(5, 60) + "**bold** " * chance.randint(0, 3)
        answer.text = f"{words}\n" + "- item\n" * chance.randint(0, 4)
        answer.save()
    candidates = list(arena.candidates.order_by("pk"))
    raters = [make_person() for _ in range(12)]
    for prompt in arena.prompts.order_by("pk"):
        for rater in chance.sample(raters, 6):
            left, right = chance.sample(candidates, 2)
            outcome = chance.choice(["left", "left", "right", "tie"])
            asked = make_vote(arena, left, right, outcome, prompt, rater).comparison
            asked.left_response = left.responses.get(prompt=prompt)
            asked.right_response = right.responses.get(prompt=prompt)
            asked.save()
    arena.prompts.update(retired_at=timezone.now())  # until then, style would tell the authors
    published = publish(arena).findings["style"]

    text = client.get("/api/v1/arenas/styled/exports/battles.jsonl").getvalue().decode()
    rows = [json.loads(line) for line in text.splitlines()]
    rows = [row for row in rows if row["state"] == "counted"]
    assert len(rows) == published["n_votes"] == 180
    left, right = (
        np.array([[row[f"{side}_{name}"] for name in STYLE] for row in rows], float)
        for side in ("left", "right")
    )
    apart = np.divide(left - right, left + right, out=np.zeros_like(left), where=left + right > 0)
    used = (apart != 0).any(axis=0)
    apart = apart[:, used] / np.sqrt((apart[:, used] ** 2).mean(axis=0))
    ids = [candidate.pk for candidate in candidates]
    sides = np.array([[ids.index(row["left_id"]), ids.index(row["right_id"])] for row in rows])
    score = np.array([{"left": 1, "tie": 0.5, "right": 0}[row["outcome"]] for row in rows])

    def loss(x: np.ndarray) -> float:
        odds = x[sides[:, 0]] - x[sides[:, 1]] + apart @ x[3:]
        # The sum of x fixes the zero of the scores, and moves nothing else.
        return float(np.logaddexp(0, odds).sum() - score @ odds + x[:3].sum() ** 2)

    x = minimize(loss, np.zeros(3 + used.sum()), tol=1e-10).x
    coefficients = [row["coefficient"] for row in published["features"]]
    assert [value is not None for value in coefficients] == used.tolist()
    known = [value for value in coefficients if value is not None]
    assert known == pytest.approx(x[3:] * ELO, abs=0.01)
    scores = [published["scores"][str(pk)]["score"] for pk in ids]
    assert scores == pytest.approx(1000 + (x[:3] - x[:3].mean()) * ELO, abs=0.01)
