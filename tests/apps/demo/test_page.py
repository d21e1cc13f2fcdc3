"""The page in a browser: streams, stops, keys, names for screen readers, narrow screens."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apps.demo.browser import Chromium, Page, chromium
from tests.apps.demo.tiny_page import desks, tiny_model
from tvm_fusionx.apps.demo.desk import Desk
from tvm_fusionx.apps.demo.serve import bound
from tvm_fusionx.apps.demo.server import Desks, make_app

pytest.importorskip("flask")
pytest.importorskip("waitress")

pytestmark = pytest.mark.slow

MARKUP = "<img src=x onerror=document.title='broken'>"
TAB, ENTER, ESCAPE, RIGHT, HOME = 9, 13, 27, 39, 36
CONTROL = 2

# A server whose text has no end; it has no model, and tells its port.
GOES = """
import itertools, time, flask, waitress
from pathlib import Path
from tvm_fusionx.apps.demo import server
app = flask.Flask("goes", static_folder=str(server.PAGE), static_url_path="/page")
app.get("/", endpoint="page")(lambda: app.send_static_file("index.html"))
app.get("/api/about", endpoint="about")(lambda: {"model": "goes"})
def words():
    yield '{"event": "begin", "job": "a"}\\n{"event": "reading"}\\n'
    for _ in itertools.count():
        yield '{"event": "text", "text": "word ", "tokens": 1, "rate": 1}\\n'
        time.sleep(0.05)
@app.post("/api/generate")
def generate():
    return app.response_class(words(), mimetype="application/x-ndjson")
served = waitress.create_server(app, host="127.0.0.1", port=0)
print(served.effective_port, flush=True)
served.run()
"""

# A token takes long enough for a stop to come between two.
SLOW_SECONDS = 0.05


@pytest.fixture(name="browser", scope="module")
def fixture_browser() -> Iterator[Chromium]:
    """Return a browser."""
    with chromium() as browser:
        yield browser


@pytest.fixture(name="url", scope="module")
def fixture_url(browser: Chromium) -> Iterator[str]:
    """Return where a server with a slow tiny model is; the browser comes first, for it may skip."""
    model = tiny_model()
    read = model.read

    def slowly(tokens: Any) -> Any:
        time.sleep(SLOW_SECONDS)
        return read(tokens)

    model.read = slowly  # type: ignore[method-assign]
    server = bound(make_app(desks(model)), "127.0.0.1", 0)
    threading.Thread(target=server.run, daemon=True).start()
    yield f"http://127.0.0.1:{server.effective_port}/"
    server.close()
    model.read = read  # type: ignore[method-assign]


@pytest.fixture(name="page")
def fixture_page(browser: Chromium, url: str) -> Iterator[Page]:
    """Return a page; nothing may have gone wrong on it."""
    with browser.open(url) as page:
        page.show(1200)
        yield page
        assert page.problems == []


def _write(page: Page, prompt: str, tokens: int) -> None:
    page.value("document.querySelector('#chat').checked = false")
    page.fill("#max-tokens", str(tokens))
    page.fill("#prompt", prompt)
    page.press("Enter", ENTER, CONTROL)


def test_text_comes_as_text_and_never_as_markup(page: Page) -> None:
    _write(page, MARKUP, 6)
    page.wait_for("document.querySelector('#form-text .status').textContent.startsWith('Done')")
    assert page.text("#text").startswith(MARKUP)
    assert len(page.text("#text")) > len(MARKUP)
    assert "6 tokens" in page.text("#form-text .status")
    assert "tokens a second" in page.text("#form-text .rate")
    assert page.value("document.querySelectorAll('main img').length") == 1  # The picture's own.
    assert page.value("document.title").startswith("tvm_fusionx")
    assert page.value("document.querySelector('#text').getAttribute('aria-busy')") == "false"


def test_a_stop_of_one_does_not_stop_the_other(page: Page, browser: Chromium, url: str) -> None:
    _write(page, "once", 200)
    page.wait_for("document.querySelector('#text').textContent.length > 8")
    with browser.open(url) as other:
        _write(other, "up", 60)
        other.wait_for(
            "document.querySelector('#form-text .status').textContent.includes('1 before')"
        )
        other.value("document.querySelector('#text').focus()")
        other.press("Escape", ESCAPE)
        other.wait_for("document.querySelector('#form-text .main').disabled === false")
        assert other.text("#form-text .status") == "Stopped."
        assert other.text("#text") == "up"
    assert page.value("document.querySelector('#form-text .stop').disabled") is False
    page.value("document.querySelector('#form-text .stop').click()")
    page.wait_for(
        "document.querySelector('#form-text .status').textContent.startsWith('Stopped: ')"
    )
    # The focus has not gone to the page's beginning.
    assert page.value("document.querySelector('#form-text .main').disabled") is False


def test_two_people_at_once_get_what_each_would_alone(
    page: Page, browser: Chromium, url: str
) -> None:
    done = "document.querySelector('#form-text .status').textContent.startsWith('Done')"
    found = {}
    with browser.open(url) as other:
        _write(page, "once", 12)
        _write(other, "up", 8)
        for prompt, each in (("once", page), ("up", other)):
            each.wait_for(done)
            found[prompt] = each.text("#text")
        assert other.problems == []
    for prompt, tokens in (("up", 8), ("once", 12)):
        _write(page, prompt, tokens)
        page.wait_for(
            f"{done} && document.querySelector('#text').textContent.startsWith('{prompt}')"
        )
        assert page.text("#text") == found[prompt]


def test_more_than_the_bounds_is_told_and_nothing_is_computed(page: Page) -> None:
    page.value("document.querySelector('#prompt').value = 'z'.repeat(8001)")
    page.value("document.querySelector('#form-text').requestSubmit()")
    page.wait_for("document.querySelector('#form-text .status.error')")
    assert "8000" in page.text("#form-text .status")
    assert page.value("document.querySelector('#text').getAttribute('aria-busy')") == "false"
    # Chromium notes what was refused.
    assert all("400" in each for each in page.problems)
    page.problems.clear()
    # The browser itself refuses numbers out of bounds.
    page.fill("#max-tokens", "513")
    assert page.value("document.querySelector('#max-tokens').checkValidity()") is False


@pytest.mark.parametrize(
    ("tab", "field", "told"),
    [
        ("text", "#prompt", "Prompt: 8001 characters; at most 8000 are taken"),
        ("ask", "#passage", "Passage: 8001 characters; at most 8000 are taken"),
        ("ask", "#question", "Question: 8001 characters; at most 500 are taken"),
    ],
)
def test_what_is_too_long_is_told_and_not_cut_off(
    page: Page, tab: str, field: str, told: str
) -> None:
    page.value(f"document.querySelector('#tab-{tab}').click()")
    page.fill(field, "\U0001f600" + "z" * 8000)
    page.value(f"document.querySelector('#form-{tab}').requestSubmit()")
    page.wait_for(f"document.querySelector('#form-{tab} .status.error')")
    assert told in page.text(f"#form-{tab} .status")
    assert page.value(f"[...document.querySelector('{field}').value].length") == 8001
    assert page.value("document.querySelector('#text').getAttribute('aria-busy')") == "false"


def test_the_text_stays_in_sight_on_a_small_screen(page: Page) -> None:
    page.show(360, height=640)
    _write(page, "once", 60)
    bottom = "document.querySelector('#text').getBoundingClientRect().bottom"
    for _ in range(2):
        page.wait_for("document.querySelector('#text').textContent.length > 40")
        assert page.value(f"{bottom} <= innerHeight + 1")
        page.wait_for("document.querySelector('#form-text .status').textContent.startsWith('Done')")
    assert page.value(f"{bottom} <= innerHeight + 1")
    # Who scrolled away is left where they are.
    page.value("scrollTo(0, 0)")
    page.value("document.querySelector('#form-text .status').textContent = ''")
    page.value("document.querySelector('#form-text').requestSubmit()")
    page.wait_for("document.querySelector('#text').textContent.length > 8")
    page.value("scrollTo(0, 0)")
    page.wait_for("document.querySelector('#form-text .status').textContent.startsWith('Done')")
    assert page.value("scrollY") == 0


def test_one_token_is_one_and_has_no_rate(page: Page) -> None:
    _write(page, "once", 1)
    page.wait_for("document.querySelector('#form-text .status').textContent.startsWith('Done')")
    assert page.text("#form-text .status").startswith("Done: 1 token; first after ")


def test_an_answer_is_marked_where_the_passage_has_it(page: Page) -> None:
    page.value("document.querySelector('#tab-ask').click()")
    passage = f"{MARKUP} red team \U0001f600 won"
    page.fill("#passage", passage)
    page.fill("#question", "who")
    page.press("Enter", ENTER)
    page.wait_for("document.querySelector('#form-ask .status').textContent.startsWith('Done')")
    answer = page.text("#answer")
    assert answer in passage
    assert page.text("#marked") == passage
    assert page.text("#marked mark") == answer
    assert page.value("document.querySelectorAll('#marked *').length") == 1


def test_errors_are_shown_as_text(page: Page) -> None:
    _write(page, "zz " * 200, 100)
    page.wait_for("document.querySelector('#form-text .status.error')")
    assert "at most 256 tokens" in page.text("#form-text .status")


@pytest.mark.parametrize(
    ("content", "name", "kind", "told"),
    [
        ("'none'", "a.png", "image/png", "expected a file of PNG"),
        ("'none'", "a.txt", "text/plain", "This is no picture of PNG, JPEG or WebP"),
        ("'none'", "a", "", "This is no picture of PNG, JPEG or WebP"),
        ("new Uint8Array(50 << 20)", "a.png", "image/png", "has 50 MiB; at most 4 MiB are taken"),
        ("new Uint8Array((4 << 20) + 1)", "a.png", "image/png", "has 4.1 MiB; at most 4 MiB"),
    ],
    ids=["damaged", "text", "unknown", "large", "a byte too large"],
)
def test_a_picture_that_is_none_is_told(
    page: Page, content: str, name: str, kind: str, told: str
) -> None:
    page.value("document.querySelector('#tab-look').click()")
    page.value(
        "(() => { const held = new DataTransfer();"
        f"held.items.add(new File([{content}], '{name}', {{ type: '{kind}' }}));"
        "document.querySelector('#picture').files = held.files;"
        "document.querySelector('#form-look').requestSubmit(); })()"
    )
    page.wait_for("document.querySelector('#form-look .status.error')")
    assert told in page.text("#form-look .status")
    # Nothing is shown of what is none.
    page.wait_for("document.querySelector('.picture').hidden")
    assert page.value("document.querySelector('#form-look .main').disabled") is False


def test_a_stop_does_not_wait_until_a_model_is_compiled(browser: Chromium) -> None:
    begun, go = threading.Event(), threading.Event()

    def compile_slowly(say: Any) -> None:
        say("compiling")
        begun.set()
        assert go.wait(60)

    slow = desks()
    slow = Desks(Desk(compile_slowly), slow.pictures, "slow")
    server = bound(make_app(slow), "127.0.0.1", 0)
    threading.Thread(target=server.run, daemon=True).start()
    try:
        with browser.open(f"http://127.0.0.1:{server.effective_port}/") as page:
            page.value("document.querySelector('#form-text').requestSubmit()")
            assert begun.wait(60)
            status = "document.querySelector('#form-text .status').textContent"
            page.wait_for(f"{status} === 'Getting ready: compiling'")
            page.value("document.querySelector('#form-text .stop').click()")
            page.wait_for(f"{status} === 'Stopped.'")
            assert page.value("document.querySelector('#form-text .main').disabled") is False
    finally:
        go.set()
        server.close()


def test_a_server_that_goes_is_told_and_the_text_stays(browser: Chromium) -> None:
    server = subprocess.Popen(
        [sys.executable, "-c", GOES], stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    try:
        assert server.stdout is not None
        address = f"http://127.0.0.1:{int(server.stdout.readline())}/"
        with browser.open(address) as page:
            page.value("document.querySelector('#form-text').requestSubmit()")
            page.wait_for("document.querySelector('#text').textContent.length > 4")
            server.kill()
            page.wait_for("document.querySelector('#form-text .status.error')")
            assert page.text("#form-text .status") == "The server does not answer."
            assert page.text("#text").startswith("word")
            assert (
                page.value("document.querySelector('#text').getAttribute('aria-busy')") == "false"
            )
            assert page.value("document.querySelector('#form-text .stop').disabled") is True
            # Again, without it.
            page.value("document.querySelector('#form-text').requestSubmit()")
            page.wait_for("document.querySelector('#form-text .main').disabled === false")
            assert page.text("#form-text .status") == "The server does not answer."
    finally:
        server.kill()
        server.wait()


def test_keys_go_from_tab_to_tab(page: Page) -> None:
    page.value("document.querySelector('#tab-text').focus()")
    for key, code, chosen in (
        ("ArrowRight", RIGHT, "tab-ask"),
        ("ArrowRight", RIGHT, "tab-look"),
        ("ArrowRight", RIGHT, "tab-text"),
        ("End", 35, "tab-look"),
        ("Home", HOME, "tab-text"),
    ):
        page.press(key, code)
        assert page.value("document.activeElement.id") == chosen
        shown = "[...document.querySelectorAll('[role=tabpanel]')].filter((each) => !each.hidden)"
        assert page.value(f"{shown}.length") == 1
        labelled = page.value(f"{shown}[0].getAttribute('aria-labelledby')")
        assert labelled == chosen
    page.press("Tab", TAB)
    assert page.value("document.activeElement.id") == "prompt"


def test_keys_alone_write_and_stop(page: Page) -> None:
    page.value("document.querySelector('#chat').checked = false")
    page.fill("#max-tokens", "200")
    # Shorter than what is waited for below: the text begins with it.
    page.fill("#prompt", "once")
    at = "document.activeElement.id || document.activeElement.className"
    order = []
    page.value("document.querySelector('#tab-text').focus()")
    for _ in range(7):
        page.press("Tab", TAB)
        order.append(page.value(at))
        assert page.value("getComputedStyle(document.activeElement).outlineWidth") == "3px"
    assert order == ["prompt", "chat", "max-tokens", "temperature", "seed", "main", "text"]
    page.value("document.querySelector('#form-text .main').focus()")
    page.press("Enter", ENTER)
    page.wait_for("document.querySelector('#text').textContent.length > 8")
    # The button that goes hands the focus to the one that comes.
    assert page.value(at) == "stop"
    page.press("Enter", ENTER)
    page.wait_for("document.querySelector('#form-text .main').disabled === false")
    assert page.value(at) == "main"
    assert page.text("#form-text .status").startswith("Stopped: ")


@pytest.mark.parametrize("tab", ["text", "ask", "look"])
def test_everything_has_a_name_and_fits(page: Page, tab: str) -> None:
    page.value(f"document.querySelector('#tab-{tab}').click()")
    touched = {"button", "textbox", "spinbutton", "checkbox", "radio", "tab", "tabpanel", "region"}
    found = [(role, name) for role, name in page.names() if role in touched]
    assert {role for role, _ in found} >= {"button", "tab", "tabpanel"}
    assert [role for role, name in found if not name] == []
    for width in (1200, 360, 320):
        for dark in (False, True):
            page.show(width, dark=dark)
            assert page.value("document.documentElement.scrollWidth") <= width
            assert _least_contrast(page) >= 4.5


CONTRAST = """
(() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const parts = colour.slice(0, 3).map((each) => {
      const part = each / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  let least = 21;
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !element.offsetParent || element.disabled) continue;
    const one = light(parse(getComputedStyle(element).color));
    const other = light(ground(element));
    least = Math.min(least, (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05));
  }
  return least;
})()
"""


def _least_contrast(page: Page) -> float:
    """Return the least contrast of a text with what is behind it, as WCAG defines it."""
    return float(page.value(CONTRAST))
