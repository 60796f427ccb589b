"""Judges have no rater of their own any more: their epochs have."""

from django.db import migrations, models
import django.db.models.deletion


class Migration(migrations.Migration):
    dependencies = [("judges", "0003_first_epochs")]

    operations = [
        migrations.RemoveField(model_name="judge", name="rater"),
        migrations.RemoveField(model_name="judgement", name="judge"),
        migrations.RemoveField(model_name="runjudge", name="judge"),
        migrations.AlterField(
            model_name="judgement",
            name="epoch",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="judgements",
                to="judges.epoch",
            ),
        ),
        migrations.AlterField(
            model_name="runjudge",
            name="epoch",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="run_judges",
                to="judges.epoch",
            ),
        ),
    ]
