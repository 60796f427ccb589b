"""Puts plotly.min.js into the wheel, so that nobody installs 70 MB for this one file."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        spec = find_spec("plotly")
        assert spec is not None
        script = Path(str(spec.origin)).parent / "package_data" / "plotly.min.js"
        build_data["force_include"][str(script)] = "static/plotly/plotly.min.js"
