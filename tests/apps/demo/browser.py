"""Chromium without a window, told what to do over its debugging protocol."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")

# A browser that hangs ends; nothing is asserted of how long something took.
SECONDS = 60

PORT_FILE = "DevToolsActivePort"
OPTIONS = (
    *("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-sync", "--hide-scrollbars"),
    *("--remote-debugging-port=0", "--remote-allow-origins=http://127.0.0.1"),
)


@contextmanager
def chromium() -> Iterator[Chromium]:
    """Run a browser; skip the test where none is installed."""
    pytest.importorskip("websocket", reason="websocket-client is not installed")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("missing programs: chromium (Debian: apt-get install chromium)")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        # Its sandbox refuses to serve root, as which containers run.
        root = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = subprocess.Popen(
            [program, *OPTIONS, *root, f"--user-data-dir={folder}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield Chromium(_port(Path(folder) / PORT_FILE, browser))
        finally:
            browser.terminate()
            try:
                browser.wait(SECONDS)
            except subprocess.TimeoutExpired:
                browser.kill()
                browser.wait()


def _port(file: Path, browser: subprocess.Popen[bytes]) -> int:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and browser.poll() is None:
        # The file is there before its lines are.
        if file.is_file() and len(lines := file.read_text().splitlines()) == 2:
            return int(lines[0])
        time.sleep(0.05)
    pytest.skip(f"chromium does not start here: exit code {browser.poll()}")


class Chromium:
    """A running browser."""

    def __init__(self, port: int) -> None:
        self._port = port

    def open(self, url: str) -> Page:
        """Open a page of its own."""
        import http.client

        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=SECONDS)
        connection.request("PUT", "/json/new?about:blank")
        target = json.loads(connection.getresponse().read())
        connection.close()
        page = Page(target["webSocketDebuggerUrl"])
        page.call("Page.navigate", url=url)
        page.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")
        return page


class Page:
    """One page; `problems` is what it complained about."""

    def __init__(self, address: str) -> None:
        import websocket

        self._socket: Any = websocket.create_connection(
            address, timeout=SECONDS, origin="http://127.0.0.1"
        )
        self._numbers = itertools.count(1)
        self.problems: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Accessibility"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Page:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def call(self, method: str, **params: Any) -> Any:
        """Call a method of the protocol; return its result."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == number:
                assert "error" not in message, message["error"]
                return message["result"]
            self._note(message)

    def _note(self, message: Any) -> None:
        if message["method"] == "Runtime.exceptionThrown":
            self.problems.append(message["params"]["exceptionDetails"]["text"])
        if message["method"] == "Log.entryAdded":
            self.problems.append(message["params"]["entry"]["text"])

    def value(self, expression: str) -> Any:
        """Return what an expression of JavaScript gives."""
        found = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def text(self, selector: str) -> str:
        """Return the text of an element."""
        return str(self.value(f"document.querySelector({json.dumps(selector)}).textContent"))

    def wait_for(self, expression: str) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + SECONDS
        while not self.value(f"Boolean({expression})"):
            assert time.monotonic() < deadline, f"never: {expression}"
            time.sleep(0.05)

    def fill(self, selector: str, text: str) -> None:
        """Type a text into a field, in the place of what is there."""
        self.value(f"document.querySelector({json.dumps(selector)}).select()")
        self.value(f"document.querySelector({json.dumps(selector)}).focus()")
        self.call("Input.insertText", text=text)

    def press(self, key: str, code: int, modifiers: int = 0) -> None:
        """Press a key where the focus is."""
        named = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="rawKeyDown", **named)
        if key in ("Enter", " "):
            written = "\r" if key == "Enter" else key
            self.call("Input.dispatchKeyEvent", type="char", text=written, **named)
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def show(self, width: int, *, dark: bool = False, height: int = 900) -> None:
        """Take a size of the window, and a scheme of colours."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self) -> bytes:
        """Return the page as a PNG file."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def names(self) -> list[tuple[str, str]]:
        """Return role and name of what a screen reader meets."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in nodes
            if not node["ignored"]
        ]
