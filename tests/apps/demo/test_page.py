"""The page in a browser: streams, stops, keys, names for screen readers, narrow screens."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apps.demo.browser import Chromium, Page, chromium
from tests.apps.demo.tiny_page import desks, tiny_model
from tvm_fusionx.apps.demo.serve import bound
from tvm_fusionx.apps.demo.server import make_app

pytest.importorskip("flask")
pytest.importorskip("waitress")

pytestmark = pytest.mark.slow

MARKUP = "<img src=x onerror=document.title='broken'>"
TAB, ENTER, ESCAPE, RIGHT, HOME = 9, 13, 27, 39, 36
CONTROL = 2

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


def test_a_picture_that_is_none_is_told(page: Page) -> None:
    page.value("document.querySelector('#tab-look').click()")
    page.value(
        "(() => { const held = new DataTransfer();"
        "held.items.add(new File(['none'], 'a.png', { type: 'image/png' }));"
        "document.querySelector('#picture').files = held.files;"
        "document.querySelector('#form-look').requestSubmit(); })()"
    )
    page.wait_for("document.querySelector('#form-look .status.error')")
    assert "expected a file of PNG" in page.text("#form-look .status")


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
