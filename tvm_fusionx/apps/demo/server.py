"""The page's server: what is asked for goes to a desk, and its events come back line by line.

It is for people on this machine. What a page of another site sends is refused: by the name of the
host it believes to talk to, by where it comes from, and by the kind of its contents.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tvm_fusionx._tvm.presence import missing_package
from tvm_fusionx.apps.demo import asked, pictures, texts
from tvm_fusionx.apps.demo.desk import MOST_WAITING, Desk, Job, Work
from tvm_fusionx.apps.demo.pictures import PictureModels
from tvm_fusionx.apps.text_model import TextModel
from tvm_fusionx.errors import FusionXError, explain_problem

if TYPE_CHECKING:
    from flask import Flask, Response

PAGE = Path(__file__).parent / "page"

# Names of this machine for itself; an address in figures cannot be another's name.
OWN_NAMES = frozenset({"localhost"})

# A request of JSON; a character takes at most six bytes there, `\uffff`.
MOST_JSON_BYTES = 6 * (asked.MOST_CHARACTERS + asked.MOST_QUESTION_CHARACTERS) + 1024

# A stream holds a thread: those that run and wait at two desks, and some for all else.
THREADS = 2 * (MOST_WAITING + 1) + 6
MOST_CONNECTIONS = 100

LINES = "application/x-ndjson"
JSON = "application/json"
PICTURES = frozenset({"image/png", "image/jpeg", "image/webp"})

# Nothing but this server's own files, in no frame.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

BAD, FORBIDDEN, NOT_FOUND, TOO_LARGE, WRONG_TYPE, BUSY = 400, 403, 404, 413, 415, 503


@dataclass(frozen=True)
class Desks:
    """Who serves what."""

    texts: Desk[TextModel]
    pictures: Desk[PictureModels]
    model: str
    """Name of the text model, for people."""


class _RefusedError(Exception):
    """A request is not answered."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def make_app(desks: Desks, names: Sequence[str] = ()) -> Flask:
    """Return the server, as an application of WSGI.

    Parameters
    ----------
    desks
        Who serves.
    names
        Further names of hosts under which it may be asked.

    Raises
    ------
    MissingDependencyError
        The package ``flask`` is not installed.
    """
    try:
        import flask
        from werkzeug.exceptions import HTTPException
    except ModuleNotFoundError as error:
        raise missing_package(error) from error
    app = flask.Flask(__name__, static_folder=str(PAGE), static_url_path="/page")
    app.config["MAX_CONTENT_LENGTH"] = MOST_JSON_BYTES
    known = OWN_NAMES | {name.casefold() for name in names}

    @app.before_request
    def check() -> None:
        request = flask.request
        _check_host(request.headers.get("Host", ""), known)
        if request.method == "POST":
            _check_origin(request.headers.get("Origin"), request.headers.get("Host", ""))

    @app.after_request
    def seal(response: Response) -> Response:
        response.headers.update(HEADERS)
        return response

    @app.errorhandler(_RefusedError)
    def refused(error: _RefusedError) -> tuple[Response, int]:
        return flask.jsonify(error=str(error)), error.status

    @app.errorhandler(FusionXError)
    def wrong(error: FusionXError) -> tuple[Response, int]:
        return flask.jsonify(error=str(error)), BAD

    @app.errorhandler(HTTPException)
    def unknown(error: HTTPException) -> tuple[Response, int]:
        text = f"{error.code} {error.name}. {error.description}"
        return flask.jsonify(error=text), error.code or BAD

    @app.get("/")
    def page() -> Response:
        return app.send_static_file("index.html")

    @app.get("/api/about")
    def about() -> Response:
        return flask.jsonify(
            model=desks.model,
            most_characters=asked.MOST_CHARACTERS,
            most_question_characters=asked.MOST_QUESTION_CHARACTERS,
            most_new_tokens=asked.MOST_NEW_TOKENS,
            most_picture_bytes=pictures.MOST_BYTES,
        )

    def body() -> Any:
        if flask.request.mimetype != JSON:
            raise _RefusedError(WRONG_TYPE, _problem("contents", JSON, flask.request.mimetype))
        try:
            return json.loads(flask.request.get_data())
        except (ValueError, RecursionError) as error:
            raise _RefusedError(BAD, _problem("contents", "JSON", str(error)[:80])) from error

    def streamed(desk: Desk[Any], work: Work[Any]) -> Response:
        job = desk.submit(work)
        if job is None:
            raise _RefusedError(
                BUSY, _problem("server", f"at most {MOST_WAITING} people in line", "more")
            )
        return app.response_class(_lines(job), mimetype=LINES)

    @app.post("/api/generate")
    def generate() -> Response:
        return streamed(desks.texts, texts.text_work(asked.text_asked(body())))

    @app.post("/api/ask")
    def ask() -> Response:
        return streamed(desks.texts, texts.question_work(asked.question_asked(body())))

    @app.post("/api/pictures/<any(boxes, labels):task>")
    def look(task: str) -> Response:
        request = flask.request
        if request.mimetype not in PICTURES:
            kinds = ", ".join(sorted(PICTURES))
            raise _RefusedError(WRONG_TYPE, _problem("contents", kinds, request.mimetype))
        request.max_content_length = pictures.MOST_BYTES
        return streamed(desks.pictures, pictures.picture_work(task, request.get_data()))

    @app.post("/api/stop")
    def stop() -> tuple[Response, int]:
        name = asked.job_asked(body())
        for desk in (desks.texts, desks.pictures):
            if desk.stop(name):
                return flask.jsonify(stopped=True), 200
        return flask.jsonify(stopped=False), NOT_FOUND

    return app


def _lines(job: Job) -> Iterator[bytes]:
    """Give a job's events as lines of JSON; an empty line says that more will come."""
    for event in job.events():
        yield b"\n" if event is None else json.dumps(event).encode() + b"\n"


def _check_host(header: str, names: frozenset[str]) -> None:
    """Refuse a name that is not ours: another site's, which leads here (DNS rebinding)."""
    host = _host_of(header)
    if host in names:
        return
    try:
        ipaddress.ip_address(host)
    except ValueError:
        expected = f"an address in figures or one of {', '.join(sorted(names))}"
        advice = "Allow it with --allow-host."
        raise _RefusedError(
            FORBIDDEN, explain_problem("host", expected, header[:80] or "none", advice)
        ) from None


def _check_origin(origin: str | None, host: str) -> None:
    """Refuse what a page of another site sends."""
    if origin is not None and urlsplit(origin).netloc.casefold() != host.casefold():
        raise _RefusedError(FORBIDDEN, _problem("origin", host, origin[:80]))


def _host_of(header: str) -> str:
    try:
        return (urlsplit(f"//{header}").hostname or "").casefold()
    except ValueError:
        return ""


def _problem(thing: str, expected: str, found: str) -> str:
    return explain_problem(thing, expected, found or "none", "Try again from the page itself.")
