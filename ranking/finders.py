"""The finder of a static file in a Python package: plotly.min.js."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage, Storage

NAME = "plotly.min.js"


class PlotlyStorage(FileSystemStorage):
    """The folder of the installed package; its files are collected under `prefix`."""

    prefix = "plotly"


class PlotlyFinder(BaseFinder):
    """Finds `plotly/plotly.min.js` and none of the package's other files."""

    def __init__(self, *_: Any, **__: Any) -> None:
        spec = find_spec("plotly")
        assert spec is not None
        self.storage = PlotlyStorage(Path(str(spec.origin)).parent / "package_data")

    def check(self, **_: Any) -> Any:
        return []

    def find(self, path: str, find_all: bool = False, **_: Any) -> Any:
        """Return the file's path, or with `find_all` a list of paths."""
        paths = [self.storage.path(NAME)] if path == f"{self.storage.prefix}/{NAME}" else []
        return paths if find_all else next(iter(paths), None)

    def list(self, ignore_patterns: Any) -> Iterator[tuple[str, Storage]]:
        yield NAME, self.storage
