"""The server: streams, bounds, and what a page of another site must not get."""

from __future__ import annotations

import json
import re
import threading
from typing import Any

import pytest

from tests.apps.demo.tiny_page import client, desks, events, tiny_model
from tvm_fusionx.apps.demo.desk import MOST_WAITING, Event, Job
from tvm_fusionx.apps.demo.server import MOST_JSON_BYTES, PAGE, THREADS

pytest.importorskip("flask")


@pytest.fixture(name="page", scope="module")
def fixture_page() -> Any:
    """Return a client of a server whose text model is tiny, and made when it is asked."""
    return client(desks(tiny_model))


@pytest.mark.slow
def test_text_is_streamed(page: Any) -> None:
    asked = {"prompt": "once up", "max_tokens": 6}
    response = page.post("/api/generate", json=asked)
    assert response.status_code == 200
    assert response.mimetype == "application/x-ndjson"
    told = events(response)
    assert told[0]["event"] == "reading"
    assert all(each["event"] == "text" for each in told[1:-1])
    assert told[-1]["event"] == "end"
    assert told[-1]["tokens"] == 6
    assert told[1:-1] != []
    texts = [each["text"] for each in told[1:-1]]
    again = events(page.post("/api/generate", json=asked))
    assert [each["text"] for each in again[1:-1]] == texts


@pytest.mark.slow
def test_an_answer_is_streamed(page: Any) -> None:
    response = page.post("/api/ask", json={"passage": "red team won", "question": "who"})
    assert events(response)[-1]["event"] == "end"


@pytest.mark.slow
def test_what_the_model_refuses_is_an_event(page: Any) -> None:
    response = page.post("/api/generate", json={"prompt": "zz " * 200})
    (error,) = events(response)
    assert error["event"] == "error"
    assert "at most 256 tokens" in error["text"]


def test_a_stop_of_one_does_not_stop_the_other() -> None:
    served = desks("model")
    begun, go = threading.Event(), threading.Event()

    def work(model: str, job: Job) -> Event:
        begun.set()
        go.wait(30)
        return {}

    first, second = served.texts.submit(work), served.texts.submit(work)
    assert first is not None
    assert second is not None
    assert begun.wait(30)
    page = client(served)
    assert page.post("/api/stop", json={"job": second.name}).get_json() == {"stopped": True}
    assert (first.is_stopped, second.is_stopped) == (False, True)
    assert page.post("/api/stop", json={"job": "x"}).status_code == 404
    # The line: one has left it.
    for _ in range(MOST_WAITING):
        assert served.texts.submit(work) is not None
    busy = page.post("/api/generate", json={"prompt": "a"})
    assert busy.status_code == 503
    assert "at most 4 people in line" in busy.get_json()["error"]
    go.set()


def test_there_are_threads_for_stops_beside_all_streams() -> None:
    assert THREADS > 2 * (MOST_WAITING + 1)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8000", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:8000", 200),
        ("[::1]:8000", 200),
        ("10.0.0.7", 200),
        ("board.local:8000", 200),
        ("evil.example:8000", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("127.0.0.1@evil.example", 403),
        ("evil", 403),
        ("[::1", 403),
    ],
)
def test_only_own_names_of_the_host(host: str, status: int) -> None:
    page = client(desks(), ("Board.local",))
    for path in ("/", "/api/about", "/page/page.js"):
        assert page.get(path, headers={"Host": host}).status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 404),
        ("http://localhost", 404),
        ("http://evil.example", 403),
        ("http://localhost:9", 403),
        ("null", 403),
    ],
)
def test_other_sites_may_not_ask(origin: str | None, status: int) -> None:
    headers = {} if origin is None else {"Origin": origin}
    response = client(desks()).post("/api/stop", json={"job": "x"}, headers=headers)
    assert response.status_code == status
    assert "Access-Control-Allow-Origin" not in response.headers


@pytest.mark.parametrize(
    ("data", "kind", "status", "message"),
    [
        (b"{}", "text/plain", 415, "expected application/json; found text/plain"),
        (b"{", "application/json", 400, "contents: expected JSON"),
        (b"\xff", "application/json", 400, "contents: expected JSON"),
        (b"[" * 100_000, "application/json", 413, "413"),
        (b"[" * 40_000, "application/json", 400, "contents: expected JSON"),
        (b"[]", "application/json", 400, "expected an object of JSON; found list"),
        (b'{"prompt": "a", "max_tokens": 513}', "application/json", 400, "found 513"),
        (b'{"prompt": "a", "max_tokens": NaN}', "application/json", 400, "found nan"),
        (b" " * (MOST_JSON_BYTES + 1), "application/json", 413, "413"),
    ],
)
def test_bad_requests_are_told_in_words(data: bytes, kind: str, status: int, message: str) -> None:
    response = client(desks()).post("/api/generate", data=data, content_type=kind)
    assert response.status_code == status
    assert message in response.get_json()["error"]


def test_pictures_are_bounded_and_of_known_kinds() -> None:
    page = client(desks())
    other = page.post("/api/pictures/boxes", data=b"GIF89a", content_type="image/gif")
    assert other.status_code == 415
    large = page.post("/api/pictures/boxes", data=bytes((4 << 20) + 1), content_type="image/png")
    assert large.status_code == 413
    broken = page.post("/api/pictures/boxes", data=b"no picture", content_type="image/png")
    (_, error) = events(broken)
    assert error["event"] == "error"
    assert "expected a file of PNG, JPEG, WEBP" in error["text"]
    assert page.post("/api/pictures/_model", data=b"").status_code == 404


def test_unknown_pages_and_methods() -> None:
    page = client(desks())
    assert page.get("/nothing").status_code == 404
    assert "404" in page.get("/nothing").get_json()["error"]
    assert page.get("/api/generate").status_code == 405
    assert page.get("/page/../server.py").status_code == 404
    assert page.get("/page/%2e%2e/server.py").status_code == 404


def test_nothing_is_loaded_from_elsewhere_and_nothing_becomes_markup() -> None:
    response = client(desks()).get("/")
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    html = response.get_data(as_text=True)
    assert re.findall(r"(?:src|href)=\"(?!/page/)", html) == []
    assert not re.search(r"\son\w+=|style=|<style|<script>", html)
    for path in PAGE.iterdir():
        text = path.read_text(encoding="utf-8")
        # The name of SVG's kind of element is none that is fetched.
        links = set(re.findall(r"https?://[^\"'\s)]+", text))
        assert links <= {"http://www.w3.org/2000/svg"}
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text)


def test_what_people_touch_has_a_name() -> None:
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    ids = set(re.findall(r'\bid="([\w-]+)"', html))
    assert len(ids) == len(re.findall(r'\bid="', html))
    for attribute in ("for", "aria-controls", "aria-labelledby"):
        named = set(re.findall(rf'\b{attribute}="([\w-]+)"', html))
        assert named
        assert named <= ids
    fields = re.findall(r"<(?:textarea|input)[^>]*>", html)
    for field in fields:
        name = re.search(r'\bid="([\w-]+)"', field)
        labelled = name is not None and f'for="{name.group(1)}"' in html
        inside = re.search(rf"<label[^>]*>[^<]*{re.escape(field)}", html)
        assert labelled or inside, field
    script = (PAGE / "page.js").read_text(encoding="utf-8")
    assert set(re.findall(r'byId\("([\w-]+)"\)', script)) <= ids


def test_about_tells_the_bounds() -> None:
    about = json.loads(client(desks()).get("/api/about").get_data())
    assert about["model"] == "tiny"
    assert about["most_new_tokens"] == 512
