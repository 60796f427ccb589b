"""Choices and help texts in plain words; no change of the tables."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("judges", "0007_drift_check_sets"),
    ]

    operations = [
        migrations.AlterField(
            model_name="calibration",
            name="kind",
            field=models.CharField(
                choices=[
                    ("pairs", "Which of two answers is better"),
                    ("scores", "Scores of single answers"),
                    ("honeypots", "Honeypots"),
                ],
                max_length=10,
            ),
        ),
        migrations.AlterField(
            model_name="driftcheck",
            name="why",
            field=models.CharField(
                choices=[
                    ("baseline", "Baseline"),
                    ("changed", "The server reports another model"),
                    ("weekly", "Weekly check"),
                    ("daily", "Daily sample"),
                ],
                max_length=10,
            ),
        ),
        migrations.AlterField(
            model_name="judge",
            name="soft",
            field=models.BooleanField(
                default=False,
                help_text="Votes carry the model's probabilities, where it returns them.",
            ),
        ),
        migrations.AlterField(
            model_name="judgement",
            name="flagged",
            field=models.BooleanField(
                default=False,
                help_text="An answer seems to address the judge, so people should check.",
            ),
        ),
        migrations.AlterField(
            model_name="judgement",
            name="flipped",
            field=models.BooleanField(
                blank=True,
                help_text="Did the verdict change with the order of the answers?",
                null=True,
            ),
        ),
        migrations.AlterField(
            model_name="labelset",
            name="kind",
            field=models.CharField(
                choices=[
                    ("pairs", "Which of two answers is better"),
                    ("scores", "Scores of single answers"),
                    ("honeypots", "Honeypots"),
                ],
                max_length=10,
            ),
        ),
        migrations.AlterField(
            model_name="mark",
            name="kind",
            field=models.CharField(
                choices=[
                    ("coherent", "Coherent: the verdict follows from the reasoning"),
                    ("suitable", "Relevant: it discusses these answers and the criteria"),
                    ("critical", "Critical: it names weaknesses, not only strengths"),
                ],
                max_length=10,
            ),
        ),
    ]
