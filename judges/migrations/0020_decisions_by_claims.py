from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('judges', '0019_requesters'),
    ]

    operations = [
        migrations.AddField(
            model_name='decision',
            name='reason',
            field=models.CharField(blank=True, help_text='Why it was recorded without a notification.', max_length=200),
        ),
    ]
