"""An answer whose thought alone says who wrote it is no longer flagged. Votes that were cast on it
keep their flag: their raters did read the thought."""

from django.db import migrations

from arena.self_identification import self_identifies


def flag_again(apps, schema_editor):
    responses = apps.get_model("arena", "Response").objects
    rows = responses.filter(names_itself=True, text__icontains="</think")
    for answer in rows.select_related("candidate").iterator(chunk_size=100):
        names = (answer.candidate.name, answer.candidate.model)
        if not self_identifies(answer.text, names=names):
            responses.filter(pk=answer.pk).update(names_itself=False)


class Migration(migrations.Migration):
    dependencies = [("arena", "0055_live")]

    operations = [migrations.RunPython(flag_again, migrations.RunPython.noop)]
