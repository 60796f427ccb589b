"""The project's settings, with the routes of the bare views."""

from arena import settings
from arena.settings import *  # noqa: F403

ROOT_URLCONF = "benchmarks.urls"
INSTALLED_APPS = [*settings.INSTALLED_APPS, "benchmarks"]
