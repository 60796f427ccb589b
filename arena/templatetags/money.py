"""How amounts are written on pages."""

from django import template

from arena.calls.money import dollars

register = template.Library()
register.filter("dollars", dollars)
