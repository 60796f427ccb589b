
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('arena', '0018_outcomes_by_name'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='call',
            name='call_once_per_asker_subject_sample',
        ),
        migrations.RemoveConstraint(
            model_name='call',
            name='call_state_known',
        ),
        migrations.AddField(
            model_name='call',
            name='copied',
            field=models.BooleanField(db_default=False, default=False, help_text="The reply was copied from another run's call."),
        ),
        migrations.AlterField(
            model_name='call',
            name='state',
            field=models.CharField(choices=[('waiting', 'Waiting'), ('running', 'Running'), ('done', 'Done'), ('unreadable', 'Unreadable reply'), ('refused', 'Refused'), ('too_long', 'Too long'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='waiting', max_length=10),
        ),
        migrations.AddConstraint(
            model_name='call',
            constraint=models.UniqueConstraint(fields=('asker', 'subject', 'sample', 'run'), name='call_once_per_run'),
        ),
        migrations.AddConstraint(
            model_name='call',
            constraint=models.UniqueConstraint(condition=models.Q(('copied', False), ('state__in', ['running', 'done', 'unreadable', 'refused', 'too_long'])), fields=('asker', 'subject', 'sample'), name='call_asked_by_one_run'),
        ),
        migrations.AddConstraint(
            model_name='call',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['waiting', 'running', 'done', 'unreadable', 'refused', 'too_long', 'failed', 'cancelled'])), name='call_state_known'),
        ),
    ]
