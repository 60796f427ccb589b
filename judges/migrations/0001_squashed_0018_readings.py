import arena.outcomes
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

# What these make of an empty database, in one step; one that has applied some goes on with them.
REPLACED = """
    0001_initial 0002_epochs 0003_first_epochs 0004_epochs_only 0005_teams
    0006_decisions_numbered 0007_drift_check_sets 0008_plain_labels 0009_outcomes_by_name
    0010_calls_stay_in_their_run 0011_calls_of_their_own 0012_trust_is_a_profile
    0013_models_of_labels 0014_hopeless_judges 0015_label_sets_of_arenas 0016_weighted_juries
    0017_merged_models 0018_readings
"""


class Migration(migrations.Migration):

    replaces = [('judges', name) for name in REPLACED.split()]

    initial = True

    dependencies = [
        ('arena', '0001_squashed_0030_template_messages'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('ranking', '0001_squashed_0017_is_stale'),
    ]

    operations = [
        migrations.CreateModel(
            name='LabelItem',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(help_text='SHA-256 of the texts.', max_length=64)),
                ('prompt', models.TextField()),
                ('response_1', models.TextField()),
                ('response_2', models.TextField(blank=True)),
                ('reference', models.TextField(blank=True)),
                ('rubric', models.TextField(blank=True)),
                ('category', models.CharField(blank=True, max_length=100)),
                ('trap', models.CharField(blank=True, max_length=20)),
                ('trap_side', models.CharField(blank=True, max_length=10)),
                ('model_1', models.CharField(blank=True, help_text='Wrote the first answer.', max_length=200)),
                ('model_2', models.CharField(blank=True, help_text='Wrote the second answer.', max_length=200)),
            ],
        ),
        migrations.CreateModel(
            name='MergedModel',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200, unique=True)),
                ('family', models.CharField(max_length=50)),
                ('parents', models.JSONField(default=list)),
                ('recipe', models.JSONField(default=dict)),
                ('merged_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.CreateModel(
            name='Judge',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200, unique=True)),
                ('endpoint', models.CharField(blank=True, max_length=100)),
                ('model', models.CharField(blank=True, max_length=200)),
                ('family', models.CharField(blank=True, max_length=50)),
                ('protocol', models.CharField(choices=[('pairwise', 'Pairwise'), ('direct', 'Direct assessment'), ('listwise', 'Listwise'), ('jury', 'Jury')], max_length=20)),
                ('rubric', models.SlugField(blank=True, max_length=60)),
                ('parameters', models.JSONField(blank=True, default=dict)),
                ('order_policy', models.CharField(choices=[('abstain', 'Abstain'), ('tie', 'Call it a tie'), ('average', 'Average the two')], default='abstain', max_length=10)),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('registered_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('examples', models.JSONField(blank=True, default=list)),
                ('length_neutral', models.BooleanField(blank=True, null=True)),
                ('soft', models.BooleanField(default=False, help_text="Votes carry the model's probabilities, where it returns them.")),
                ('quorum', models.PositiveSmallIntegerField(blank=True, null=True)),
                ('unpinned', models.BooleanField(default=False)),
                ('weights', models.JSONField(blank=True, help_text='For a jury that weighs its members: how much each verdict counts.', null=True)),
                ('readings', models.PositiveSmallIntegerField(db_default=1, default=1, help_text='How many times each call is made for one verdict.')),
                ('members', models.ManyToManyField(blank=True, related_name='juries', to='judges.judge')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('protocol__in', ['pairwise', 'direct', 'listwise', 'jury'])), name='judge_protocol_known'), models.CheckConstraint(condition=models.Q(('order_policy__in', ['abstain', 'tie', 'average'])), name='judge_order_policy_known'), models.CheckConstraint(condition=models.Q(models.Q(('protocol', 'jury'), ('quorum__gt', 0)), models.Q(models.Q(('protocol', 'jury'), _negated=True), ('quorum', None)), _connector='OR'), name='judge_with_quorum_is_a_jury')],
            },
        ),
        migrations.CreateModel(
            name='Epoch',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveSmallIntegerField(default=1)),
                ('asker', models.CharField(max_length=64, unique=True)),
                ('reason', models.CharField(blank=True, max_length=300)),
                ('model_returned', models.CharField(blank=True, max_length=200)),
                ('fingerprint', models.CharField(blank=True, max_length=200)),
                ('started_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('judge', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='epochs', to='judges.judge')),
                ('rater', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='epoch', to='arena.rater')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('judge', 'number'), name='epoch_number_once_per_judge'), models.UniqueConstraint(condition=models.Q(('ended_at', None)), fields=('judge',), name='epoch_one_open_per_judge')],
            },
        ),
        migrations.CreateModel(
            name='Judgement',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('responses', models.CharField(max_length=60)),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('voted', 'Done'), ('abstained', 'Abstained'), ('unreadable', 'Unreadable'), ('refused', 'Refused'), ('too_long', 'Too long'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='waiting', max_length=10)),
                ('settled_at', models.DateTimeField(blank=True, null=True)),
                ('comparison', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='judgement', to='arena.comparison')),
                ('forward', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='forward_of', to='arena.call')),
                ('reverse', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='reverse_of', to='arena.call')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='judgements', to='arena.run')),
                ('flagged', models.BooleanField(default=False, help_text='An answer seems to address the judge, so people should check.')),
                ('flipped', models.BooleanField(blank=True, help_text='Did the verdict change with the order of the answers?', null=True)),
                ('outcome', models.CharField(blank=True, choices=arena.outcomes.choices, max_length=10)),
                ('preference', models.FloatField(blank=True, help_text='A soft verdict: 1 is the left answer, 0 the right one.', null=True)),
                ('sample', models.PositiveSmallIntegerField(default=0)),
                ('score', models.FloatField(blank=True, help_text='For items with one answer: the score it was given.', null=True)),
                ('epoch', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='judgements', to='judges.epoch')),
                ('item', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='judgements', to='judges.labelitem')),
                ('casts_vote', models.BooleanField(db_default=False, default=False, help_text="The judge's first verdict on these answers: the only one that votes and counts.")),
            ],
            options={
                'indexes': [models.Index(fields=['run', 'state'], name='judgement_progress')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('comparison__isnull', False), ('item', None)), models.Q(('comparison', None), ('item__isnull', False)), _connector='OR'), name='judgement_of_a_comparison_or_an_item'), models.CheckConstraint(condition=models.Q(('outcome__in', ['', 'left', 'right', 'tie'])), name='judgement_outcome_known'), models.CheckConstraint(condition=models.Q(('preference', None), models.Q(('preference__gte', 0), ('preference__lte', 1)), _connector='OR'), name='judgement_preference_is_a_share'), models.UniqueConstraint(fields=('epoch', 'responses', 'sample', 'run'), name='judgement_once_per_run'), models.UniqueConstraint(condition=models.Q(('casts_vote', True)), fields=('epoch', 'responses', 'sample'), name='judgement_votes_once'), models.CheckConstraint(condition=models.Q(('state__in', ['waiting', 'voted', 'abstained', 'unreadable', 'refused', 'too_long', 'failed', 'cancelled'])), name='judgement_state_known')],
            },
        ),
        migrations.CreateModel(
            name='JuryVerdict',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('responses', models.CharField(max_length=60)),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('voted', 'Done'), ('no_quorum', 'Too few verdicts'), ('no_majority', 'No majority'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='waiting', max_length=12)),
                ('counts', models.JSONField(default=dict)),
                ('settled_at', models.DateTimeField(blank=True, null=True)),
                ('comparison', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='jury_verdict', to='arena.comparison')),
                ('epoch', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='jury_verdicts', to='judges.epoch')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='jury_verdicts', to='arena.run')),
                ('casts_vote', models.BooleanField(db_default=False, default=False)),
                ('outcome', models.CharField(blank=True, choices=arena.outcomes.choices, db_default='', default='', help_text='Only for a jury that weighs its members; otherwise, most members decide.', max_length=10)),
                ('judgements', models.ManyToManyField(related_name='jury_verdicts', to='judges.judgement')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('epoch', 'responses', 'run'), name='jury_verdict_once_per_run'), models.UniqueConstraint(condition=models.Q(('casts_vote', True)), fields=('epoch', 'responses'), name='jury_verdict_votes_once'), models.CheckConstraint(condition=models.Q(('state__in', ['waiting', 'voted', 'no_quorum', 'no_majority', 'failed', 'cancelled'])), name='jury_verdict_state_known')],
            },
        ),
        migrations.CreateModel(
            name='Label',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('rater', models.CharField(blank=True, max_length=200)),
                ('outcome', models.CharField(blank=True, choices=arena.outcomes.choices, max_length=10)),
                ('score', models.FloatField(blank=True, null=True)),
                ('item', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='labels', to='judges.labelitem')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('item', 'rater'), name='label_once_per_item_and_rater'), models.CheckConstraint(condition=models.Q(models.Q(('outcome__in', ['left', 'right', 'tie', 'both_bad']), ('score', None)), models.Q(('outcome', ''), ('score__isnull', False)), _connector='OR'), name='label_is_an_outcome_or_a_score')],
            },
        ),
        migrations.CreateModel(
            name='LabelSet',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200, unique=True)),
                ('kind', models.CharField(choices=[('pairs', 'Which of two answers is better'), ('scores', 'Scores of single answers'), ('honeypots', 'Honeypots')], max_length=10)),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('arena', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='arena.arena')),
                ('from_arena', models.BooleanField(db_default=False, default=False)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('kind__in', ['pairs', 'scores', 'honeypots'])), name='label_set_kind_known'), models.CheckConstraint(condition=models.Q(('arena', None), ('from_arena', True), _connector='OR'), name='label_set_arena_is_its_source')],
            },
        ),
        migrations.AddField(
            model_name='labelitem',
            name='labels_in',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='items', to='judges.labelset'),
        ),
        migrations.CreateModel(
            name='DriftCheckSet',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('cap', models.PositiveBigIntegerField()),
                ('set_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('stopped_at', models.DateTimeField(blank=True, null=True)),
                ('judge', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='canary', to='judges.judge')),
                ('label_set', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='canaries', to='judges.labelset')),
            ],
            options={
                'db_table': 'judges_canary',
            },
        ),
        migrations.CreateModel(
            name='Calibration',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('pairs', 'Which of two answers is better'), ('scores', 'Scores of single answers'), ('honeypots', 'Honeypots')], max_length=10)),
                ('report', models.JSONField()),
                ('trusted', models.BooleanField(default=False)),
                ('made_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('arena', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='calibrations', to='arena.arena')),
                ('run', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='arena.run')),
                ('epoch', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='calibrations', to='judges.epoch')),
                ('label_set', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='calibrations', to='judges.labelset')),
                ('everywhere', models.BooleanField(db_default=False, default=False, help_text='An administrator lets these labels decide on trust in all arenas where the judge is not measured.')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('arena', None), ('label_set__isnull', False)), models.Q(('arena__isnull', False), ('label_set', None)), _connector='OR'), name='calibration_against_a_set_or_an_arena'), models.CheckConstraint(condition=models.Q(('kind__in', ['pairs', 'scores', 'honeypots'])), name='calibration_kind_known'), models.CheckConstraint(condition=models.Q(('everywhere', False), models.Q(('arena', None), models.Q(('kind', 'honeypots'), _negated=True)), _connector='OR'), name='calibration_everywhere_is_on_labels')],
            },
        ),
        migrations.CreateModel(
            name='Mark',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('coherent', 'Coherent: the verdict follows from the reasoning'), ('suitable', 'Relevant: it discusses these answers and the criteria'), ('critical', 'Critical: it names weaknesses, not only strengths')], max_length=10)),
                ('holds', models.BooleanField()),
                ('made_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('judgement', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='marks', to='judges.judgement')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('judgement', 'user', 'kind'), name='mark_once_per_person_and_kind'), models.CheckConstraint(condition=models.Q(('kind__in', ['coherent', 'suitable', 'critical'])), name='mark_kind_known')],
            },
        ),
        migrations.CreateModel(
            name='RunJudge',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='run_judges', to='arena.run')),
                ('own_family', models.BooleanField(default=False)),
                ('epoch', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='run_judges', to='judges.epoch')),
                ('hopeless_at', models.DateTimeField(blank=True, null=True)),
                ('labels_in', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='judges.labelset')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('run', 'epoch'), name='run_judge_once')],
            },
        ),
        migrations.CreateModel(
            name='Baseline',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('chosen_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('arena', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='arena.arena')),
                ('candidate', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='arena.candidate')),
                ('chosen_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='arena.team')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('team', 'arena'), name='baseline_once_per_arena')],
            },
        ),
        migrations.CreateModel(
            name='Decision',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('lead', models.CharField(choices=[('ahead', 'Ahead'), ('behind', 'Behind')], max_length=10)),
                ('sentence', models.CharField(max_length=500)),
                ('known_at', models.DateTimeField()),
                ('baseline', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='arena.candidate')),
                ('board', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='ranking.board')),
                ('candidate', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='arena.candidate')),
                ('snapshot', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='ranking.snapshot')),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='decisions', to='arena.team')),
                ('number', models.PositiveSmallIntegerField(default=1)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('candidate', models.F('baseline')), _negated=True), name='decision_between_two'), models.CheckConstraint(condition=models.Q(('lead__in', ['ahead', 'behind'])), name='decision_lead_known'), models.UniqueConstraint(fields=('team', 'candidate', 'baseline', 'board', 'number'), name='decision_once')],
            },
        ),
        migrations.CreateModel(
            name='DriftCheck',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('sample', models.PositiveSmallIntegerField()),
                ('why', models.CharField(choices=[('baseline', 'Baseline'), ('changed', 'The server reports another model'), ('weekly', 'Weekly check'), ('daily', 'Daily sample')], max_length=10)),
                ('n', models.PositiveIntegerField(default=0)),
                ('only_before', models.PositiveIntegerField(default=0)),
                ('only_now', models.PositiveIntegerField(default=0)),
                ('changed', models.PositiveIntegerField(default=0)),
                ('p', models.FloatField(blank=True, null=True)),
                ('alarm', models.BooleanField(default=False)),
                ('begun_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('evaluated_at', models.DateTimeField(blank=True, null=True)),
                ('canary', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='checks', to='judges.driftcheckset')),
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='canary_check', to='arena.run')),
                ('epoch', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='canary_checks', to='judges.epoch')),
            ],
            options={
                'db_table': 'judges_canarycheck',
                'constraints': [models.UniqueConstraint(fields=('canary', 'epoch', 'sample'), name='canary_check_once_per_sample'), models.CheckConstraint(condition=models.Q(('why__in', ['baseline', 'changed', 'weekly', 'daily'])), name='canary_check_why_known')],
            },
        ),
        migrations.AddConstraint(
            model_name='labelitem',
            constraint=models.UniqueConstraint(fields=('labels_in', 'key'), name='label_item_once_per_set'),
        ),
        migrations.AddConstraint(
            model_name='labelitem',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('trap', ''), ('trap_side', '')), models.Q(models.Q(('trap', ''), _negated=True), ('trap_side__in', ['left', 'right'])), _connector='OR'), name='label_item_trap_has_a_side'),
        ),
    ]
