import django.db.models.deletion
from django.db import migrations, models


def follow_earlier_rules(apps, schema_editor):
    """What is already published was decided by earlier rules."""
    apps.get_model("ranking", "Board").objects.update(follows_claims=False)


def mark_stale(apps, schema_editor):
    """Intervals and leaders are made in another way, so every leaderboard is made again."""
    apps.get_model("ranking", "ArenaRefresh").objects.update(is_stale=True)


class Migration(migrations.Migration):

    dependencies = [
        ('arena', '0043_backups'),
        ('ranking', '0025_backups_in_arena'),
    ]

    operations = [
        migrations.AddField(
            model_name='board',
            name='follows_claims',
            field=models.BooleanField(default=True, editable=False, help_text='Whether its decisions are Claims already; not before they are first looked at after an upgrade from an earlier rule.'),
        ),
        migrations.CreateModel(
            name='KeptClaim',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('claim', models.JSONField()),
                ('last_vote', models.BigIntegerField()),
                ('votes', models.CharField(max_length=64)),
                ('decided_at', models.DateTimeField()),
                ('board', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='kept_claims', to='ranking.board')),
                ('first', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='arena.candidate')),
                ('second', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='arena.candidate')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('board', 'first', 'second'), name='kept_claim_once_per_pair'), models.CheckConstraint(condition=models.Q(('first__lt', models.F('second'))), name='kept_claim_of_two_in_order')],
            },
        ),
        migrations.RunPython(follow_earlier_rules, migrations.RunPython.noop),
        migrations.RunPython(mark_stale, migrations.RunPython.noop),
    ]
