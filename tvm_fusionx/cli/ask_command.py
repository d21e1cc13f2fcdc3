"""``fusionx ask``."""

from __future__ import annotations

import contextlib
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

import click
from rich.console import Console
from rich.text import Text

from tvm_fusionx.cli.generate_command import MODEL_HELP
from tvm_fusionx.cli.options import debug_option, target_option, threads_option
from tvm_fusionx.cli.progress import Stages
from tvm_fusionx.errors import InputError

HIGHLIGHT = "bold reverse"

# A passage of more is a book.
MOST_BYTES = 1 << 20

# In place of a file, as for other tools; a file of that name is `./-`.
STANDARD_INPUT = "-"

# No text has it, and much that is none.
NUL = "\0"


@click.command("ask")
@click.argument("question")
@click.option(
    "--context",
    type=click.Path(),
    required=True,
    help="File with the passage that has the answer; - reads it from standard input.",
)
@click.option("--model", "path", type=click.Path(path_type=Path), help=MODEL_HELP)
@click.option(
    "--span-model",
    type=click.Path(path_type=Path),
    help="An ONNX file that marks where the passage has the answer, in place of a language model; "
    "compiled for the length of a text when one first needs it, and kept.",
)
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path),
    help="The span model's tokenizer.json; by default the one beside it.",
)
@target_option
@threads_option
@debug_option
def command(
    question: str,
    context: str,
    path: Path | None,
    span_model: Path | None,
    tokenizer: Path | None,
    target: str,
    threads: int | None,
) -> None:
    """Answer QUESTION from a passage, and show where the passage has it.

    The passage is text in UTF-8, of 1 MiB at most. A model is compiled once, for this machine, and
    kept; later starts load it.
    """
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.apps.answers import ask, make_room
    from tvm_fusionx.apps.programs import TextPrograms
    from tvm_fusionx.apps.spans import load_span_model
    from tvm_fusionx.apps.text_model import TextModel
    from tvm_fusionx.threads import threads as use_threads
    from tvm_fusionx.zoo.language_models import default_language_model

    if tokenizer is not None and span_model is None:
        raise click.UsageError("--tokenizer goes with --span-model: a GGUF file has its own.")
    if path is not None and span_model is not None:
        raise click.UsageError("--model or --span-model answers, not both.")
    passage = _passage(context)
    use_threads(threads)
    if span_model is not None:
        with Stages(span_model.name) as stage:
            own = tokenizer or span_model.parent / "tokenizer.json"
            spans = load_span_model(span_model, own, target, on_stage=stage)
            spans.prepare(passage, question)
        answer = spans.ask(passage, question)
    else:
        where = path or default_language_model()
        with Stages(where.name) as stage:
            model = TextModel(TextPrograms(where, target, on_stage=stage))
            make_room(model, passage, question)
        answer = ask(model, passage, question)
    shown = Text(passage.strip("\n"))
    if answer.start is not None and answer.end is not None:
        cut = len(passage) - len(passage.lstrip("\n"))
        shown.stylize(HIGHLIGHT, answer.start - cut, answer.end - cut)
    console = Console()
    console.print(shown)
    console.print()
    console.print(Text(f"{answer.text}  ({answer.milliseconds:.0f} ms)"))


def _passage(path: str) -> str:
    """Return the text of a file, or of standard input, read no further than it may go."""
    name = "on standard input" if path == STANDARD_INPUT else path
    try:
        with _opened(path) as file:
            content = file.read(MOST_BYTES + 1)
        text = content.decode()
    except OSError as error:
        raise _no_text(name, str(error.strerror or error)) from error
    except UnicodeDecodeError as error:
        if len(content) <= MOST_BYTES:
            raise _no_text(name, str(error)) from error
        text = ""
    if len(content) > MOST_BYTES:
        raise InputError(
            f"passage {name}",
            expected=f"at most {MOST_BYTES} bytes",
            found="more",
            next_step="Give the part that has the answer.",
        )
    if NUL in text:
        raise _no_text(name, f"a byte of 0 at character {text.index(NUL) + 1}")
    return text


def _opened(path: str) -> AbstractContextManager[BinaryIO]:
    if path != STANDARD_INPUT:
        return open(path, "rb")
    # Python has none where the shell closed it.
    if sys.stdin is None:
        raise OSError(None, "none: it is closed")
    return contextlib.nullcontext(sys.stdin.buffer)


def _no_text(name: str, found: str) -> InputError:
    return InputError(
        f"passage {name}",
        expected="text in UTF-8",
        found=found,
        next_step="Give a file of text, or - and the text on standard input.",
    )
