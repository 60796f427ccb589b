"""A decision that turns round twice is a third one: they are numbered, and no lead is once."""

from typing import Any
from django.db import migrations, models


QUESTION = ("team_id", "candidate_id", "baseline_id", "board_id")


def number_them(apps: Any, schema_editor: Any) -> None:
    decisions = apps.get_model("judges", "Decision").objects.using(schema_editor.connection.alias)
    count: dict[tuple[int, ...], int] = {}
    for pk, *question in decisions.order_by("known_at", "pk").values_list("pk", *QUESTION):
        key = tuple(question)
        count[key] = count.get(key, 0) + 1
        if count[key] > 1:
            decisions.filter(pk=pk).update(number=count[key])


class Migration(migrations.Migration):
    dependencies = [("judges", "0005_teams")]

    operations = [
        migrations.RemoveConstraint(model_name="decision", name="decision_once"),
        migrations.AddField(
            model_name="decision",
            name="number",
            field=models.PositiveSmallIntegerField(default=1),
        ),
        migrations.RunPython(number_them, migrations.RunPython.noop),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.UniqueConstraint(
                fields=("team", "candidate", "baseline", "board", "number"), name="decision_once"
            ),
        ),
    ]
