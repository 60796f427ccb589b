from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("judges", "0018_readings"), ("arena", "0031_requesters")]

    operations = [migrations.RenameField("epoch", "asker", "requester")]
