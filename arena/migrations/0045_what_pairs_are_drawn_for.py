from django.db import migrations, models


def draw_evenly(apps, schema_editor):
    apps.get_model("arena", "Pair").objects.update(weight=1.0)


class Migration(migrations.Migration):

    dependencies = [
        ('arena', '0044_documents'),
    ]

    operations = [
        migrations.AddField(
            model_name='pair',
            name='first',
            field=models.FloatField(default=0.0),
        ),
        migrations.AddField(
            model_name='pair',
            name='newcomers',
            field=models.FloatField(default=0.0),
        ),
        migrations.AddField(
            model_name='pair',
            name='order',
            field=models.FloatField(default=0.0),
        ),
        # Until the next refresh: what a weight of before is for is not known.
        migrations.RunPython(draw_evenly, migrations.RunPython.noop),
    ]
