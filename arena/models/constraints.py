"""Named constraints and indexes, written on one line."""

from django.db import models
from django.db.models import Lookup, Q


def check(name: str, condition: "Q | Lookup[bool]") -> models.CheckConstraint:
    return models.CheckConstraint(condition=condition, name=name)


def unique(name: str, *fields: str, where: Q | None = None) -> models.UniqueConstraint:
    return models.UniqueConstraint(fields=fields, name=name, condition=where)


def index(name: str, *fields: str, where: Q | None = None) -> models.Index:
    return models.Index(fields=fields, name=name, condition=where)
