from django.db import migrations


def mark_stale(apps, schema_editor):
    """Intervals are resampled with other draws, and those of the effects of style allow for raters."""
    apps.get_model("ranking", "ArenaRefresh").objects.update(is_stale=True)


class Migration(migrations.Migration):
    dependencies = [("ranking", "0022_names_in_the_admin")]

    operations = [migrations.RunPython(mark_stale, migrations.RunPython.noop)]
