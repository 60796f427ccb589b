"""The lease of an arena: whoever holds its token may fold and publish, and nobody else."""

import uuid
from datetime import timedelta

from django.utils import timezone

from ranking.models import ArenaRefresh

LEASE = timedelta(seconds=20)  # so long a killed worker keeps an arena from being refreshed
LEASE_PER_VOTE = timedelta(microseconds=20)  # a fit takes half of that, and nothing renews in it


class LeaseLost(Exception):
    """Another refresh has taken over: what this one knows may be older."""


def renew(token: uuid.UUID, n_votes: int = 0) -> None:
    """Keep the arena for one more step, longer where that is about `n_votes`; or LeaseLost.

    Within a transaction this is the fence: the row stays locked until the commit, so that nobody
    can take over between the check and the writes.
    """
    until = timezone.now() + LEASE + n_votes * LEASE_PER_VOTE
    if not ArenaRefresh.objects.filter(token=token).update(leased_until=until):
        raise LeaseLost
