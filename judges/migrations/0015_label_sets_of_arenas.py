import re

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import OuterRef, Subquery

MADE = re.compile(r"(?:Human votes in|Honeypots from) ([-\w]+)(?: \(\d+\))?")


def find_arenas(apps, schema_editor):
    """Label sets that were made from an arena belong to it, and each label run to its set."""
    LabelSet, RunJudge, Judgement = (
        apps.get_model("judges", name) for name in ("LabelSet", "RunJudge", "Judgement")
    )
    arenas = dict(apps.get_model("arena", "Arena").objects.values_list("slug", "pk"))
    for pk, name in LabelSet.objects.values_list("pk", "name"):
        if made := MADE.fullmatch(name):
            LabelSet.objects.filter(pk=pk).update(from_arena=True, arena=arenas.get(made[1]))
    items = Judgement.objects.filter(run=OuterRef("run"), item__isnull=False).order_by("pk")
    about = Subquery(items.values("item__labels_in")[:1])
    RunJudge.objects.filter(run__arena=None).update(labels_in=about)


class Migration(migrations.Migration):
    dependencies = [
        ("arena", "0026_votes_have_origins"),
        ("judges", "0014_hopeless_judges"),
    ]

    operations = [
        migrations.AddField(
            model_name="labelset",
            name="arena",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="arena.arena",
            ),
        ),
        migrations.AddField(
            model_name="labelset",
            name="from_arena",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="runjudge",
            name="labels_in",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="judges.labelset",
            ),
        ),
        migrations.AddConstraint(
            model_name="labelset",
            constraint=models.CheckConstraint(
                condition=models.Q(arena=None) | models.Q(from_arena=True),
                name="label_set_arena_is_its_source",
            ),
        ),
        migrations.RunPython(find_arenas, migrations.RunPython.noop, elidable=True),
    ]
