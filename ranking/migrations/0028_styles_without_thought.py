"""The style of answers with a thought or a picture is counted again, by the next refresh."""

from django.db import migrations
from django.db.models import Q


def forget_styles(apps, schema_editor):
    style = apps.get_model("ranking", "ResponseStyle")
    refresh = apps.get_model("ranking", "ArenaRefresh")
    response = apps.get_model("arena", "Response")
    otherwise = response.objects.filter(
        Q(text__icontains="</think") | Q(text__icontains=";base64,"), style__isnull=False
    )
    arenas = list(otherwise.values_list("candidate__arena", flat=True).distinct())
    style.objects.filter(response__in=otherwise.values("pk")).delete()
    refresh.objects.filter(arena__in=arenas).update(is_stale=True)


class Migration(migrations.Migration):
    dependencies = [("arena", "0056_names_in_thought"), ("ranking", "0027_no_target_error")]

    operations = [migrations.RunPython(forget_styles, migrations.RunPython.noop)]
