import os

import django

# Set before NumPy is loaded: with two processes, its threads would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arena.settings")
django.setup()  # teams' decisions are simulated too; no database is opened
