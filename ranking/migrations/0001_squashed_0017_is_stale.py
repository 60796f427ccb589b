import django.db.models.deletion
import ranking.models.log
from django.db import migrations, models

# What these make of an empty database, in one step; one that has applied some goes on with them.
REPLACED = """
    0001_initial 0002_tallies 0003_styles 0004_target_error 0005_combined_boards 0006_bounds
    0007_juries_and_trust 0008_ranks_without_scores 0009_rater_tallies 0010_vote_log
    0011_home_page 0012_backups 0013_shrunk_scores 0014_verified_people 0015_home_page_languages
    0016_help_texts 0017_is_stale
"""


class Migration(migrations.Migration):

    replaces = [('ranking', name) for name in REPLACED.split()]

    initial = True

    dependencies = [
        ('arena', '0001_squashed_0030_template_messages'),
    ]

    operations = [
        migrations.CreateModel(
            name='Backup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('made_at', models.DateTimeField()),
                ('size', models.PositiveBigIntegerField(help_text='Bytes of the file.')),
                ('is_encrypted', models.BooleanField()),
            ],
        ),
        migrations.CreateModel(
            name='HomePage',
            fields=[
                ('language', models.CharField(max_length=10, primary_key=True, serialize=False)),
                ('n_arenas', models.PositiveIntegerField()),
                ('newest', models.BigIntegerField()),
                ('epochs', models.BigIntegerField()),
                ('etag', models.CharField(max_length=70)),
                ('body', models.BinaryField()),
            ],
        ),
        migrations.CreateModel(
            name='ArenaRefresh',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('token', models.UUIDField(editable=False, null=True)),
                ('leased_until', models.DateTimeField(blank=True, null=True)),
                ('not_before', models.DateTimeField(blank=True, null=True)),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('recheck_at', models.DateTimeField(blank=True, help_text='When to compute the intervals that the last refresh postponed.', null=True)),
                ('seconds', models.FloatField(default=0)),
                ('problem', models.TextField(blank=True, help_text='The error that ended the last refresh.')),
                ('page_epoch', models.PositiveIntegerField(default=0, editable=False)),
                ('arena', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='refresh', to='arena.arena')),
                ('is_stale', models.BooleanField(default=True, help_text='Something besides votes has changed since the last refresh began.')),
            ],
        ),
        migrations.CreateModel(
            name='Board',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('raters', models.CharField(choices=[('people', 'People'), ('verified', 'Verified people'), ('judges', 'Judges'), ('juries', 'Juries'), ('combined', 'Combined')], default='people', max_length=10)),
                ('category', models.CharField(blank=True, help_text='Empty: all categories.', max_length=100)),
                ('both_bad', models.CharField(choices=[('separate', 'A separate rate that does not affect scores'), ('tie', 'A tie')], default='separate', max_length=10)),
                ('n_resamples', models.PositiveIntegerField(default=1000, help_text='Bootstrap replicates behind each interval.')),
                ('seed', models.PositiveIntegerField(default=0)),
                ('problem', models.TextField(blank=True, editable=False, help_text='Why the newest votes are not on this board; empty if they are.')),
                ('arena', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='boards', to='arena.arena')),
                ('target_error', models.FloatField(default=25.0, help_text='In Elo. Raters are sent to candidates whose standard error is above this, on the human board of all categories.')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('arena', 'raters', 'category'), name='board_once_per_question'), models.CheckConstraint(condition=models.Q(('both_bad__in', ['separate', 'tie'])), name='board_both_bad_known'), models.CheckConstraint(condition=models.Q(('target_error__gt', 0)), name='board_target_error_above_zero'), models.CheckConstraint(condition=models.Q(('n_resamples__gte', 2), ('n_resamples__lte', 20000)), name='board_resamples_two_to_20000'), models.CheckConstraint(condition=models.Q(('raters__in', ['people', 'verified', 'judges', 'juries', 'combined'])), name='board_raters_known')],
            },
        ),
        migrations.CreateModel(
            name='BoardPage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=200)),
                ('epoch', models.PositiveIntegerField()),
                ('etag', models.CharField(max_length=70)),
                ('body', models.BinaryField()),
                ('arena', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='board_pages', to='arena.arena')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('arena', 'key'), name='board_page_once')],
            },
        ),
        migrations.CreateModel(
            name='ClusterTally',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('cells', models.BinaryField()),
                ('arena', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='cluster_tallies', to='arena.arena')),
                ('prompt', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='arena.prompt')),
                ('rater', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='arena.rater')),
                ('raters', models.CharField(choices=[('people', 'People'), ('verified', 'Verified people'), ('judges', 'Judges'), ('juries', 'Juries'), ('trusted_judges', 'Trusted judges'), ('trusted_juries', 'Trusted juries')], max_length=20)),
            ],
            options={
                'verbose_name_plural': 'cluster tallies',
                'constraints': [models.UniqueConstraint(fields=('arena', 'raters', 'prompt'), name='cluster_tally_prompt_once'), models.UniqueConstraint(fields=('arena', 'raters', 'rater'), name='cluster_tally_rater_once'), models.CheckConstraint(condition=models.Q(('rater__isnull', True), ('prompt__isnull', True), _connector='XOR'), name='cluster_tally_prompt_or_rater')],
            },
        ),
        migrations.CreateModel(
            name='EloCheckpoint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('vote_id', models.BigIntegerField()),
                ('n_votes', models.PositiveIntegerField()),
                ('settings', models.CharField(max_length=100)),
                ('candidates', models.BinaryField(help_text='int64: the ids of the candidates met so far.')),
                ('ratings', models.BinaryField(help_text='float64: their ratings, in the same order.')),
                ('board', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='elo_checkpoints', to='ranking.board')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('board', 'vote_id'), name='elo_checkpoint_once')],
            },
        ),
        migrations.CreateModel(
            name='LogLink',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('kind', models.CharField(choices=[('start', 'counted before the log began'), ('cast', 'cast here'), ('import', 'rows of a file'), ('released', 'released'), ('repair', 'repaired'), ('voided', 'voided'), ('held', 'held'), ('gone', 'deleted and acknowledged'), ('imported', 'file complete')], max_length=10)),
                ('n_rows', models.PositiveIntegerField()),
                ('first_id', models.BigIntegerField(null=True)),
                ('last_id', models.BigIntegerField(null=True)),
                ('digest_of_rows', models.CharField(max_length=64)),
                ('details', models.JSONField(default=dict)),
                ('made_at', models.DateTimeField()),
                ('digest', models.CharField(max_length=64)),
                ('key', models.CharField(help_text='The public key that verifies the signature.', max_length=64)),
                ('signature', models.CharField(max_length=128)),
                ('rows', models.BinaryField()),
                ('arena', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='log_links', to='arena.arena')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('arena', 'number'), name='log_link_number_once'), models.CheckConstraint(condition=models.Q(('number__gte', 1)), name='log_link_number_from_one'), models.CheckConstraint(condition=models.Q(models.Q(('first_id__isnull', True), ('n_rows', 0)), models.Q(('first_id__isnull', False), ('last_id__gte', models.F('first_id')), ('n_rows__gte', 1)), _connector='OR'), name='log_link_range_of_its_rows')],
            },
        ),
        migrations.CreateModel(
            name='RaterTally',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('category', models.CharField(blank=True, max_length=100)),
                ('member', models.BigIntegerField(help_text="The rater's id or, below 0, a group's number.")),
                ('cells', models.BinaryField()),
                ('arena', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='rater_tallies', to='arena.arena')),
                ('raters', models.CharField(choices=[('people', 'People'), ('verified', 'Verified people'), ('judges', 'Judges'), ('juries', 'Juries'), ('trusted_judges', 'Trusted judges'), ('trusted_juries', 'Trusted juries')], default='people', max_length=20)),
            ],
            options={
                'verbose_name_plural': 'rater tallies',
                'constraints': [models.UniqueConstraint(fields=('arena', 'raters', 'category', 'member'), name='rater_tally_member_once')],
            },
        ),
        migrations.CreateModel(
            name='ResponseStyle',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('words', models.PositiveIntegerField()),
                ('headings', models.PositiveIntegerField()),
                ('list_items', models.PositiveIntegerField()),
                ('bold', models.PositiveIntegerField()),
                ('response', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='style', to='arena.response')),
            ],
        ),
        migrations.CreateModel(
            name='Snapshot',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('is_current', models.BooleanField(default=True)),
                ('is_history', models.BooleanField(default=False, help_text='One is kept every ten minutes, even after newer ones.')),
                ('published_at', models.DateTimeField()),
                ('digest', models.CharField(help_text='Digest of votes, candidates and settings.', max_length=64)),
                ('n_votes', models.PositiveIntegerField(help_text='Votes that the scores are based on.')),
                ('n_both_bad', models.PositiveIntegerField(default=0)),
                ('n_raters', models.PositiveIntegerField(default=0)),
                ('n_prompts', models.PositiveIntegerField(default=0)),
                ('last_vote_id', models.BigIntegerField(default=0)),
                ('settings', models.JSONField(default=dict)),
                ('choix_difference', models.FloatField(help_text='Largest difference in Elo from choix, the second opinion.', null=True)),
                ('interval_reason', models.TextField(blank=True, help_text='Why there are no intervals.')),
                ('seconds', models.FloatField(default=0)),
                ('elo_claimed_until', models.DateTimeField(blank=True, null=True)),
                ('elo_intervals_at', models.DateTimeField(blank=True, null=True)),
                ('board', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='snapshots', to='ranking.board')),
                ('elo_interval_votes', models.PositiveIntegerField(default=0, help_text='Votes that the Elo intervals are based on.')),
                ('findings', models.JSONField(default=dict, help_text='What else was computed with the intervals.')),
                ('measured_at', models.DateTimeField(blank=True, null=True)),
                ('measured_digest', models.CharField(blank=True, help_text='The digest of what the intervals are based on.', max_length=64)),
                ('measured_seconds', models.FloatField(default=0, help_text='How long it took to compute the intervals.')),
                ('measured_votes', models.PositiveIntegerField(default=0, help_text='Votes that the intervals are based on.')),
            ],
            options={
                'indexes': [models.Index(fields=['board', '-published_at'], name='snapshot_newest_of_board')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('is_current', True)), fields=('board',), name='snapshot_one_current')],
            },
        ),
        migrations.CreateModel(
            name='SnapshotMatrices',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('cells', models.BinaryField(help_text='The tally per pair that the scores are based on.')),
                ('candidates', models.BinaryField(help_text='int64: (R,) the ids of the candidates in the covariance.')),
                ('covariance', models.BinaryField(help_text='float32: (R, R) of the scores, in Elo squared.')),
                ('snapshot', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='matrices', to='ranking.snapshot')),
            ],
            options={
                'verbose_name_plural': 'snapshot matrices',
            },
        ),
        migrations.CreateModel(
            name='Standing',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('rank', models.PositiveIntegerField(null=True)),
                ('rank_low', models.PositiveIntegerField(null=True)),
                ('rank_high', models.PositiveIntegerField(null=True)),
                ('score', models.FloatField(null=True)),
                ('low', models.FloatField(null=True)),
                ('high', models.FloatField(null=True)),
                ('standard_error', models.FloatField(null=True)),
                ('elo', models.FloatField(null=True)),
                ('votes', models.PositiveIntegerField(default=0)),
                ('wins', models.PositiveIntegerField(default=0)),
                ('losses', models.PositiveIntegerField(default=0)),
                ('ties', models.PositiveIntegerField(default=0)),
                ('win_rate', models.FloatField(null=True)),
                ('both_bad_rate', models.FloatField(null=True)),
                ('status', models.CharField(max_length=20)),
                ('reason', models.CharField(blank=True, max_length=300)),
                ('candidate', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='standings', to='arena.candidate')),
                ('snapshot', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='standings', to='ranking.snapshot')),
                ('sure_rank_high', models.PositiveIntegerField(null=True)),
                ('sure_rank_low', models.PositiveIntegerField(help_text="The best possible rank, simultaneously for all candidates.", null=True)),
                ('shrunk', models.FloatField(help_text='Shrunk towards the average; nothing else is based on it.', null=True)),
                ('shrunk_high', models.FloatField(null=True)),
                ('shrunk_low', models.FloatField(null=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('snapshot', 'candidate'), name='standing_once_per_candidate'), models.CheckConstraint(condition=models.Q(('score__isnull', True), ('rank__isnull', False), _connector='OR'), name='standing_with_a_score_is_ranked'), models.CheckConstraint(condition=models.Q(models.Q(('shrunk', None), ('shrunk_high', None), ('shrunk_low', None)), models.Q(('shrunk_high__gte', models.F('shrunk')), ('shrunk_low__lte', models.F('shrunk'))), _connector='OR'), name='standing_shrunk_inside_its_interval')],
            },
        ),
        migrations.CreateModel(
            name='EloInterval',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('low', models.FloatField()),
                ('high', models.FloatField()),
                ('standing', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='elo_interval', to='ranking.standing')),
            ],
        ),
        migrations.CreateModel(
            name='TalliedTrust',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('arena', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tallied_trust', to='arena.arena')),
                ('rater', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='arena.rater')),
            ],
            options={
                'verbose_name_plural': 'tallied trust',
                'constraints': [models.UniqueConstraint(fields=('arena', 'rater'), name='tallied_trust_once')],
            },
        ),
        migrations.CreateModel(
            name='Tally',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('category', models.CharField(blank=True, max_length=100)),
                ('version', models.BigIntegerField(default=0, help_text='Changes whenever the votes do, and never repeats.')),
                ('cells', models.BinaryField()),
                ('n_raters', models.PositiveIntegerField(default=0)),
                ('n_prompts', models.PositiveIntegerField(default=0)),
                ('last_vote_id', models.BigIntegerField(default=0)),
                ('arena', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tallies', to='arena.arena')),
                ('raters', models.CharField(choices=[('people', 'People'), ('verified', 'Verified people'), ('judges', 'Judges'), ('juries', 'Juries'), ('trusted_judges', 'Trusted judges'), ('trusted_juries', 'Trusted juries')], max_length=20)),
            ],
            options={
                'verbose_name_plural': 'tallies',
                'constraints': [models.UniqueConstraint(fields=('arena', 'raters', 'category'), name='tally_once_per_question')],
            },
        ),
        migrations.CreateModel(
            name='TallyDelta',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('n_cells', models.PositiveIntegerField()),
                ('cells', models.BinaryField()),
                ('arena', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tally_deltas', to='arena.arena')),
                ('raters', models.CharField(choices=[('people', 'People'), ('verified', 'Verified people'), ('judges', 'Judges'), ('juries', 'Juries'), ('trusted_judges', 'Trusted judges'), ('trusted_juries', 'Trusted juries')], max_length=20)),
            ],
            options={
                'indexes': [models.Index(fields=['arena', 'raters'], name='tally_delta_of_arena')],
            },
        ),
        migrations.CreateModel(
            name='TallyMember',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('n_votes', models.IntegerField()),
                ('prompt', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='arena.prompt')),
                ('rater', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='arena.rater')),
                ('tally', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='members', to='ranking.tally')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tally', 'rater'), name='tally_member_rater_once'), models.UniqueConstraint(fields=('tally', 'prompt'), name='tally_member_prompt_once'), models.CheckConstraint(condition=models.Q(('rater__isnull', True), ('prompt__isnull', True), _connector='XOR'), name='tally_member_rater_or_prompt'), models.CheckConstraint(condition=models.Q(('n_votes__gte', 0)), name='tally_member_votes_not_negative')],
            },
        ),
        migrations.CreateModel(
            name='VoteLog',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('salt', models.BinaryField(default=ranking.models.log.new_salt)),
                ('is_begun', models.BooleanField(default=False, help_text='Whether the log includes the votes counted before the log existed.')),
                ('arena', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='log', to='arena.arena')),
                ('counts_verified', models.BooleanField(default=False, help_text='Whether the tallies of verified people include the votes counted before these tallies existed.')),
            ],
        ),
    ]
