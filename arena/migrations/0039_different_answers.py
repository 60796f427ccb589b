"""A prompt to which both candidates of a pair gave the same answer no longer counts as shared."""

from django.db import migrations

RECOUNT = """
    UPDATE arena_pair SET shared_prompts = (
        SELECT count(*) FROM arena_response low
        JOIN arena_response high ON high.prompt_id = low.prompt_id
        JOIN arena_prompt p ON p.id = low.prompt_id
        WHERE low.candidate_id = arena_pair.low_id AND high.candidate_id = arena_pair.high_id
            AND p.retired_at IS NULL
            AND (low.text <> high.text OR coalesce(CAST(low.messages AS text), '')
                <> coalesce(CAST(high.messages AS text), ''))
            AND NOT EXISTS (SELECT 1 FROM arena_import i WHERE i.revealed_at IS NULL
                AND i.id IN (low.source_id, high.source_id)))
    WHERE shared_prompts > 0
"""


class Migration(migrations.Migration):

    dependencies = [
        ('arena', '0038_room_for_replies'),
    ]

    operations = [migrations.RunSQL(RECOUNT, migrations.RunSQL.noop)]
