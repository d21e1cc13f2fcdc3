"""``fusionx serve-demo``."""

from __future__ import annotations

import ipaddress
import logging
import os
from pathlib import Path

import click

from tvm_fusionx.cli.generate_command import MODEL_HELP
from tvm_fusionx.cli.insist import EXIT_INTERRUPTED
from tvm_fusionx.cli.options import LOGGER, debug_option, target_option, threads_option
from tvm_fusionx.output_file import remove_unfinished

LOOPBACK = "127.0.0.1"

# A token takes less, and what is compiled is not waited for.
LAST_SECONDS = 5.0


@click.command("serve-demo")
@click.option(
    "--host",
    default=LOOPBACK,
    show_default=True,
    help="Address to serve on. Any other than this machine's own lets everyone there use it.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True)
@click.option(
    "--allow-host",
    "names",
    multiple=True,
    help="A further name under which browsers may ask; may be given again.",
)
@click.option("--model", "path", type=click.Path(path_type=Path), help=MODEL_HELP)
@target_option
@threads_option
@debug_option
def command(
    host: str,
    port: int,
    names: tuple[str, ...],
    path: Path | None,
    target: str,
    threads: int | None,
) -> None:
    """Serve a page that writes text, answers questions and looks at pictures.

    A model is compiled when it is first asked, and text models are kept. Ctrl-C ends it.
    """
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.apps.demo.desk import Desk
    from tvm_fusionx.apps.demo.pictures import PictureModels
    from tvm_fusionx.apps.demo.serve import bound
    from tvm_fusionx.apps.demo.server import Desks, make_app
    from tvm_fusionx.apps.demo.texts import text_model
    from tvm_fusionx.threads import threads as use_threads
    from tvm_fusionx.zoo.language_models import default_language_model

    where = path or default_language_model()
    use_threads(threads)
    desks = Desks(
        Desk(text_model(where, target)),
        Desk(lambda say: PictureModels(target, say)),
        where.stem,
    )
    server = bound(make_app(desks, (host, *names)), host, port)
    logging.getLogger(LOGGER).info("text model %s", where)
    click.echo(f"serving http://{_written(host)}:{server.effective_port}/ ; Ctrl-C ends it")
    server.run()
    # A thread that still computes while the process goes would take it down.
    ended = [desk.close(LAST_SECONDS) for desk in (desks.texts, desks.pictures)]
    if not all(ended):
        remove_unfinished()
        os._exit(EXIT_INTERRUPTED)


def _written(host: str) -> str:
    """Return an address as it stands in a URL."""
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        return host
