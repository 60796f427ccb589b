"""The project's settings with a broker that hands a message to somebody else after two seconds."""

from arena.settings import *  # noqa: F403

CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 2, "unacked_restore_interval": 1}
