"""The client's requests: retried where that helps, carried out once, and never redirected
elsewhere."""

import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from clients.python import ringside_client
from clients.python.ringside_client import Ringside, RingsideError, StillWaiting
from tests.clients.fake_ringside import FakeRingside, Said, problem

TOKEN = "rs_abcdefgh_" + "5" * 64
ME = {"teams": [{"slug": "search"}]}
RUN = {"id": 4, "candidate": 1, "state": "open", "pause_reason": "", "wanted": 2, "done": 0}


def client_of(server: FakeRingside, token: str = TOKEN) -> Ringside:
    return Ringside(server.url, token)


def refused(ask: Callable[[], object]) -> RingsideError:
    with pytest.raises(RingsideError) as caught:
        ask()
    return caught.value


def test_a_request_has_the_token_and_its_answer_is_returned() -> None:
    with FakeRingside(Said({"slug": "search-answers"})) as server:
        assert client_of(server).arena("search-answers")["slug"] == "search-answers"

    (asked,) = server.asked
    assert (asked.method, asked.path) == ("GET", "/api/v1/arenas/search-answers/")
    assert asked.headers["authorization"] == f"Bearer {TOKEN}"


BUILDING = {"state": "building", "rows_done": 70, "rows_total": 200}
FILE = {**BUILDING, "address": "https://arena.example/api/v1/arenas/a/exports/files/17"}


def test_an_export_that_is_built_first_is_followed_to_its_address(pauses: list[float]) -> None:
    started, said = Said(FILE, 202, {"Retry-After": "5"}), list[str]()
    with FakeRingside(started, started, Said(b"left,right\r\n")) as server:
        client = Ringside(server.url, TOKEN, progress=said.append)
        assert client.export("a", "dpo.jsonl", raters="both") == b"left,right\r\n"
    asked = [request.path.removeprefix("/api/v1/arenas/a/exports/") for request in server.asked]
    assert asked == ["dpo.jsonl?raters=both", "files/17", "files/17"]
    assert pauses == [5.0, 5.0]
    assert said == ["dpo.jsonl: 70 of 200 rows"] * 2


def test_whoever_waits_too_long_for_an_export_hears_how_far_it_is() -> None:
    with FakeRingside(Said(FILE, 202, {"Retry-After": "5"})) as server:
        error = refused(lambda: client_of(server).export("a", "battles.csv", patience=30))
    assert isinstance(error, StillWaiting)
    assert error.last == FILE
    assert str(error) == "battles.csv is not built after 30 s."


def test_without_a_token_none_is_sent() -> None:
    with FakeRingside(Said({})) as server:
        client_of(server, "").arena("a")
    assert "authorization" not in server.asked[0].headers


def test_what_stands_in_a_path_cannot_leave_it() -> None:
    with FakeRingside(Said({})) as server:
        client_of(server).arena("../me?x=#")
    assert server.asked[0].path == "/api/v1/arenas/..%2Fme%3Fx%3D%23/"


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again_with_the_same_key(status: int, pauses: list[float]) -> None:
    with FakeRingside(problem(status, "Later."), problem(status, "Later."), Said({})) as server:
        client_of(server).post("x/", {"a": 1})

    keys = {asked.key for asked in server.asked}
    assert len(server.asked) == 3
    assert len(keys) == 1
    assert "" not in keys
    assert len(pauses) == 2


def test_a_connection_that_breaks_is_tried_again(pauses: list[float]) -> None:
    with FakeRingside(Said({"a": 1}, cut=True), Said({"a": 2})) as server:
        assert client_of(server).get("x/") == {"a": 2}
    assert len(pauses) == 1


def test_a_problem_that_breaks_off_is_tried_again() -> None:
    broken = problem(422, "No.")
    broken.cut = True
    with FakeRingside(broken, Said({"a": 2})) as server:
        assert client_of(server).get("x/") == {"a": 2}


def test_a_first_request_that_is_still_at_work_is_waited_for(pauses: list[float]) -> None:
    busy = problem(409, "Still at work.", "still-at-work")
    busy.headers = {"Retry-After": "2"}
    with FakeRingside(busy, Said({"id": 1})) as server:
        assert client_of(server).post("x/", {}) == {"id": 1}
    assert 2.0 <= pauses[0] <= 3.0


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 412, 413, 422])
def test_what_will_not_pass_is_not_tried_again(status: int, pauses: list[float]) -> None:
    with FakeRingside(problem(status, "No.")) as server:
        assert refused(lambda: client_of(server).get("x/")).status == status
    assert len(server.asked) == 1
    assert not pauses


def test_it_gives_up_after_six_tries_with_growing_pauses(pauses: list[float]) -> None:
    with FakeRingside(problem(503, "Busy.")) as server:
        error = refused(lambda: client_of(server).get("x/"))

    assert (error.status, error.detail) == (503, "Busy.")
    assert len(server.asked) == 6
    assert len(pauses) == 5
    assert all(pause <= 2 ** (n + 1) / 2 for n, pause in enumerate(pauses))


def test_the_server_says_how_long_to_wait(pauses: list[float]) -> None:
    then = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    answers = [problem(429, "Slowly."), problem(429, "Slowly."), Said({})]
    answers[0].headers, answers[1].headers = {"Retry-After": "7"}, {"Retry-After": then}
    with FakeRingside(*answers) as server:
        client_of(server).get("x/")
    assert 7 <= pauses[0] <= 8
    assert 25 <= pauses[1] <= 33


@pytest.mark.parametrize("said", ["soon", "-5", "1e9", "Wed, 99 Nov", "Sun, 22 Nov 2026 09:00:00"])
def test_a_pause_that_cannot_be_read_is_our_own(said: str, pauses: list[float]) -> None:
    slow = problem(429, "Slowly.")
    slow.headers = {"Retry-After": said}
    with FakeRingside(slow, Said({})) as server:
        client_of(server).get("x/")
    assert pauses[0] <= 1


def test_nobody_waits_an_hour_for_a_try(pauses: list[float]) -> None:
    slow = problem(429, "Slowly.")
    slow.headers = {"Retry-After": "3600"}
    with FakeRingside(slow) as server:
        assert refused(lambda: client_of(server).get("x/")).status == 429
    assert not pauses


def test_a_host_that_does_not_answer_is_named() -> None:
    with FakeRingside(Said({})) as server:
        url = server.url
    error = refused(lambda: Ringside(url, TOKEN).get("x/"))
    assert error.status == 0
    assert error.detail.startswith(f"{url} does not answer: ")


def test_a_problem_names_its_cause() -> None:
    blamed = [{"pointer": "#/name", "detail": "This field is required."}]
    with FakeRingside(problem(422, "Name: this field is required.", errors=blamed)) as server:
        error = refused(lambda: client_of(server).get("x/"))

    assert (error.status, error.title, error.errors) == (422, "Title", blamed)
    assert error.kind == "urn:ringside:problem:refused"
    assert str(error) == "Name: this field is required. (422 Title)"


@pytest.mark.parametrize("body", [b"", b"<html>Bad Gateway</html>", b"[1]", b'"x"', b"\xff"])
def test_an_error_that_is_no_problem_keeps_its_status(body: bytes) -> None:
    with FakeRingside(Said(body, 418)) as server:
        error = refused(lambda: client_of(server).get("x/"))
    assert error.status == 418
    assert error.detail == "The server gave no reason."


@pytest.mark.parametrize("errors", [5, "no", ["no"], {"no": 1}, [None, {"detail": "Row 1."}]])
def test_an_error_whose_errors_are_none_has_those_that_are(errors: object) -> None:
    with FakeRingside(problem(422, "No.", errors=errors)) as server:
        error = refused(lambda: client_of(server).get("x/"))
    assert error.errors == (
        [{"detail": "Row 1."}] if errors == [None, {"detail": "Row 1."}] else []
    )


def test_an_answer_that_is_not_json_says_so() -> None:
    with FakeRingside(Said(b"<html>Welcome</html>")) as server:
        assert "not JSON" in refused(lambda: client_of(server).get("x/")).detail


@pytest.mark.parametrize("body", [[], 5, "x", None])
def test_an_answer_that_is_no_object_says_so(body: object) -> None:
    with FakeRingside(Said(body)) as server:
        error = refused(lambda: client_of(server).get("x/"))
    assert "Is this the address of a Ringside server?" in error.detail


def test_a_member_that_an_answer_lacks_is_named() -> None:
    with FakeRingside(Said({"hello": 1})) as server:
        error = refused(lambda: list(client_of(server).candidates("a")))
    assert (
        error.detail == "The response has no 'results'. Is this the address of a Ringside server?"
    )


def test_a_redirect_to_another_origin_is_not_followed() -> None:
    other = FakeRingside(Said({"stolen": True}))
    server = FakeRingside(Said(None, 302, {"Location": f"{other.url}/api/v1/x/"}))
    with other, server:
        error = refused(lambda: client_of(server).get("x/"))
    assert (error.status, other.asked) == (302, [])
    assert "another address" in error.detail


def test_a_redirect_within_the_origin_is_followed() -> None:
    with FakeRingside(Said(None, 302, {"Location": "/api/v1/y/"}), Said({"a": 1})) as server:
        assert client_of(server).get("x/") == {"a": 1}
    assert [asked.path for asked in server.asked] == ["/api/v1/x/", "/api/v1/y/"]


@pytest.mark.parametrize("status", [301, 302, 303, 307])
def test_no_post_is_redirected(status: int) -> None:
    with FakeRingside(Said(None, status, {"Location": "/api/v1/y/"})) as server:
        assert refused(lambda: client_of(server).post("x/", {})).status == status
    assert len(server.asked) == 1


def test_links_of_a_list_are_followed_at_our_address_only() -> None:
    elsewhere = "https://other.example/api/v1/rows/?cursor=cD0x&page_size=1000"
    pages = [Said({"next": elsewhere, "results": [1, 2]}), Said({"next": None, "results": [3]})]
    with FakeRingside(*pages) as server:
        assert list(client_of(server).rows("rows/", raters="people")) == [1, 2, 3]
    assert [asked.path for asked in server.asked] == [
        "/api/v1/rows/?page_size=1000&raters=people",
        "/api/v1/rows/?cursor=cD0x&page_size=1000",
    ]


def test_the_token_is_in_no_text_about_the_client() -> None:
    with FakeRingside(problem(401, "This token is not known here.")) as server:
        client = client_of(server)
        error = refused(lambda: client.get("x/"))
    said = [repr(client), repr(client._web), str(error), repr(error)]
    said += traceback.format_exception(error)
    assert not any(TOKEN in text for text in said)


@pytest.mark.parametrize("token", [f"{TOKEN}\n", f"{TOKEN} ", f"{TOKEN}\r\nX: y", f"{TOKEN}\u00e9"])
def test_a_token_that_no_header_takes_is_refused_unrepeated(token: str) -> None:
    error = refused(lambda: Ringside("https://arena.example", token))
    assert TOKEN not in str(error)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "arena.example",
        "ftp://arena.example",
        "file:///etc/passwd",
        "https://",
        "https://me:secret@arena.example",
        "https://arena.example?x=1",
        "https://arena.example#x",
        "https://arena.example:0",
        "https://arena.example:x",
        "https://[::1",
    ],
)
def test_an_address_that_is_none_is_refused_unrepeated(url: str) -> None:
    error = refused(lambda: Ringside(url))
    assert "must look like https://arena.example" in str(error)
    assert "secret" not in str(error)


def test_waiting_asks_with_the_etag_and_growing_pauses(pauses: list[float]) -> None:
    first = Said({"state": "open"}, headers={"ETag": '"1"'})
    same = Said(b"", 304)
    last = Said({"state": "done"}, headers={"ETag": '"2"'})
    with FakeRingside(first, *[same] * 8, last) as server:
        found = client_of(server).wait(
            "x/", lambda said: said["state"] == "done", patience=600, what="It"
        )

    assert found == {"state": "done"}
    sent = [asked.headers.get("if-none-match") for asked in server.asked]
    assert sent == [None] + ['"1"'] * 9
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (ringside_client.FIRST_LOOK, ringside_client.LONGEST_LOOK)


def test_waiting_ends_when_the_time_is_over(pauses: list[float]) -> None:
    with FakeRingside(Said({"state": "open"})) as server, pytest.raises(StillWaiting) as caught:
        client_of(server).wait("x/", lambda said: False, patience=20, what="Run 4")
    assert sum(pauses) == pytest.approx(20)
    assert caught.value.last == {"state": "open"}
    assert str(caught.value) == "Run 4: not finished after 20 s."


def test_a_look_that_keeps_failing_ends_with_the_time(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ringside_client.random, "uniform", lambda least, most: most)
    answers = [Said({"state": "open"}), problem(503, "Busy.")]
    with FakeRingside(*answers) as server, pytest.raises(StillWaiting) as caught:
        client_of(server).wait("x/", lambda said: False, patience=2, what="Run 4")
    assert sum(pauses) <= 2 + ringside_client.LONGEST_BEYOND
    assert caught.value.last == {"state": "open"}
    assert str(caught.value) == "Run 4: not finished after 2 s. Busy. (503 Title)"


def test_a_try_takes_no_longer_than_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed: list[float] = []

    def hang(self: object, request: object, timeout: float) -> tuple[None, str]:
        allowed.append(timeout)
        ringside_client.time.sleep(timeout)
        return None, "It does not answer."

    monkeypatch.setattr(ringside_client._Web, "_try", hang)
    with pytest.raises(StillWaiting, match=r"not finished after 20 s\. It does not answer\."):
        Ringside("https://arena.example").wait("x/", bool, patience=20, what="Run 4")
    assert allowed == [pytest.approx(20)]


def test_without_patience_there_is_one_look() -> None:
    with FakeRingside(problem(503, "Busy."), Said({"a": 1})) as server:
        assert client_of(server).wait("x/", bool, patience=0, what="It") == {"a": 1}


def test_what_will_not_pass_ends_the_waiting() -> None:
    with FakeRingside(Said({}), problem(404, "Not here.")) as server:
        client = client_of(server)
        error = refused(lambda: client.wait("x/", bool, patience=60, what="It"))
    assert error.status == 404


@pytest.mark.parametrize(
    ("token", "told"),
    [("rs_1", "No arena `nope` for this token."), ("", "No arena `nope`. RINGSIDE_TOKEN is not")],
)
@pytest.mark.parametrize("detail", ["Not found.", "There is no arena “nope”, or you do not ..."])
def test_an_arena_that_is_not_there_is_named(token: str, told: str, detail: str) -> None:
    with FakeRingside(problem(404, detail)) as server, pytest.raises(RingsideError) as caught:
        Ringside(server.url, token).arena("nope")
    assert caught.value.detail.startswith(told)
    assert caught.value.status == 404


def test_what_is_missing_in_an_arena_keeps_the_servers_words() -> None:
    missing = "There is no candidate “7”, or you do not have access to it."
    with FakeRingside(problem(404, missing)) as server, pytest.raises(RingsideError) as caught:
        Ringside(server.url, "rs_1").get("arenas/there/candidates/7/")
    assert caught.value.detail == missing


def test_a_scope_that_is_missing_comes_with_where_to_get_it() -> None:
    lacks = problem(403, "This token lacks the scope judge.")
    with FakeRingside(lacks) as server, pytest.raises(RingsideError, match="API tokens page"):
        Ringside(server.url, "rs_1").judges("there")


@pytest.mark.parametrize(
    ("url", "token", "told"),
    [("", "rs_1", "--url or RINGSIDE_URL"), ("http://x", " ", "RINGSIDE_TOKEN is not set")],
)
def test_the_command_says_what_is_not_set(
    url: str,
    token: str,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RINGSIDE_URL", url)
    monkeypatch.setenv("RINGSIDE_TOKEN", token)
    assert ringside_client.main(["check", "--arena=a", "--candidate=b", "--baseline=c"]) == 2
    assert told in capsys.readouterr().out


def test_progress_is_told_while_rows_go_up_and_a_run_is_waited_for() -> None:
    report = {"added": 2, "changed": 0, "unchanged": 0, "refused": [], "missing": []}
    run = {"id": 5, "state": "open", "done": 3, "wanted": 10}
    ended = run | {"state": "done", "done": 10}
    heard: list[str] = []
    with FakeRingside(Said(report), Said(run), Said(ended)) as server:
        client = Ringside(server.url, "rs_1", progress=heard.append)
        client.upload_answers("a", 1, [{"prompt_id": "p", "text": "t"}] * 2)
        client.wait_for_judges(5, patience=60)
    assert heard == [
        "2 rows uploaded",
        "Run 5: 3 of 10 verdicts",
        "Run 5: 10 of 10 verdicts",
    ]
