from django.db import migrations, models


def keep_earlier_trust(apps, schema_editor):
    """Labels that gave trust go on giving it; an arena's newest measurement decides there."""
    Calibration = apps.get_model("judges", "Calibration")
    ArenaTrust = apps.get_model("arena", "ArenaTrust")
    against_people = Calibration.objects.filter(epoch__ended_at=None).exclude(kind="honeypots")
    gave_trust = against_people.filter(
        arena=None, trusted=True, epoch__rater__trusted_at__isnull=False
    )
    gave_trust.update(everywhere=True)
    newest = {}
    rows = against_people.exclude(arena=None).order_by("made_at", "pk")
    for rater, arena, trusted, made_at in rows.values_list(
        "epoch__rater", "arena", "trusted", "made_at"
    ):
        newest[rater, arena] = (trusted, made_at)
    ArenaTrust.objects.bulk_create(
        ArenaTrust(rater_id=rater, arena_id=arena, trusted=trusted, decided_at=made_at)
        for (rater, arena), (trusted, made_at) in newest.items()
    )


class Migration(migrations.Migration):
    dependencies = [
        ("arena", "0023_trust_in_arenas"),
        ("judges", "0011_calls_of_their_own"),
    ]

    operations = [
        migrations.AddField(
            model_name="calibration",
            name="everywhere",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="An administrator lets these labels decide on trust in all arenas where "
                "the judge is not measured.",
            ),
        ),
        migrations.AddConstraint(
            model_name="calibration",
            constraint=models.CheckConstraint(
                condition=models.Q(everywhere=False)
                | models.Q(arena=None) & ~models.Q(kind="honeypots"),
                name="calibration_everywhere_is_on_labels",
            ),
        ),
        migrations.RunPython(keep_earlier_trust, migrations.RunPython.noop, elidable=True),
    ]
