"""The admin of judges: every table can be looked at."""

from arena.admin import show_other_tables

show_other_tables("judges")
