#!/usr/bin/env python
"""Ringside's command line."""

import os
import sys

from django.core.management import execute_from_command_line

from arena import __version__

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arena.settings")
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"Ringside {__version__}\n")
    else:
        execute_from_command_line(sys.argv)
