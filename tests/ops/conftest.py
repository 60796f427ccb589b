"""Separate databases for tests of operations."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest


@pytest.fixture
def new_database(postgres_url: str) -> Iterator[Any]:
    """A function that creates an empty PostgreSQL database and returns its address."""
    import psycopg

    names: list[str] = []

    def create() -> str:
        names.append(f"ringside_drill_{uuid4().hex[:12]}")
        server.execute(f"CREATE DATABASE {names[-1]}")
        return f"{postgres_url.rpartition('/')[0]}/{names[-1]}"

    with psycopg.connect(postgres_url, autocommit=True) as server:
        yield create
        for name in names:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")
