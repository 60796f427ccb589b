"""What importing the package costs and promises."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import ranking.stats

MODULES = [info.name for info in pkgutil.iter_modules(ranking.stats.__path__)]


def test_importing_the_package_loads_neither_scipy_nor_django():
    code = "import sys, ranking.stats;assert not {'scipy', 'django', 'choix'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_is_explained(name: str):
    module = importlib.import_module(f"ranking.stats.{name}")
    for node in ast.parse(Path(str(module.__file__)).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            assert getattr(module, node.name).__doc__, node.name
