import arena.models.fields
import arena.outcomes
import arena.validation
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models

# What these make of an empty database, in one step; one that has applied some goes on with them.
REPLACED = """
    0001_initial 0002_vote_voided_in_arena 0003_calls_of_runs 0004_pair_low_went_left
    0005_votes_in_tallies 0006_fewer_indexes 0007_accounts_leave_votes 0008_judges_with_money
    0009_criteria_of_runs 0010_teams 0011_voters_of_arenas 0012_voters_not_anonymous_raters
    0013_keys_without_leases 0014_token_name_once_per_team 0015_team_name_once
    0016_account_of_an_invitation 0017_field_validators 0018_outcomes_by_name
    0019_calls_stay_in_their_run 0020_calls_are_handed_out 0021_runs_are_counted
    0022_blind_answers 0023_trust_in_arenas 0024_weight_of_a_rater 0025_reasons_and_guide
    0026_votes_have_origins 0027_conversations 0028_about_candidates 0029_cached_price
    0030_template_messages
"""


class Migration(migrations.Migration):

    replaces = [('arena', name) for name in REPLACED.split()]

    initial = True

    dependencies = [
        ('account', '0009_emailaddress_unique_primary_email'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('socialaccount', '0006_alter_socialaccount_extra_data'),
    ]

    operations = [
        migrations.CreateModel(
            name='Arena',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('slug', models.SlugField(max_length=60, unique=True)),
                ('name', models.CharField(max_length=120, validators=[arena.models.fields.Check(arena.validation.clean_visible_name, limit=120)])),
                ('question', models.CharField(default='Which answer helps more?', max_length=200, validators=[arena.models.fields.Check(arena.validation.clean_name, limit=200)])),
                ('description', models.TextField(blank=True, validators=[arena.models.fields.Check(arena.validation.clean_paragraphs, limit=20000)])),
                ('is_sample', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('criteria', models.TextField(blank=True, help_text="What makes an answer better, in the words that LLM judges are given. Empty: each rubric's own words.", validators=[arena.models.fields.Check(arena.validation.clean_paragraphs, limit=4000)])),
                ('open_to_teams', models.BooleanField(default=False, help_text='Can other teams add candidates?')),
                ('visibility', models.CharField(choices=[('public', 'Public: everyone can see it, and it is listed'), ('unlisted', 'Unlisted: everyone with the link can see it'), ('private', 'Private: only the team can see it')], default='public', max_length=10)),
                ('voters', models.CharField(choices=[('anyone', 'Anyone who can see it'), ('signed_in', 'People who are signed in'), ('members', 'Members of the team')], default='anyone', max_length=10)),
                ('held_out', models.PositiveSmallIntegerField(default=20, help_text='Percentage of prompts whose answers are never published with names.')),
                ('open_answers', models.BooleanField(default=False, help_text='Can everyone read which candidate wrote which answer?')),
                ('rater_cap', models.PositiveSmallIntegerField(default=10, help_text='The largest share of human votes, in percent, that one rater’s may weigh.')),
                ('faults', models.TextField(blank=True, default='wrong\nmissing step\nunclear\ntoo long\nwrong tone', help_text='Reasons against an answer that raters can choose from, one per line.', validators=[arena.models.fields.Check(arena.validation.clean_tags)])),
                ('guide', models.TextField(blank=True, help_text='Markdown that raters read before their first vote, with an example.', validators=[arena.models.fields.Check(arena.validation.clean_paragraphs, limit=4000)])),
                ('strengths', models.TextField(blank=True, default='correct\nclear\ncomplete\nright length\ngood tone', help_text='Reasons for an answer that raters can choose from, one per line.', validators=[arena.models.fields.Check(arena.validation.clean_tags)])),
                ('counts', models.CharField(choices=[('anyone', 'Anyone’s'), ('verified', 'Those of people with a confirmed email address or single sign-on'), ('invited', 'Those of members of the team')], default='anyone', help_text='Whose votes count?', max_length=8)),
                ('counts_tokens', models.BooleanField(default=False, help_text="Do votes cast with the team's token count on a public leaderboard?")),
                ('network_share', models.PositiveSmallIntegerField(default=10, help_text="Percentage of a human leaderboard that one network's anonymous votes may weigh.")),
                ('self_identifying', models.CharField(choices=[('mask', 'Hide the names; the votes count'), ('drop', 'Show them; the votes do not count'), ('keep', 'Show them; the votes count')], default='drop', help_text='What happens to answers that reveal their author.', max_length=4)),
            ],
        ),
        migrations.CreateModel(
            name='EndpointPace',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('endpoint', models.CharField(max_length=100, unique=True)),
                ('requests_until', models.FloatField(default=0.0)),
                ('tokens_until', models.FloatField(default=0.0)),
            ],
        ),
        migrations.CreateModel(
            name='NetworkKey',
            fields=[
                ('period', models.PositiveIntegerField(help_text='Days since 1970, by 30.', primary_key=True, serialize=False)),
                ('key', models.CharField(max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name='RateLimit',
            fields=[
                ('key', models.CharField(max_length=120, primary_key=True, serialize=False)),
                ('window_started_at', models.DateTimeField()),
                ('hits', models.PositiveIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name='ApiToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('prefix', models.CharField(max_length=12)),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('can_read', models.BooleanField(default=True)),
                ('can_submit', models.BooleanField(default=False)),
                ('can_judge', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('last_used_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Call',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('subject', models.CharField(max_length=200)),
                ('sample', models.PositiveSmallIntegerField(default=0)),
                ('endpoint', models.CharField(max_length=100)),
                ('model', models.CharField(max_length=200)),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('running', 'Running'), ('done', 'Done'), ('unreadable', 'Unreadable reply'), ('refused', 'Refused'), ('too_long', 'Too long'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='waiting', max_length=10)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('requests', models.PositiveIntegerField(default=0)),
                ('due_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('lease_expires_at', models.DateTimeField(blank=True, null=True)),
                ('prompt_digest', models.CharField(blank=True, max_length=64)),
                ('nonce', models.CharField(blank=True, max_length=32)),
                ('reply', models.TextField(blank=True)),
                ('verdict', models.JSONField(blank=True, null=True)),
                ('error', models.CharField(blank=True, max_length=500)),
                ('model_returned', models.CharField(blank=True, max_length=200)),
                ('fingerprint', models.CharField(blank=True, max_length=200)),
                ('tokens_in', models.PositiveIntegerField(blank=True, null=True)),
                ('tokens_out', models.PositiveIntegerField(blank=True, null=True)),
                ('seconds', models.FloatField(blank=True, null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('requests_allowed', models.PositiveIntegerField(default=6)),
                ('cost', models.PositiveBigIntegerField(default=0)),
                ('cut_off_requests', models.PositiveIntegerField(default=0)),
                ('dropped', models.JSONField(blank=True, default=list)),
                ('repair_reply', models.TextField(blank=True)),
                ('reserved', models.PositiveBigIntegerField(default=0)),
                ('turn', models.PositiveSmallIntegerField(default=0)),
                ('uncertain', models.PositiveBigIntegerField(default=0)),
                ('copied', models.BooleanField(db_default=False, default=False, help_text="The reply was copied from another run's call.")),
                ('ring_after', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('asker', models.CharField(max_length=64)),
                ('needs', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='needed_by', to='arena.call')),
            ],
        ),
        migrations.CreateModel(
            name='Capability',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('endpoint', models.CharField(max_length=100)),
                ('model', models.CharField(max_length=200)),
                ('json_schema', models.BooleanField(null=True)),
                ('temperature', models.BooleanField(null=True)),
                ('seed', models.BooleanField(null=True)),
                ('logprobs', models.BooleanField(null=True)),
                ('dropped', models.JSONField(blank=True, default=list)),
                ('model_returned', models.CharField(blank=True, max_length=200)),
                ('probed_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'verbose_name_plural': 'capabilities',
                'constraints': [models.UniqueConstraint(fields=('endpoint', 'model'), name='capability_once_per_model')],
            },
        ),
        migrations.CreateModel(
            name='IdempotentRequest',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('owner', models.CharField(max_length=40)),
                ('key', models.CharField(max_length=255)),
                ('fingerprint', models.CharField(max_length=64)),
                ('status', models.PositiveSmallIntegerField(null=True)),
                ('headers', models.JSONField(default=dict)),
                ('body', models.BinaryField(default=bytes)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'indexes': [models.Index(fields=['created_at'], name='idempotent_request_by_age')],
                'constraints': [models.UniqueConstraint(fields=('owner', 'key'), name='idempotency_key_once_per_owner')],
            },
        ),
        migrations.CreateModel(
            name='Import',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('file_name', models.CharField(max_length=255)),
                ('sha256', models.CharField(max_length=64)),
                ('format', models.CharField(max_length=20)),
                ('started_at', models.DateTimeField()),
                ('revealed_at', models.DateTimeField(blank=True, null=True)),
                ('rows_added', models.PositiveIntegerField(default=0)),
                ('rows_rejected', models.PositiveIntegerField(default=0)),
                ('arena', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='imports', to='arena.arena')),
                ('tallied_at', models.DateTimeField(blank=True, null=True)),
                ('tallied_row', models.PositiveIntegerField(default=0, help_text='Votes up to this row are in the running tallies.')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('arena', 'sha256'), name='import_once_per_file')],
            },
        ),
        migrations.CreateModel(
            name='Candidate',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('source_row', models.PositiveIntegerField(blank=True, null=True)),
                ('name', models.CharField(max_length=200, validators=[arena.models.fields.Check(arena.validation.clean_visible_name)])),
                ('version', models.PositiveIntegerField(default=1)),
                ('model', models.CharField(blank=True, max_length=200, validators=[arena.models.fields.Check(arena.validation.clean_name, required=False)])),
                ('variant', models.CharField(blank=True, max_length=200, validators=[arena.models.fields.Check(arena.validation.clean_name, required=False)])),
                ('system_prompt', models.TextField(blank=True, validators=[arena.models.fields.Check(arena.validation.clean_paragraphs, strip=False)])),
                ('user_template', models.TextField(blank=True, validators=[arena.models.fields.Check(arena.validation.clean_paragraphs, strip=False)])),
                ('parameters', models.JSONField(blank=True, default=dict)),
                ('notes', models.TextField(blank=True, validators=[arena.models.fields.Check(arena.validation.clean_paragraphs, limit=10000, strip=False)])),
                ('retired_at', models.DateTimeField(blank=True, null=True)),
                ('arena', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='candidates', to='arena.arena')),
                ('source', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='arena.import')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('created_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('disclosed_at', models.DateTimeField(blank=True, default=django.utils.timezone.now, null=True)),
                ('endpoint', models.CharField(blank=True, max_length=100)),
                ('private_until', models.DateTimeField(blank=True, null=True)),
                ('private_until_votes', models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(10000)])),
                ('licence', models.CharField(blank=True, max_length=100, validators=[arena.models.fields.Check(arena.validation.clean_visible_text)])),
                ('link', models.CharField(blank=True, max_length=500, validators=[arena.models.fields.Check(arena.validation.clean_link)])),
                ('organisation', models.CharField(blank=True, max_length=100, validators=[arena.models.fields.Check(arena.validation.clean_visible_text)])),
                ('messages', models.JSONField(blank=True, help_text='Messages, each a template, instead of a system prompt and a user template.', null=True)),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.AddField(
            model_name='arena',
            name='founded_by',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='arena.import'),
        ),
        migrations.CreateModel(
            name='Pair',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('shared_prompts', models.PositiveIntegerField(default=0)),
                ('weight', models.FloatField(default=1.0)),
                ('low_left', models.PositiveIntegerField(default=0)),
                ('high_left', models.PositiveIntegerField(default=0)),
                ('arena', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='pairs', to='arena.arena')),
                ('high', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='arena.candidate')),
                ('low_went_left', models.BooleanField(default=False)),
                ('low', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='arena.candidate')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('low', 'high'), name='pair_once'), models.CheckConstraint(condition=models.Q(('low__lt', models.F('high'))), name='pair_lower_id_first'), models.CheckConstraint(condition=models.Q(('weight__gte', 0)), name='pair_weight_not_negative')],
            },
        ),
        migrations.CreateModel(
            name='Price',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('endpoint', models.CharField(max_length=100)),
                ('model', models.CharField(max_length=200)),
                ('input_per_million', models.PositiveBigIntegerField(help_text='Nano-dollars (10^-9 USD).')),
                ('output_per_million', models.PositiveBigIntegerField(help_text='Nano-dollars (10^-9 USD).')),
                ('entered_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('cached_per_million', models.PositiveBigIntegerField(blank=True, help_text='Nano-dollars (10^-9 USD), of input that the server has in its cache.', null=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('endpoint', 'model'), name='price_once_per_model')],
            },
        ),
        migrations.CreateModel(
            name='Prompt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('source_row', models.PositiveIntegerField(blank=True, null=True)),
                ('external_id', models.CharField(max_length=200)),
                ('category', models.CharField(blank=True, max_length=100, validators=[arena.models.fields.Check(arena.validation.clean_name, limit=100, required=False)])),
                ('text', models.TextField(blank=True, validators=[arena.models.fields.Check(arena.validation.clean_paragraphs, limit=100000, required=True)])),
                ('reference', models.TextField(blank=True, validators=[arena.models.fields.Check(arena.validation.clean_paragraphs, limit=100000)])),
                ('html', models.TextField(editable=False, null=True)),
                ('html_version', models.PositiveSmallIntegerField(default=0, editable=False)),
                ('retired_at', models.DateTimeField(blank=True, null=True)),
                ('arena', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='prompts', to='arena.arena')),
                ('source', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='arena.import')),
                ('rubric', models.TextField(blank=True, help_text='How LLM judges grade answers to this prompt; replaces the criteria.', validators=[arena.models.fields.Check(arena.validation.clean_paragraphs, limit=100000)])),
                ('variables', models.JSONField(blank=True, default=dict, help_text="Values that candidates' templates can use besides the text.", validators=[arena.models.fields.Check(arena.validation.clean_variables)])),
                ('messages', models.JSONField(blank=True, help_text='The conversation; the text is its transcript.', null=True)),
            ],
            options={
                'abstract': False,
                'constraints': [models.UniqueConstraint(fields=('source', 'source_row'), name='prompt_once_per_source_row'), models.UniqueConstraint(fields=('arena', 'external_id'), name='prompt_external_id_once_per_arena')],
            },
        ),
        migrations.CreateModel(
            name='Rater',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('person', 'Person'), ('judge', 'Judge'), ('jury', 'Jury')], max_length=10)),
                ('name', models.CharField(blank=True, max_length=200)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('blocked_at', models.DateTimeField(blank=True, null=True)),
                ('arena', models.ForeignKey(blank=True, help_text='Set for raters that a file brought: their names mean something there only.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='arena.arena')),
                ('user', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='rater', to=settings.AUTH_USER_MODEL)),
                ('trusted_at', models.DateTimeField(blank=True, help_text="When this judge or jury became trusted to narrow the intervals of human votes in arenas where it was not measured.", null=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(condition=models.Q(('arena__isnull', False)), fields=('arena', 'kind', 'name'), name='rater_name_once_per_arena'), models.CheckConstraint(condition=models.Q(('kind__in', ['person', 'judge', 'jury'])), name='rater_kind_known')],
            },
        ),
        migrations.CreateModel(
            name='Hold',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('network', models.CharField(blank=True, max_length=16)),
                ('state', models.CharField(choices=[('held', 'Held'), ('released', 'Released'), ('voided', 'Voided')], default='held', max_length=8)),
                ('test', models.CharField(help_text='The test that found it.', max_length=12)),
                ('evidence', models.JSONField(help_text='What the test saw, by which the page explains it.')),
                ('last_vote_id', models.BigIntegerField(help_text='The newest vote that the test has seen.')),
                ('held_at', models.DateTimeField()),
                ('objection', models.TextField(blank=True)),
                ('objected_at', models.DateTimeField(blank=True, null=True)),
                ('decided_at', models.DateTimeField(blank=True, null=True)),
                ('decided_by', models.CharField(blank=True, max_length=200)),
                ('reason', models.CharField(blank=True, max_length=200)),
                ('n_votes', models.PositiveIntegerField(default=0, help_text='Votes held so far.')),
                ('arena', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='holds', to='arena.arena')),
                ('rater', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='holds', to='arena.rater')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('rater__isnull', True), ('network', ''), _connector='XOR'), name='hold_of_rater_or_network'), models.CheckConstraint(condition=models.Q(models.Q(('decided_at__isnull', True), ('state', 'held')), models.Q(('decided_at__isnull', False), ('state__in', ['released', 'voided']), models.Q(('reason', ''), _negated=True)), _connector='OR'), name='hold_decided_with_a_reason'), models.UniqueConstraint(condition=models.Q(('rater__isnull', False), ('state', 'held')), fields=('arena', 'rater'), name='hold_one_open_per_rater'), models.UniqueConstraint(condition=models.Q(('state', 'held'), models.Q(('network', ''), _negated=True)), fields=('arena', 'network'), name='hold_one_open_per_network')],
            },
        ),
        migrations.CreateModel(
            name='ArenaTrust',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('trusted', models.BooleanField()),
                ('decided_at', models.DateTimeField()),
                ('arena', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='arena.arena')),
                ('rater', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='trust', to='arena.rater')),
            ],
            options={
                'verbose_name_plural': 'trust in arenas',
                'constraints': [models.UniqueConstraint(fields=('arena', 'rater'), name='arena_trust_once')],
            },
        ),
        migrations.CreateModel(
            name='Response',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('source_row', models.PositiveIntegerField(blank=True, null=True)),
                ('text', models.TextField(blank=True, validators=[arena.models.fields.Check(arena.validation.clean_text)])),
                ('names_itself', models.BooleanField(default=False, help_text='The answer says which model wrote it, so votes on it are flagged.')),
                ('html', models.TextField(editable=False, null=True)),
                ('html_version', models.PositiveSmallIntegerField(default=0, editable=False)),
                ('prompt', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='responses', to='arena.prompt')),
                ('source', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='arena.import')),
                ('call', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='response', to='arena.call')),
                ('cost', models.PositiveBigIntegerField(blank=True, help_text='Nano-dollars (10^-9 USD).', null=True)),
                ('seconds', models.FloatField(blank=True, null=True)),
                ('tokens_in', models.PositiveIntegerField(blank=True, null=True)),
                ('tokens_out', models.PositiveIntegerField(blank=True, null=True)),
                ('messages', models.JSONField(blank=True, help_text="The steps; the text is what the model itself says.", null=True)),
                ('candidate', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='responses', to='arena.candidate')),
            ],
            options={
                'abstract': False,
                'constraints': [models.UniqueConstraint(fields=('source', 'source_row'), name='response_once_per_source_row'), models.UniqueConstraint(fields=('candidate', 'prompt'), name='response_once_per_candidate_and_prompt')],
            },
        ),
        migrations.CreateModel(
            name='Run',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('person', 'People'), ('judge', 'Judges'), ('answers', 'Answers')], max_length=10)),
                ('per_pair', models.PositiveIntegerField(default=1)),
                ('max_calls', models.PositiveIntegerField(blank=True, null=True)),
                ('state', models.CharField(choices=[('ordered', 'Ordered'), ('open', 'Open'), ('paused', 'Paused'), ('done', 'Done'), ('cancelled', 'Cancelled')], default='ordered', max_length=10)),
                ('pause_reason', models.CharField(blank=True, max_length=300)),
                ('votes_wanted', models.PositiveIntegerField(default=0)),
                ('votes_done', models.PositiveIntegerField(default=0)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('closed_at', models.DateTimeField(blank=True, null=True)),
                ('arena', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='arena.arena')),
                ('created_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('cap', models.PositiveBigIntegerField(blank=True, null=True)),
                ('expected_cost', models.PositiveBigIntegerField(blank=True, null=True)),
                ('reserved', models.PositiveBigIntegerField(default=0)),
                ('settled', models.PositiveBigIntegerField(default=0)),
                ('uncertain', models.PositiveBigIntegerField(default=0)),
                ('worst_cost', models.PositiveBigIntegerField(blank=True, null=True)),
                ('criteria', models.TextField(blank=True, help_text="The arena's criteria, as given to judges in this run.")),
                ('candidate', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='arena.candidate')),
                ('counted_at', models.DateTimeField(blank=True, help_text='When leaderboards with all its votes were published.', null=True)),
            ],
        ),
        migrations.CreateModel(
            name='PairDemand',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('draw_probability', models.FloatField(blank=True, null=True)),
                ('remaining', models.PositiveIntegerField()),
                ('arena', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='demands', to='arena.arena')),
                ('pair', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='demands', to='arena.pair')),
                ('prompt', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='arena.prompt')),
                ('run', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='demands', to='arena.run')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('remaining__gt', 0)), fields=['arena'], name='demand_still_open')],
                'constraints': [models.UniqueConstraint(fields=('run', 'pair'), name='demand_once_per_run_and_pair')],
            },
        ),
        migrations.CreateModel(
            name='Comparison',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('source_row', models.PositiveIntegerField(blank=True, null=True)),
                ('key', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('draw_probability', models.FloatField(blank=True, null=True)),
                ('names_itself', models.BooleanField(default=False)),
                ('issued_at', models.DateTimeField(blank=True, null=True)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('skipped_at', models.DateTimeField(blank=True, null=True)),
                ('arena', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='comparisons', to='arena.arena')),
                ('left', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='arena.candidate')),
                ('right', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='arena.candidate')),
                ('prompt', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='arena.prompt')),
                ('rater', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='comparisons', to='arena.rater')),
                ('left_response', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='arena.response')),
                ('right_response', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='arena.response')),
                ('run', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='comparisons', to='arena.run')),
                ('source', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='arena.import')),
            ],
            options={
                'abstract': False,
                'constraints': [models.UniqueConstraint(fields=('source', 'source_row'), name='comparison_once_per_source_row'), models.CheckConstraint(condition=models.Q(('left', models.F('right')), _negated=True), name='comparison_of_two_candidates'), models.CheckConstraint(condition=models.Q(models.Q(('left_response__isnull', True), ('right_response__isnull', True)), models.Q(('left_response__isnull', False), ('right_response__isnull', False), models.Q(('left_response', models.F('right_response')), _negated=True)), _connector='OR'), name='comparison_of_two_responses_or_none'), models.CheckConstraint(condition=models.Q(('draw_probability__isnull', True), models.Q(('draw_probability__gt', 0), ('draw_probability__lte', 1)), _connector='OR'), name='comparison_draw_probability_in_range')],
            },
        ),
        migrations.AddField(
            model_name='call',
            name='run',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='calls', to='arena.run'),
        ),
        migrations.CreateModel(
            name='RunAsker',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('asker', models.CharField(max_length=64)),
                ('endpoint', models.CharField(max_length=100)),
                ('model', models.CharField(max_length=200)),
                ('paused_at', models.DateTimeField(blank=True, null=True)),
                ('pause_reason', models.CharField(blank=True, max_length=300)),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='askers', to='arena.run')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('run', 'asker'), name='asker_once_per_run')],
            },
        ),
        migrations.CreateModel(
            name='Team',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('slug', models.SlugField(max_length=60, unique=True)),
                ('name', models.CharField(max_length=120)),
                ('budget', models.PositiveBigIntegerField(default=0, help_text='Nano-dollars (10^-9 USD).')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('name_key', models.CharField(editable=False, max_length=64, null=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('name_key',), name='team_name_once')],
            },
        ),
        migrations.AddField(
            model_name='run',
            name='team',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='runs', to='arena.team'),
        ),
        migrations.CreateModel(
            name='Notice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=100)),
                ('kind', models.CharField(help_text="As in 'decision.known'.", max_length=40)),
                ('sentence', models.CharField(max_length=500)),
                ('path', models.CharField(blank=True, help_text='The page to read more on.', max_length=300)),
                ('details', models.JSONField(blank=True, default=dict)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('arena', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='arena.arena')),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notices', to='arena.team')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('team', 'key'), name='notice_once_per_key')],
            },
        ),
        migrations.CreateModel(
            name='Membership',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('owner', 'Owner'), ('member', 'Member'), ('viewer', 'Viewer')], max_length=10)),
                ('notices_by_email', models.BooleanField(default=True)),
                ('joined_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='team_memberships', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='arena.team')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('team', 'user'), name='membership_once_per_team'), models.CheckConstraint(condition=models.Q(('role__in', ['owner', 'member', 'viewer'])), name='membership_role_known')],
            },
        ),
        migrations.CreateModel(
            name='Invitation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('owner', 'Owner'), ('member', 'Member'), ('viewer', 'Viewer')], max_length=10)),
                ('note', models.CharField(blank=True, help_text='Whom the link is meant for.', max_length=200)),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('expires_at', models.DateTimeField()),
                ('accepted_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('accepted_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='invitations', to='arena.team')),
                ('made_account', models.ForeignKey(blank=True, help_text='Who signed up by the link, where that takes one.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('role__in', ['owner', 'member', 'viewer'])), name='invitation_role_known')],
            },
        ),
        migrations.AddField(
            model_name='candidate',
            name='team',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='candidates', to='arena.team'),
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('by', models.CharField(help_text='Their name at the time.', max_length=200)),
                ('action', models.CharField(help_text="As in 'registered a candidate'.", max_length=60)),
                ('subject', models.CharField(blank=True, max_length=300)),
                ('details', models.JSONField(blank=True, default=dict)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('token', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='arena.apitoken')),
                ('user', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='audit_entries', to='arena.team')),
            ],
            options={
                'verbose_name_plural': 'audit entries',
                'indexes': [models.Index(fields=['team', '-id'], name='audit_newest_of_team')],
            },
        ),
        migrations.AddField(
            model_name='arena',
            name='team',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='arenas', to='arena.team'),
        ),
        migrations.AddField(
            model_name='apitoken',
            name='team',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tokens', to='arena.team'),
        ),
        migrations.CreateModel(
            name='Vote',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('source_row', models.PositiveIntegerField(blank=True, null=True)),
                ('outcome', models.CharField(choices=arena.outcomes.choices, max_length=8)),
                ('preference', models.FloatField(blank=True, null=True)),
                ('cast_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('voided_at', models.DateTimeField(blank=True, null=True)),
                ('void_reason', models.CharField(blank=True, max_length=200)),
                ('details', models.JSONField(blank=True, help_text="What the vote's file said besides: ids, cost.", null=True)),
                ('arena', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='votes', to='arena.arena')),
                ('comparison', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='votes', to='arena.comparison')),
                ('rater', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='votes', to='arena.rater')),
                ('source', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='arena.import')),
                ('tallied', models.BooleanField(db_default=False, default=False, editable=False, help_text='Whether the running tallies count this vote; one from a file is counted with its import.')),
                ('channel', models.CharField(blank=True, choices=[('browser', 'Anonymous browser'), ('signed_in', 'Signed-in person'), ('invited', 'Member of the team'), ('token', "Team's token"), ('file', 'File')], db_default='', max_length=10)),
                ('network', models.CharField(blank=True, db_default='', help_text="A keyed hash of the rater's network.", max_length=16)),
                ('rushed', models.BooleanField(db_default=False, default=False)),
                ('seconds', models.FloatField(blank=True, help_text='How long the pair was open, at most since it was issued.', null=True)),
                ('uncounted', models.CharField(blank=True, choices=[('rushed', 'Cast faster than anyone can read'), ('channel', "Cast with a team's token"), ('named', 'An answer reveals its author'), ('tier', 'Its rater’s votes do not count here'), ('held', 'Held for review')], max_length=8, null=True)),
                ('verified', models.BooleanField(db_default=False, default=False, help_text='Had the rater confirmed an address, used single sign-on or been invited?')),
                ('hold', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='votes', to='arena.hold')),
            ],
            options={
                'abstract': False,
                'indexes': [models.Index(fields=['arena', 'id'], name='vote_newest_of_arena'), models.Index(fields=['rater', 'arena'], name='vote_of_rater'), models.Index(condition=models.Q(('tallied', False), ('uncounted__isnull', True), ('voided_at__isnull', True)), fields=['arena', 'id'], name='vote_to_add_to_tallies'), models.Index(condition=models.Q(('tallied', True), models.Q(('voided_at__isnull', False), ('uncounted__isnull', False), _connector='OR')), fields=['arena', 'id'], name='vote_to_take_out_of_tallies'), models.Index(condition=models.Q(('hold__isnull', False)), fields=['hold'], name='vote_held'), models.Index(condition=models.Q(('uncounted__isnull', False)), fields=['arena', 'uncounted'], name='vote_that_does_not_count')],
                'constraints': [models.UniqueConstraint(fields=('source', 'source_row'), name='vote_once_per_source_row'), models.UniqueConstraint(condition=models.Q(('voided_at__isnull', True)), fields=('comparison', 'rater'), name='vote_one_live_per_rater_and_comparison'), models.CheckConstraint(condition=models.Q(('outcome__in', ['left', 'right', 'tie', 'both_bad'])), name='vote_outcome_known'), models.CheckConstraint(condition=models.Q(('preference__isnull', True), models.Q(('preference__gte', 0), ('preference__lte', 1)), _connector='OR'), name='vote_preference_in_range'), models.CheckConstraint(condition=models.Q(('voided_at__isnull', True), models.Q(('void_reason', ''), _negated=True), _connector='OR'), name='vote_voided_with_a_reason'), models.CheckConstraint(condition=models.Q(('channel__in', ['', 'browser', 'signed_in', 'invited', 'token', 'file'])), name='vote_channel_known'), models.CheckConstraint(condition=models.Q(('seconds__isnull', True), ('seconds__gte', 0), _connector='OR'), name='vote_seconds_not_negative'), models.CheckConstraint(condition=models.Q(('uncounted__isnull', True), ('uncounted__in', ['rushed', 'channel', 'named', 'tier', 'held']), _connector='OR'), name='vote_uncounted_known'), models.CheckConstraint(condition=models.Q(('rushed', False), ('uncounted__isnull', False), _connector='OR'), name='vote_rushed_does_not_count'), models.CheckConstraint(condition=models.Q(models.Q(('hold__isnull', True), ('uncounted__isnull', True)), models.Q(('hold__isnull', True), models.Q(('uncounted', 'held'), _negated=True)), models.Q(('hold__isnull', False), ('uncounted', 'held')), _connector='OR'), name='vote_held_by_a_hold')],
            },
        ),
        migrations.CreateModel(
            name='Reason',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('side', models.CharField(max_length=5)),
                ('tag', models.CharField(blank=True, max_length=40)),
                ('comment', models.TextField(blank=True)),
                ('vote', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='reasons', to='arena.vote')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('vote', 'side', 'tag'), name='reason_once_per_vote'), models.CheckConstraint(condition=models.Q(models.Q(('comment', ''), ('side__in', ['left', 'right']), models.Q(('tag', ''), _negated=True)), models.Q(('side', 'both'), ('tag', ''), models.Q(('comment', ''), _negated=True)), _connector='OR'), name='reason_is_a_tag_of_a_side_or_a_comment')],
            },
        ),
        migrations.CreateModel(
            name='Webhook',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('url', models.URLField(max_length=500)),
                ('salt', models.CharField(max_length=32)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('removed_at', models.DateTimeField(blank=True, null=True)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='webhooks', to='arena.team')),
            ],
            options={
                'constraints': [models.UniqueConstraint(condition=models.Q(('removed_at__isnull', True)), fields=('team', 'url'), name='webhook_once_per_address')],
            },
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('running', 'Under way'), ('delivered', 'Delivered'), ('failed', 'Failed')], default='waiting', max_length=10)),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('due_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('lease_expires_at', models.DateTimeField(blank=True, null=True)),
                ('delivered_at', models.DateTimeField(blank=True, null=True)),
                ('error', models.CharField(blank=True, max_length=300)),
                ('membership', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='arena.membership')),
                ('notice', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='arena.notice')),
                ('webhook', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='arena.webhook')),
            ],
            options={
                'verbose_name_plural': 'deliveries',
                'indexes': [models.Index(condition=models.Q(('state__in', ['waiting', 'running'])), fields=['due_at'], name='delivery_still_to_make')],
                'constraints': [models.UniqueConstraint(fields=('notice', 'webhook'), name='delivery_once_per_webhook'), models.UniqueConstraint(fields=('notice', 'membership'), name='delivery_once_per_member'), models.CheckConstraint(condition=models.Q(('webhook__isnull', True), ('membership__isnull', True), _connector='XOR'), name='delivery_to_a_webhook_or_a_member'), models.CheckConstraint(condition=models.Q(('state__in', ['waiting', 'running', 'delivered', 'failed'])), name='delivery_state_known')],
            },
        ),
        migrations.AddIndex(
            model_name='call',
            index=models.Index(condition=models.Q(('state__in', ['waiting', 'running'])), fields=['due_at'], name='call_still_to_make'),
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
        migrations.AddConstraint(
            model_name='run',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['ordered', 'open', 'paused', 'done', 'cancelled'])), name='run_state_known'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.CheckConstraint(condition=models.Q(('per_pair__gt', 0)), name='run_wants_votes'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.CheckConstraint(condition=models.Q(('arena__isnull', False), ('kind', 'judge'), _connector='OR'), name='run_of_people_in_an_arena'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['person', 'judge', 'answers'])), name='run_kind_known'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('candidate__isnull', False), ('kind', 'answers')), models.Q(models.Q(('kind', 'answers'), _negated=True), ('candidate__isnull', True)), _connector='OR'), name='run_of_answers_has_a_candidate'),
        ),
        migrations.AddIndex(
            model_name='candidate',
            index=models.Index(condition=models.Q(('disclosed_at__isnull', True)), fields=['arena'], name='candidate_undisclosed'),
        ),
        migrations.AddConstraint(
            model_name='candidate',
            constraint=models.UniqueConstraint(fields=('source', 'source_row'), name='candidate_once_per_source_row'),
        ),
        migrations.AddConstraint(
            model_name='candidate',
            constraint=models.UniqueConstraint(fields=('arena', 'name', 'version'), name='candidate_name_once_per_version'),
        ),
        migrations.AddConstraint(
            model_name='candidate',
            constraint=models.CheckConstraint(condition=models.Q(('disclosed_at__isnull', False), ('private_until_votes__isnull', False), ('private_until__isnull', False), _connector='OR'), name='candidate_private_until_something'),
        ),
        migrations.AddConstraint(
            model_name='candidate',
            constraint=models.CheckConstraint(condition=models.Q(('endpoint', ''), models.Q(('model', ''), _negated=True), _connector='OR'), name='candidate_at_an_endpoint_has_a_model'),
        ),
        migrations.AddConstraint(
            model_name='arena',
            constraint=models.CheckConstraint(condition=models.Q(('visibility__in', ['public', 'unlisted', 'private'])), name='arena_visibility_known'),
        ),
        migrations.AddConstraint(
            model_name='arena',
            constraint=models.CheckConstraint(condition=models.Q(('voters__in', ['anyone', 'signed_in', 'members'])), name='arena_voters_known'),
        ),
        migrations.AddConstraint(
            model_name='arena',
            constraint=models.CheckConstraint(condition=models.Q(('team__isnull', False), models.Q(models.Q(('voters', 'members'), _negated=True), models.Q(('visibility', 'private'), _negated=True)), _connector='OR'), name='arena_of_members_has_a_team'),
        ),
        migrations.AddConstraint(
            model_name='arena',
            constraint=models.CheckConstraint(condition=models.Q(('open_to_teams', False), models.Q(('visibility', 'private'), _negated=True), _connector='OR'), name='arena_open_to_teams_is_seen_by_them'),
        ),
        migrations.AddConstraint(
            model_name='arena',
            constraint=models.CheckConstraint(condition=models.Q(('held_out__lte', 100)), name='arena_held_out_percent'),
        ),
        migrations.AddConstraint(
            model_name='arena',
            constraint=models.CheckConstraint(condition=models.Q(('rater_cap__range', (1, 100))), name='arena_rater_cap_percent'),
        ),
        migrations.AddConstraint(
            model_name='arena',
            constraint=models.CheckConstraint(condition=models.Q(('self_identifying__in', ['mask', 'drop', 'keep'])), name='arena_self_identifying_known'),
        ),
        migrations.AddConstraint(
            model_name='arena',
            constraint=models.CheckConstraint(condition=models.Q(('counts__in', ['anyone', 'verified', 'invited'])), name='arena_counts_known'),
        ),
        migrations.AddConstraint(
            model_name='arena',
            constraint=models.CheckConstraint(condition=models.Q(('network_share__gte', 1), ('network_share__lte', 100)), name='arena_network_share_percent'),
        ),
        migrations.AddConstraint(
            model_name='apitoken',
            constraint=models.CheckConstraint(condition=models.Q(('can_read', True), ('can_submit', True), ('can_judge', True), _connector='OR'), name='token_may_do_something'),
        ),
        migrations.AddConstraint(
            model_name='apitoken',
            constraint=models.UniqueConstraint(condition=models.Q(('revoked_at__isnull', True)), fields=('team', 'name'), name='token_name_once_per_team'),
        ),
    ]
