"""The page on a port: there, until someone else has it, and over a real connection."""

from __future__ import annotations

import http.client
import json
import threading
import time

import pytest

from tests.apps.demo.tiny_page import desks
from tvm_fusionx.apps.demo.desk import Event, Job
from tvm_fusionx.apps.demo.serve import bound
from tvm_fusionx.apps.demo.server import make_app
from tvm_fusionx.errors import InputError

pytest.importorskip("flask")
pytest.importorskip("waitress")

SECONDS = 30


def test_a_taken_port_is_told() -> None:
    app = make_app(desks())
    first = bound(app, "127.0.0.1", 0)
    try:
        with pytest.raises(InputError, match="expected one that is free"):
            bound(app, "127.0.0.1", first.effective_port)
        with pytest.raises(InputError, match=r"address 192\.0\.2\.1"):
            bound(app, "192.0.2.1", 0)
        with pytest.raises(InputError, match="address no host"):
            bound(app, "no host", 0)
    finally:
        first.close()


def test_who_goes_away_stops_their_text_and_not_another() -> None:
    served = desks("model")
    began: list[Job] = []

    def work(model: str, job: Job) -> Event:
        began.append(job)
        while not job.is_stopped:
            job.tell("text", text="x" * 1000)
            time.sleep(0.01)
        return {}

    app = make_app(served)

    @app.post("/api/endless")
    def endless() -> object:
        from tvm_fusionx.apps.demo.server import _lines

        job = served.texts.submit(work)
        assert job is not None
        return app.response_class(_lines(job), mimetype="application/x-ndjson")

    server = bound(app, "127.0.0.1", 0)
    threading.Thread(target=server.run, daemon=True).start()
    connections = [http.client.HTTPConnection("127.0.0.1", server.effective_port) for _ in range(2)]
    responses = []
    for connection in connections:
        connection.request("POST", "/api/endless")
        responses.append(connection.getresponse())
    names = [json.loads(response.readline())["job"] for response in responses]
    assert len(set(names)) == 2
    deadline = time.monotonic() + SECONDS
    connections[0].close()
    responses[0].close()
    while len(began) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    # The first was stopped, or the second would not have begun.
    assert [job.is_stopped for job in began] == [True, False]
    connections[1].close()
    responses[1].close()
    while not began[1].is_stopped and time.monotonic() < deadline:
        time.sleep(0.01)
    assert began[1].is_stopped
    server.close()
