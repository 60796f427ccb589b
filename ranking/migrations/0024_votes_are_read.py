from django.db import migrations, models


def mark_stale(apps, schema_editor):
    """The digests of leaderboards are made from other content."""
    apps.get_model("ranking", "ArenaRefresh").objects.update(is_stale=True)


# Members before their tallies.
TALLIES = (
    *("TallyMember", "Tally", "TalliedTrust", "ClusterTally", "RaterTally", "TallyDelta"),
    "EloCheckpoint",
)


class Migration(migrations.Migration):
    dependencies = [("ranking", "0023_intervals_fitted_anew"), ("arena", "0041_votes_in_the_log")]

    operations = [
        *(migrations.DeleteModel(name) for name in TALLIES),
        migrations.RemoveField(model_name="votelog", name="counts_verified"),
        migrations.AddField(
            model_name="arenarefresh",
            name="newest_vote_id",
            field=models.BigIntegerField(default=0, editable=False, help_text="The newest vote that the last refresh read."),
        ),
        migrations.AlterField(
            model_name="snapshotmatrices",
            name="cells",
            field=models.BinaryField(help_text="The votes per pair that the scores are based on."),
        ),
        migrations.RunPython(mark_stale, migrations.RunPython.noop),
    ]
