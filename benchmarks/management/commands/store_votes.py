"""Store an arena's votes. `measure_boards` runs it, whose own memory is measured."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from benchmarks.stored import Sizes, store


class Command(BaseCommand):
    help = "Store an arena with many votes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("slug")
        parser.add_argument("sizes", nargs="+", type=int, help="as the fields of Sizes")

    def handle(self, *_: Any, slug: str, sizes: list[int], **options: Any) -> None:
        store(Sizes(slug, *sizes))
