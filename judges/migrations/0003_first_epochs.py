"""Every judge that was registered gets its first epoch, which keeps its rater and judgements."""

from typing import Any
from django.db import migrations



def give_epochs(apps: Any, schema_editor: Any) -> None:
    """Move what hung on a judge to its first epoch."""
    epochs = apps.get_model("judges", "Epoch")
    for judge in apps.get_model("judges", "Judge").objects.all():
        epoch = epochs.objects.create(
            judge=judge,
            rater_id=judge.rater_id,
            asker=judge.digest,
            started_at=judge.registered_at,
        )
        apps.get_model("judges", "RunJudge").objects.filter(judge=judge).update(epoch=epoch)
        apps.get_model("judges", "Judgement").objects.filter(judge=judge).update(epoch=epoch)
    note_outcomes(apps)


def note_outcomes(apps: Any) -> None:
    """A verdict now stands on its judgement too, in the comparison's own left and right."""
    settled = apps.get_model("judges", "Judgement").objects.filter(state__in=["voted", "abstained"])
    for judgement in settled.select_related("forward").iterator():
        judgement.flipped = judgement.state == "abstained"
        if not judgement.flipped:
            judgement.outcome = (judgement.forward.verdict or {}).get("outcome", "")
        judgement.save(update_fields=["outcome", "flipped"])


class Migration(migrations.Migration):
    dependencies = [("judges", "0002_epochs")]

    operations = [migrations.RunPython(give_epochs, migrations.RunPython.noop)]
