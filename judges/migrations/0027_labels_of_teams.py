"""Labels that a team has uploaded are its own; names and contents are unique among them."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q

import arena.models.fields
import arena.validation
import judges.models.labels


class Migration(migrations.Migration):
    dependencies = [("arena", "0058_anchor"), ("judges", "0026_prompt_versions")]

    operations = [
        migrations.AddField(
            "labelset", "from_team", models.BooleanField(db_default=False, default=False)
        ),
        migrations.AddField(
            "labelset",
            "team",
            models.ForeignKey(
                "arena.team",
                judges.models.labels.keep_if_used,
                blank=True,
                null=True,
                related_name="label_sets",
            ),
        ),
        migrations.AlterField("labelset", "digest", models.CharField(max_length=64)),
        migrations.AlterField(
            "labelset",
            "name",
            models.CharField(
                max_length=200,
                validators=[
                    arena.models.fields.Check(arena.validation.clean_visible_name, limit=200)
                ],
            ),
        ),
        migrations.AlterField(
            "rubrictrial",
            "labels_in",
            models.ForeignKey(
                "judges.labelset", django.db.models.deletion.CASCADE, related_name="trials"
            ),
        ),
        migrations.AlterField(
            "runjudge",
            "labels_in",
            models.ForeignKey(
                "judges.labelset",
                django.db.models.deletion.PROTECT,
                blank=True,
                null=True,
                related_name="run_judges",
            ),
        ),
        *(
            migrations.AddConstraint("labelset", constraint)
            for constraint in (
                models.UniqueConstraint(
                    fields=["name"], condition=Q(from_team=False), name="label_set_name_once"
                ),
                models.UniqueConstraint(
                    fields=["digest"], condition=Q(from_team=False), name="label_set_digest_once"
                ),
                models.UniqueConstraint(
                    fields=["team", "name"], name="label_set_name_once_per_team"
                ),
                models.UniqueConstraint(
                    fields=["team", "digest"], name="label_set_digest_once_per_team"
                ),
                models.CheckConstraint(
                    condition=Q(team=None) | Q(from_team=True), name="label_set_team_is_its_source"
                ),
                models.CheckConstraint(
                    condition=Q(from_arena=False) | Q(from_team=False),
                    name="label_set_has_one_source",
                ),
            )
        ),
    ]
