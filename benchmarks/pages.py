"""The cost of a page apart from time: queries, and bytes on first load."""

import gzip
import http.client
import re
from dataclasses import dataclass

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from benchmarks.sample import SLUG
from ranking.models import BoardPage

BOARD, VOTE = f"/a/{SLUG}/", f"/a/{SLUG}/vote/"
LINKED = re.compile(r'<(?:link|script)\b[^>]*?\b(?:href|src)="(/static/[^"]+)"')


@dataclass(frozen=True)
class Weight:
    """The compressed bytes of a page and of everything it links to."""

    page: str
    html: int
    linked: int

    @property
    def total(self) -> int:
        return self.html + self.linked


def board_queries() -> tuple[int, int]:
    """The queries for the board's page when it is rendered, and when it is stored."""
    BoardPage.objects.all().delete()
    client = Client()
    return queries(client, BOARD), queries(client, BOARD)


def queries(client: Client, path: str) -> int:
    """Count the SQL statements of a request, without BEGIN and COMMIT."""
    with CaptureQueriesContext(connection) as captured:
        assert client.get(path).status_code == 200
    return sum(query["sql"] not in ("BEGIN", "COMMIT") for query in captured.captured_queries)


def weigh(address: tuple[str, int], page: str) -> Weight:
    """Load a page as a browser does for the first time: HTML, styles, scripts and icon."""
    html = _fetch(address, page)
    linked = set(LINKED.findall(html.decode()))
    return Weight(page, _packed(html), sum(_packed(_fetch(address, url)) for url in linked))


def _fetch(address: tuple[str, int], path: str) -> bytes:
    connection = http.client.HTTPConnection(*address, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    assert answer.status == 200, (path, answer.status)
    body = answer.read()
    connection.close()
    return body


def _packed(body: bytes) -> int:
    """The size with gzip; the container image's static files, with brotli, are smaller still."""
    return len(gzip.compress(body, 6))
