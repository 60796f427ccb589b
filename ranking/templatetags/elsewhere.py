"""Addresses of pages here, as other sites need them."""

from typing import Any

from django import template
from django.conf import settings
from django.urls import reverse

register = template.Library()


@register.simple_tag
def absolute(name: str, *path: Any) -> str:
    """The whole address of the page of this name."""
    return f"{settings.SITE_URL}{reverse(name, args=path)}"
