"""What importing the package costs and promises."""

import subprocess
import sys

import pytest

import ranking.stats


def test_importing_the_package_loads_neither_scipy_nor_django():
    code = "import sys, ranking.stats;assert not {'scipy', 'django', 'choix'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_is_there_and_explained():
    for name in ranking.stats.__all__:
        assert getattr(ranking.stats, name).__doc__, name
    assert dir(ranking.stats) == sorted(ranking.stats.__all__)


def test_other_names_are_not():
    with pytest.raises(AttributeError, match="has no attribute 'Trueskill'"):
        _ = ranking.stats.Trueskill
