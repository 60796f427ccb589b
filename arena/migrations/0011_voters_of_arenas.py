from django.db import migrations
from django.db.models import OuterRef, Subquery


def keep_who_may_vote(apps, schema_editor):
    """Arenas that wanted to know their raters go on wanting that."""
    Arena = apps.get_model("arena", "Arena")
    Arena.objects.filter(anonymous_raters=False).update(voters="signed_in")


def date_candidates(apps, schema_editor):
    """Candidates of before have been there as long as their arenas, as far as anybody knows.

    Dated by this migration, they would look as if all of their votes had come since.
    """
    Arena = apps.get_model("arena", "Arena")
    Candidate = apps.get_model("arena", "Candidate")
    made = Arena.objects.filter(pk=OuterRef("arena")).values("created_at")
    Candidate.objects.update(created_at=Subquery(made))


def back(apps, schema_editor):
    Arena = apps.get_model("arena", "Arena")
    Arena.objects.exclude(voters="anyone").update(anonymous_raters=False)


class Migration(migrations.Migration):

    dependencies = [
        ('arena', '0010_teams'),
    ]

    operations = [
        migrations.RunPython(keep_who_may_vote, back),
        migrations.RunPython(date_candidates, migrations.RunPython.noop),
    ]
