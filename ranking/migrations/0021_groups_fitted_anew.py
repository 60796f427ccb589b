from django.db import migrations


def mark_stale(apps, schema_editor):
    """Of two groups with as many candidates and votes, neither is preferred."""
    apps.get_model("ranking", "ArenaRefresh").objects.update(is_stale=True)


class Migration(migrations.Migration):
    dependencies = [("ranking", "0020_claims_fitted_anew")]

    operations = [migrations.RunPython(mark_stale, migrations.RunPython.noop)]
