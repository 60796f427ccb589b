from django.db import migrations, models

# Earlier votes on pairs that their raters chose leave the leaderboards with the next refresh.
CHOSEN = """
    UPDATE arena_vote SET uncounted = 'chosen'
    WHERE uncounted IS NULL AND voided_at IS NULL
        AND channel IN ('browser', 'signed_in', 'invited')
        AND comparison_id IN (
            SELECT id FROM arena_comparison
            WHERE issued_at IS NOT NULL AND draw_probability IS NULL AND repeats_id IS NULL)
"""
REASONS = [
    ('rushed', 'Cast faster than anyone can read'),
    ('channel', "Cast with a team's token"),
    ('named', 'An answer reveals its author'),
    ('tier', 'Its rater’s votes do not count here'),
    ('held', 'Held for review'),
    ('repeat', 'Asked twice'),
    ('chosen', 'Its rater chose the pair'),
]


class Migration(migrations.Migration):

    dependencies = [('arena', '0034_orders_of_named_raters')]

    operations = [
        migrations.RemoveConstraint(model_name='vote', name='vote_uncounted_known'),
        migrations.AlterField(
            model_name='vote',
            name='uncounted',
            field=models.CharField(blank=True, choices=REASONS, max_length=8, null=True),
        ),
        migrations.AddConstraint(
            model_name='vote',
            constraint=models.CheckConstraint(
                condition=models.Q(('uncounted__isnull', True), ('uncounted__in', [name for name, _ in REASONS]), _connector='OR'),
                name='vote_uncounted_known',
            ),
        ),
        migrations.RunSQL(CHOSEN, migrations.RunSQL.noop),
    ]
