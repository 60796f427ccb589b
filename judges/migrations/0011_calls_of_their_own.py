"""Gives every run the calls and judgements that it waits for, which stood in other runs before."""

from uuid import uuid4

from django.db import migrations
from django.db.models import F, Q
from django.utils import timezone

ANSWERED = ["done", "unreadable", "refused", "too_long"]
UNFINISHED = ["ordered", "open", "paused"]
REPLY = [
    "state", "nonce", "turn", "prompt_digest", "reply", "repair_reply", "verdict", "error",
    "model_returned", "fingerprint", "dropped", "finished_at",
]  # fmt: skip


def give_calls(apps, _):
    Call = apps.get_model("arena", "Call")
    Comparison = apps.get_model("arena", "Comparison")
    Judgement = apps.get_model("judges", "Judgement")
    JuryVerdict = apps.get_model("judges", "JuryVerdict")
    now = timezone.now()

    def own_call(call, run_id):
        """Return the run's own call of the same identity; a reply is copied, what failed failed."""
        if call.run_id == run_id:
            return call
        identity = {name: getattr(call, name) for name in ("asker", "subject", "sample")}
        own = Call.objects.filter(run=run_id, **identity).first()
        if own is None:
            own = Call(run_id=run_id, endpoint=call.endpoint, model=call.model, **identity)
            own.nonce, own.needs = call.nonce, call.needs and own_call(call.needs, run_id)
            if call.state in ANSWERED:
                own.copied = True
                for name in REPLY:
                    setattr(own, name, getattr(call, name))
            elif call.state == "failed":
                own.state, own.error, own.finished_at = "failed", call.error, call.finished_at
            own.save()
        return own

    # Juries that wait for a member's judgement in another run.
    links = JuryVerdict.judgements.through.objects.filter(
        juryverdict__state="waiting",
        juryverdict__run__state__in=UNFINISHED,
        judgement__state="waiting",
    )
    elsewhere = links.exclude(judgement__run=F("juryverdict__run"))
    for link in elsewhere.select_related("juryverdict", "judgement__comparison"):
        run_id, own = link.juryverdict.run_id, link.judgement
        comparison = own.comparison
        comparison.pk, comparison.key, comparison.run_id = None, uuid4(), run_id
        comparison.save(force_insert=True)
        own.pk, own.run_id, own.comparison = None, run_id, comparison
        own.save(force_insert=True)
        link.judgement = own
        link.save(update_fields=["judgement"])

    # Judgements whose calls are another run's, and have no reply.
    of_runs = Judgement.objects.filter(state__in=["waiting", "failed"])
    for way in ("forward", "reverse"):
        others = of_runs.exclude(run__state="cancelled").exclude(**{f"{way}__run": F("run")})
        for judgement in others.exclude(**{f"{way}__state__in": ANSWERED}).select_related(way):
            setattr(judgement, way, own_call(getattr(judgement, way), judgement.run_id))
            judgement.save(update_fields=[way])
    needing = Call.objects.filter(state__in=["waiting", "failed"], needs__isnull=False)
    for call in needing.exclude(needs__run=F("run")).exclude(needs__state="done"):
        call.needs = own_call(call.needs, call.run_id)
        call.save(update_fields=["needs"])

    # Cancelled runs are left to nobody.
    cancelled = Q(state="waiting", run__state="cancelled")
    Call.objects.filter(cancelled).update(state="cancelled", finished_at=now)
    for model in (Judgement, JuryVerdict):
        model.objects.filter(cancelled).update(state="cancelled", settled_at=now)
        model.objects.exclude(state__in=["waiting", "failed", "cancelled"]).update(casts_vote=True)


class Migration(migrations.Migration):
    dependencies = [("judges", "0010_calls_stay_in_their_run")]

    operations = [migrations.RunPython(give_calls, migrations.RunPython.noop, elidable=True)]
