
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('arena', '0019_calls_stay_in_their_run'),
        ('judges', '0009_outcomes_by_name'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='judgement',
            name='judgement_state_known',
        ),
        migrations.RemoveConstraint(
            model_name='judgement',
            name='judgement_once_per_epoch_responses_sample',
        ),
        migrations.RemoveConstraint(
            model_name='juryverdict',
            name='jury_verdict_once_per_epoch_and_responses',
        ),
        migrations.RemoveConstraint(
            model_name='juryverdict',
            name='jury_verdict_state_known',
        ),
        migrations.AddField(
            model_name='judgement',
            name='casts_vote',
            field=models.BooleanField(db_default=False, default=False, help_text="The judge's first verdict on these answers: the only one that votes and counts."),
        ),
        migrations.AddField(
            model_name='juryverdict',
            name='casts_vote',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AlterField(
            model_name='judgement',
            name='state',
            field=models.CharField(choices=[('waiting', 'Waiting'), ('voted', 'Done'), ('abstained', 'Abstained'), ('unreadable', 'Unreadable'), ('refused', 'Refused'), ('too_long', 'Too long'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='waiting', max_length=10),
        ),
        migrations.AlterField(
            model_name='juryverdict',
            name='state',
            field=models.CharField(choices=[('waiting', 'Waiting'), ('voted', 'Done'), ('no_quorum', 'Too few verdicts'), ('no_majority', 'No majority'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='waiting', max_length=12),
        ),
        migrations.AddConstraint(
            model_name='judgement',
            constraint=models.UniqueConstraint(fields=('epoch', 'responses', 'sample', 'run'), name='judgement_once_per_run'),
        ),
        migrations.AddConstraint(
            model_name='judgement',
            constraint=models.UniqueConstraint(condition=models.Q(('casts_vote', True)), fields=('epoch', 'responses', 'sample'), name='judgement_votes_once'),
        ),
        migrations.AddConstraint(
            model_name='judgement',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['waiting', 'voted', 'abstained', 'unreadable', 'refused', 'too_long', 'failed', 'cancelled'])), name='judgement_state_known'),
        ),
        migrations.AddConstraint(
            model_name='juryverdict',
            constraint=models.UniqueConstraint(fields=('epoch', 'responses', 'run'), name='jury_verdict_once_per_run'),
        ),
        migrations.AddConstraint(
            model_name='juryverdict',
            constraint=models.UniqueConstraint(condition=models.Q(('casts_vote', True)), fields=('epoch', 'responses'), name='jury_verdict_votes_once'),
        ),
        migrations.AddConstraint(
            model_name='juryverdict',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['waiting', 'voted', 'no_quorum', 'no_majority', 'failed', 'cancelled'])), name='jury_verdict_state_known'),
        ),
    ]
