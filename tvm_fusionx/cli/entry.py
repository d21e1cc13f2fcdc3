"""The command group: finds a command when asked for it; turns every error into one sentence."""

from __future__ import annotations

import atexit
import difflib
import importlib
import io
import logging
import signal
import sys
import threading
from collections.abc import Sequence

import click

from tvm_fusionx._tvm.interrupts import interruptible
from tvm_fusionx._tvm.presence import missing_package
from tvm_fusionx.cli.insist import EXIT_INTERRUPTED, INTERRUPTED, insistent
from tvm_fusionx.cli.options import LOGGER, Settings, debug_option
from tvm_fusionx.errors import EXIT_ENVIRONMENT, EXIT_OK, FusionXError
from tvm_fusionx.output_file import NO_SPACE, disk_full
from tvm_fusionx.processors.tile_permission import REFUSED
from tvm_fusionx.version import VERSION

# Command -> module of this package; the command object bears the module's name with `_command`.
COMMANDS = (
    "compile",
    "run",
    "bench",
    "verify",
    "explain",
    "report-slow",
    "memory",
    "count",
    "sparsity",
    "calibrate",
    "profile-db",
    "quantize",
    "prune",
    "reuse",
    "latency-table",
    "search",
    "tune",
    "records",
    "generate",
    "ask",
    "serve-demo",
    "zoo",
    "devices",
    "opencl",
    "pool",
    "cache",
    "doctor",
)


class _Commands(click.Group):
    """Imports a command's module when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order in which a person meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command called `cmd_name`, or None."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"tvm_fusionx.cli.{cmd_name.replace('-', '_')}_command")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that `args` begin with; of another word, say which ones are near."""
        name = args[0]
        near = difflib.get_close_matches(name, COMMANDS)
        if name not in COMMANDS and not name.startswith("-") and near:
            ctx.fail(f"No such command {name!r}. Did you mean {' or '.join(map(repr, near))}?")
        return super().resolve_command(ctx, args)


# After a backspace click keeps lines as they are: this one is to be copied.
# After an error that nobody expected, until the thread that watches for Ctrl-C has told of it.
NOTICE_SECONDS = 0.1

COMPLETION = """\b
Completion by the Tab key, in ~/.bashrc (for other shells zsh_source, fish_source):
  eval "$(_FUSIONX_COMPLETE=bash_source fusionx)"
"""


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=COMPLETION,
)
@click.version_option(VERSION, prog_name="fusionx")
@debug_option
def fusionx() -> None:
    """Compile ONNX models with operator fusion for TVM; run, verify, compare and explain them.

    Exit codes: 0 ok, 1 wrong result, 2 usage or bad input, 3 environment, 130 interrupted.
    """


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    Parameters
    ----------
    args
        The words after the program's name; by default the process's own.

    Raises
    ------
    SystemExit
        Always; with 0 ok, 1 wrong result, 2 usage or bad input, 3 environment, 130 interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        # A model's text may have letters that the terminal's encoding lacks.
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    # TVM's own schedules, the reference here, advise to tune them.
    logging.getLogger("autotvm").setLevel(logging.ERROR)
    settings = Settings()
    try:
        with interruptible(), insistent() as came:
            code = _run(args, settings, came)
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    finally:
        logging.getLogger(LOGGER).setLevel(logging.NOTSET)
    if code == EXIT_INTERRUPTED:
        _say_interrupted()
    sys.exit(code)


def _say_interrupted() -> None:
    # Once more while the process ends is the same wish.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    click.echo(INTERRUPTED, err=True)
    # Python remembers a KeyboardInterrupt that passed through an `exec` of a string, such as that
    # of a dataclass, as unhandled, and would end by the signal instead; a new `exec` forgets it.
    exec("")


def _run(args: Sequence[str] | None, settings: Settings, came: threading.Event) -> int:
    try:
        code = fusionx.main(
            args=list(args) if args is not None else None,
            prog_name="fusionx",
            standalone_mode=False,
            obj=settings,
        )
        return int(code) if isinstance(code, int) else EXIT_OK
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return EXIT_INTERRUPTED
    except (FusionXError, ModuleNotFoundError) as error:
        if settings.debug:
            raise
        typed = error if isinstance(error, FusionXError) else missing_package(error)
        click.echo(f"fusionx: {typed}", err=True)
        return typed.exit_code
    except OSError as error:
        if settings.debug or error.errno not in NO_SPACE:
            return _say_unexpected(error, settings)
        typed = disk_full(error)
        click.echo(f"fusionx: {typed}", err=True)
        return typed.exit_code
    except Exception as error:  # the last place where a person can be given a sentence
        # NumPy, interrupted while it is imported, says that it cannot be.
        if came.wait(NOTICE_SECONDS):
            return EXIT_INTERRUPTED
        return _say_unexpected(error, settings)


def _say_unexpected(error: Exception, settings: Settings) -> int:
    if settings.debug:
        raise error
    if REFUSED in str(error):
        # A library for another processor: nothing to report.
        click.echo(f"fusionx: {REFUSED}", err=True)
        return EXIT_ENVIRONMENT
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = lines[-1] if lines else "no message"
    click.echo(
        f"fusionx: unexpected {type(error).__name__}: {message}. Run the command again with "
        "--debug for the traceback, and report it.",
        err=True,
    )
    return EXIT_ENVIRONMENT
