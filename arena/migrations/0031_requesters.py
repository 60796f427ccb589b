from django.db import migrations, models
from django.db.models import Q

ANSWERED = ["running", "done", "unreadable", "refused", "too_long"]


class Migration(migrations.Migration):
    dependencies = [
        ("arena", "0030_template_messages"),
        # Earlier migrations of judges read calls by the names that change here.
        ("judges", "0018_readings"),
    ]

    operations = [
        migrations.RemoveConstraint("call", "call_once_per_run"),
        migrations.RemoveConstraint("call", "call_asked_by_one_run"),
        migrations.RemoveConstraint("runasker", "asker_once_per_run"),
        migrations.RenameField("call", "ring_after", "enqueue_after"),
        migrations.RenameField("call", "asker", "requester"),
        migrations.RenameModel("RunAsker", "RunRequester"),
        migrations.RenameField("runrequester", "asker", "requester"),
        migrations.AlterField(
            "runrequester",
            "run",
            models.ForeignKey("arena.run", models.CASCADE, related_name="requesters"),
        ),
        migrations.AddConstraint(
            "call",
            models.UniqueConstraint(
                fields=["requester", "subject", "sample", "run"], name="call_once_per_run"
            ),
        ),
        migrations.AddConstraint(
            "call",
            models.UniqueConstraint(
                fields=["requester", "subject", "sample"],
                condition=Q(copied=False, state__in=ANSWERED),
                name="call_asked_by_one_run",
            ),
        ),
        migrations.AddConstraint(
            "runrequester",
            models.UniqueConstraint(fields=["run", "requester"], name="requester_once_per_run"),
        ),
    ]
