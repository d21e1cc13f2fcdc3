"""``fusionx serve-demo``: it serves, ends by Ctrl-C, and says what is wrong in one sentence."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.run_cli import Ran, runner
from tests.tiny_llama import Tiny, write_tiny
from tvm_fusionx.apps.kept_programs import FOLDER_VARIABLE

pytest.importorskip("flask")
pytest.importorskip("waitress")
pytest.importorskip("tokenizers")

SECONDS = 120


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "kept"))
    return runner(capsys)


def test_a_taken_port_is_2(run: Callable[..., Ran], tmp_path: Path) -> None:
    write_tiny(tmp_path / "tiny.gguf", tiny=Tiny(layers=1))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run("serve-demo", "--model", tmp_path / "tiny.gguf", "--port", port)
    assert ran.code == 2
    assert "expected one that is free and this machine's" in ran.problem


def test_no_model_is_2(run: Callable[..., Ran], tmp_path: Path) -> None:
    ran = run("serve-demo", "--model", tmp_path / "none.gguf", "--port", 0)
    assert ran.code == 2
    assert "expected a GGUF file; found no such file" in ran.problem


@pytest.mark.slow
def test_it_serves_on_loopback_until_it_is_interrupted(tmp_path: Path) -> None:
    write_tiny(tmp_path / "tiny.gguf", tiny=Tiny(layers=1))
    words = ["-m", "tvm_fusionx", "serve-demo", "--model", tmp_path / "tiny.gguf", "--port", "0"]
    server = subprocess.Popen(
        [sys.executable, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", FOLDER_VARIABLE: str(tmp_path / "kept")},
    )
    try:
        assert server.stdout is not None
        said = server.stdout.readline()
        found = re.match(r"serving http://127\.0\.0\.1:(\d+)/ ; Ctrl-C ends it", said)
        assert found, said
        connection = http.client.HTTPConnection("127.0.0.1", int(found.group(1)), timeout=SECONDS)
        connection.request("GET", "/")
        response = connection.getresponse()
        assert response.status == 200
        assert b"tvm_fusionx" in response.read()
        connection.close()
        server.send_signal(signal.SIGINT)
        _, errors = server.communicate(timeout=SECONDS)
        assert server.returncode in (0, 130)
        assert "Traceback" not in errors
    finally:
        server.kill()
        server.wait()
