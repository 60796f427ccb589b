from django.db import migrations


def mark_stale(apps, schema_editor):
    """The same votes give other findings, and a file checks out only against today's."""
    apps.get_model("ranking", "ArenaRefresh").objects.update(is_stale=True)


class Migration(migrations.Migration):
    dependencies = [("ranking", "0017_is_stale"), ("arena", "0035_chosen_pairs")]

    operations = [migrations.RunPython(mark_stale, migrations.RunPython.noop)]
