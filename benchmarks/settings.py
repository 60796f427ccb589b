"""The project's settings, with the commands that measure it."""

from arena import settings
from arena.settings import *  # noqa: F403

INSTALLED_APPS = [*settings.INSTALLED_APPS, "benchmarks"]
