"""The project's settings, with pages that take their time (`slow_pages.py`)."""

from arena.settings import *  # noqa: F403

ROOT_URLCONF = "tests.ops.slow_pages"
