"""The address of this site."""

from django.conf import settings


def absolute_url(path: str) -> str:
    """Return the full address of a page of this site."""
    return f"{settings.SITE_URL}{path}"
