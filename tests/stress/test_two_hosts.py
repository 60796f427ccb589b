"""Two web hosts and two workers on one PostgreSQL and Redis, with nothing else in common.

Each host has folders of its own. The same browser is sent to one of them and then to the other, as
a proxy would, and one host is killed.
"""

import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from operator import itemgetter
from pathlib import Path
from subprocess import Popen
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.core.management import call_command
from django.db.models import F
from django.utils import timezone

from arena.actors import CLI
from arena.models import Arena, Comparison, KeptUpload, LiveConversation
from arena.outcomes import BOTH_BAD
from arena.services import live
from arena.services.tokens import create_token
from benchmarks.contests import NEXT_KEY, vote
from benchmarks.load import Script, play
from benchmarks.sample import Person, people
from benchmarks.serving import Web, free_port, start_web
from ranking.models import Snapshot
from tests.factories import PASSWORD, make_arena, make_candidate, make_member, make_team
from tests.ops.running import eventually
from tests.stress.installation import CELERY, QUIET, Installation
from tests.stress.test_killed_web import votes_by_key

pytestmark = [pytest.mark.slow, pytest.mark.services]
FILE = Path(__file__).parent.parent / "files" / "lmarena.jsonl"
EQUAL = {"SECRET_KEY": "s" * 50, "VOTE_LOG_KEY": "k" * 43 + "="}
READS, PAIRS_EACH = 30, 60
WORKER = [
    *CELERY,
    "worker",
    "--pool=threads",
    "--concurrency=8",
    "--queues=fits,sweeps,calls",
    *QUIET,
]
BEAT = ["--beat", "--scheduler=arena.celery:Scheduler"]


@dataclass
class Host:
    """A web server and a worker with beat."""

    web: Web
    worker: Popen[bytes]

    def kill(self) -> None:
        """End all of it as a power cut would."""
        self.web.end(signal.SIGKILL)
        self.worker.kill()
        self.worker.wait(60)


@dataclass
class Browser:
    """Cookies that each host is shown, and forms with their token."""

    hosts: list[Host]
    client: httpx2.Client = field(default_factory=lambda: httpx2.Client(timeout=60))

    def get(self, host: int, path: str, **more: Any) -> httpx2.Response:
        return self.client.get(self.url(host, path), **more)

    def post(self, host: int, path: str, files: Any = None, **form: str) -> httpx2.Response:
        form |= {"csrfmiddlewaretoken": self.client.cookies.get("csrftoken", "")}
        return self.client.post(self.url(host, path), data=form, files=files)

    def url(self, host: int, path: str) -> str:
        return f"http://127.0.0.1:{self.hosts[host].web.address[1]}{path}"


@pytest.fixture
def hosts(
    installation: Installation, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Host]]:
    for name, value in EQUAL.items():  # this process makes tokens and reads the log, too
        setattr(settings, name, value)
        monkeypatch.setitem(installation.environment, name, value)
    with ExitStack() as stack:
        started = []
        for name in ("amber", "birch"):
            folders = {"RINGSIDE_HOME": tmp_path / name, "TMPDIR": tmp_path / f"{name}-tmp"}
            for folder in folders.values():
                folder.mkdir()
            own = {variable: str(folder) for variable, folder in folders.items()}
            own |= {"API_READS_PER_MINUTE": str(READS)}
            web = start_web(free_port(), installation.environment | own, processes=2, threads=8)
            stack.callback(web.end)
            started.append(Host(web, installation.start(*WORKER, *BEAT, **own)))
        for host in started:
            host.web.await_start()
        yield started


@pytest.fixture
def arena(hosts: list[Host]) -> Arena:
    return make_arena(4, 30, team=make_team())


@pytest.fixture
def browser(hosts: list[Host], arena: Arena) -> Iterator[Browser]:
    """A member of the team, who has signed in on the first host."""
    user, browser = make_member(arena.team).user, Browser(hosts)
    user.password = PBKDF2PasswordHasher().encode(PASSWORD, "salt")  # not as tests do
    user.save()
    browser.get(0, "/sign-in/")
    answer = browser.post(0, "/sign-in/", login=user.email, password=PASSWORD)
    assert answer.status_code == 302, answer.text
    yield browser
    browser.client.close()


def sign_in_and_import(browser: Browser, arena: Arena) -> None:
    """Sessions and CSRF; a file is previewed on one and imported on the other."""
    assert arena.team.name in browser.get(1, "/teams/").text
    page = f"/a/{arena.slug}/manage/import/"
    browser.get(0, page)
    preview = browser.post(1, page, files={"file": ("a.jsonl", FILE.read_bytes())}, do="preview")
    key = KeptUpload.objects.get().key
    assert key in preview.text
    assert "Imported" in browser.post(0, page, kept=key, do="import").text
    assert arena.prompts.count() == 32
    forged = browser.client.post(browser.url(1, page), data={"kept": key, "do": "import"})
    assert forged.status_code == 403


def vote_and_undo(browser: Browser, arena: Arena) -> None:
    page = f"/a/{arena.slug}/vote/"
    match = NEXT_KEY.search(browser.get(0, page).content)
    for number in range(8):
        assert match
        key = match[1].decode()
        answer = browser.post(number % 2, f"{page}{key}/", outcome="left", with_next="1")
        again = browser.post((number + 1) % 2, f"{page}{key}/", outcome="left")
        assert (answer.status_code, again.status_code) == (302, 302)
        match = NEXT_KEY.search(browser.get(number % 2, page).content)
    assert arena.votes.count() == 8
    assert browser.post(0, f"{page}{key}/undo/").status_code == 302
    assert arena.votes.filter(voided_at=None).count() == 7


def ask_and_read(browser: Browser, arena: Arena) -> None:
    for number in (1, 2):
        make_candidate(arena, f"live-{number}", endpoint="scripted", model=f"scripted-{number}")
    live.set_up_live(
        arena=arena,
        by=CLI,
        now=timezone.now(),
        limit=50,
        voters=Arena.Voters.ANYONE,
        refused_words="",
        candidates=[one for one in arena.candidates.all() if live.can_answer_live(one)],
    )
    key = str(uuid4())
    page = f"/a/{arena.slug}/live/"
    browser.get(0, page)
    asked = browser.post(0, page, question="Which parcel leaves first?", key=key)
    assert asked.headers["Location"].startswith(f"{page}{key}/")
    assert "parcel" in browser.get(1, f"{page}{key}/").text
    assert "event: end" in browser.get(1, f"{page}{key}/stream/").text
    assert browser.post(0, f"{page}{key}/vote/", outcome="left").status_code == 302
    conversation = LiveConversation.objects.get()
    assert conversation.comparison is not None
    assert conversation.comparison.votes.count() == 1


def repeat_keys_and_reach_a_limit(browser: Browser, arena: Arena) -> None:
    _, secret = create_token(team=arena.team, name="CI", scopes=["read", "submit"], by=CLI)
    before = arena.prompts.count()
    prompts = f"/api/v1/arenas/{arena.slug}/prompts/"
    with httpx2.Client(headers={"Authorization": f"Bearer {secret}"}, timeout=60) as client:

        def send(number: int) -> int:
            return client.post(
                browser.url(number % 2, prompts),
                json={"prompts": [{"text": f"Why {number // 10}?"}]},
                headers={"Idempotency-Key": f"key-{number // 10}"},
            ).status_code

        with ThreadPoolExecutor(10) as senders:
            assert set(senders.map(send, range(30))) == {200}
        assert arena.prompts.count() == before + 3
        used = {"Idempotency-Key": "key-0"}
        other = client.post(browser.url(1, prompts), json={"prompts": []}, headers=used)
        assert other.status_code == 422
        lists = [browser.url(number % 2, "/api/v1/arenas/") for number in range(2 * READS)]
        codes = Counter(client.get(address).status_code for address in lists)
    assert codes == {200: READS, 429: READS}


def kill_a_host_while_people_vote(hosts: list[Host], arena: Arena) -> None:
    """Half of the raters vote on each host; those of the killed one go on at the other.

    Both workers and both beats see each vote, and each state of the votes is published once.
    """
    voters = people(arena, 8, pairs_each=PAIRS_EACH)
    Comparison.objects.update(issued_at=F("issued_at") - timedelta(minutes=1))
    acknowledged: list[str] = []

    def cast(person: Person) -> Script:
        for number, key in enumerate(person.keys):
            answer = yield vote(person, f"/a/{arena.slug}/vote/{key}/", number)
            if not answer.status:
                waiting.append((person, number))
                return
            # A vote whose acknowledgement was lost with its host is not taken twice.
            assert answer.status == 200 or b"notice=AlreadyVoted" in answer.head, answer
            acknowledged.append(str(key))
            if len(acknowledged) == 150:
                hosts[0].kill()

    waiting: list[tuple[Person, int]] = []
    with ThreadPoolExecutor(2) as proxies:
        for end in [
            proxies.submit(play, host.web.address, map(cast, voters[place::2]))
            for place, host in enumerate(hosts)
        ]:
            end.result()
    assert len(waiting) == 4
    rest = [Person(one.cookies, one.token, one.keys[at:]) for one, at in waiting]
    play(hosts[1].web.address, map(cast, rest))
    assert len(acknowledged) == len(voters) * PAIRS_EACH
    assert not set(acknowledged) - votes_by_key().keys()
    counted = arena.votes.live().exclude(outcome=BOTH_BAD).count()
    boards = Snapshot.objects.filter(board__arena=arena, board__category="", board__raters="people")
    eventually(lambda: boards.filter(is_current=True, n_votes=counted).exists())
    # Without a digest are those of the past, which the first refresh draws for the history.
    drawn = boards.exclude(digest="").order_by("pk")
    published = list(drawn.values_list("n_votes", "digest", "measured_digest"))
    assert len(set(published)) == len(published), "both workers published the same"
    assert published == sorted(published, key=itemgetter(0)), "older votes replaced newer ones"
    call_command("verify_log", arena.slug)


def test_what_one_host_begins_the_other_ends(
    hosts: list[Host], browser: Browser, arena: Arena
) -> None:
    vote_and_undo(browser, arena)
    sign_in_and_import(browser, arena)
    ask_and_read(browser, arena)
    repeat_keys_and_reach_a_limit(browser, arena)
    kill_a_host_while_people_vote(hosts, arena)
