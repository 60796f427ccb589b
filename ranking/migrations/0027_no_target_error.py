from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('ranking', '0026_kept_claims'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='board',
            name='board_target_error_above_zero',
        ),
        migrations.RemoveField(
            model_name='board',
            name='target_error',
        ),
    ]
