"""The project's own settings, with the bare views beside its pages."""

from arena import settings
from arena.settings import *  # noqa: F403

ROOT_URLCONF = "benchmarks.urls"
INSTALLED_APPS = [*settings.INSTALLED_APPS, "benchmarks"]
