
import arena.models.fields
import arena.validation
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('arena', '0043_backups'),
    ]

    operations = [
        migrations.AddField(
            model_name='prompt',
            name='document',
            field=models.CharField(blank=True, help_text='What the prompt comes from, such as a source text or a customer. Votes on prompts of one document count as one group.', max_length=100, validators=[arena.models.fields.Check(arena.validation.clean_name, limit=100, required=False)]),
        ),
    ]
