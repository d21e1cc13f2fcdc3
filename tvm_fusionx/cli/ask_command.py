"""``fusionx ask``."""

from __future__ import annotations

from pathlib import Path

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

# No text has it, and much that is none.
NUL = "\0"


@click.command("ask")
@click.argument("question")
@click.option(
    "--context",
    type=click.Path(path_type=Path),
    required=True,
    help="File with the passage that has the answer.",
)
@click.option("--model", "path", type=click.Path(path_type=Path), help=MODEL_HELP)
@click.option(
    "--span-model",
    type=click.Path(path_type=Path),
    help="An ONNX file that marks where the passage has the answer, in place of a language model.",
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
    context: Path,
    path: Path | None,
    span_model: Path | None,
    tokenizer: Path | None,
    target: str,
    threads: int | None,
) -> None:
    """Answer QUESTION from a passage, and show where the passage has it."""
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
            stage("compiling")
            spans = load_span_model(
                span_model, tokenizer or span_model.parent / "tokenizer.json", target
            )
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


def _passage(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(
                f"passage {path}",
                expected=f"at most {MOST_BYTES} bytes",
                found=str(path.stat().st_size),
                next_step="Give the part that has the answer.",
            )
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise _no_text(path, str(error.strerror)) from error
    except UnicodeDecodeError as error:
        raise _no_text(path, str(error)) from error
    if NUL in text:
        raise _no_text(path, f"a byte of 0 at character {text.index(NUL) + 1}")
    return text


def _no_text(path: Path, found: str) -> InputError:
    return InputError(
        f"passage {path}",
        expected="a text file in UTF-8",
        found=found,
        next_step="Give a file of text.",
    )
