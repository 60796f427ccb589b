from django.db import migrations, models

# Until now, a file's votes were marked from the start, and its import said how far they counted.
# Those beyond wait for the log. The partial indexes are made anew, because renaming them would
# leave their conditions in the state as they were.
REST_OF_FILES = """
    UPDATE arena_vote SET tallied = FALSE
    WHERE source_id IN (SELECT id FROM arena_import WHERE tallied_at IS NULL)
        AND source_row > (SELECT tallied_row FROM arena_import i WHERE i.id = source_id)
"""


class Migration(migrations.Migration):
    dependencies = [("arena", "0040_raters_link")]

    operations = [
        migrations.RunSQL(REST_OF_FILES, migrations.RunSQL.noop),
        migrations.RemoveIndex(model_name="vote", name="vote_to_add_to_tallies"),
        migrations.RemoveIndex(model_name="vote", name="vote_to_take_out_of_tallies"),
        migrations.RenameField(model_name="vote", old_name="tallied", new_name="logged"),
        migrations.RenameField(model_name="import", old_name="tallied_at", new_name="logged_at"),
        migrations.RemoveField(model_name="import", name="tallied_row"),
        migrations.AlterField(
            model_name="vote",
            name="logged",
            field=models.BooleanField(db_default=False, default=False, editable=False, help_text="Whether the arena's log says that this vote counts."),
        ),
        migrations.AlterField(
            model_name="import",
            name="logged_at",
            field=models.DateTimeField(blank=True, help_text="When the log had all votes of the file.", null=True),
        ),
        migrations.AddIndex(
            model_name="vote",
            index=models.Index(condition=models.Q(("logged", False), ("uncounted__isnull", True), ("voided_at__isnull", True), ("source__isnull", True)), fields=["arena", "id"], name="vote_to_log"),
        ),
        migrations.AddIndex(
            model_name="vote",
            index=models.Index(condition=models.Q(("logged", False), ("uncounted__isnull", True), ("voided_at__isnull", True), ("source__isnull", False)), fields=["source"], name="vote_to_log_again"),
        ),
        migrations.AddIndex(
            model_name="vote",
            index=models.Index(condition=models.Q(("logged", True), models.Q(("voided_at__isnull", False), ("uncounted__isnull", False), _connector="OR")), fields=["arena", "id"], name="vote_to_take_off_log"),
        ),
    ]
