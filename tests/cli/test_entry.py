from __future__ import annotations

import errno
import io
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.cli.run_cli import runner
from tests.counting.test_emulator import require_counting
from tests.tiny_models import perceptron, save
from tvm_fusionx.cli import entry, main
from tvm_fusionx.errors import DiskFullError, OutputFileError, WrongResultError
from tvm_fusionx.processors.tile_permission import REFUSED


def _exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit_code("--help") == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {command} " in shown for command in entry.COMMANDS)
    assert "Exit codes" in shown


# As click warns of an option that a command has twice.
@pytest.mark.filterwarnings("error:The parameter")
@pytest.mark.parametrize("command", entry.COMMANDS)
def test_every_command_explains_itself_and_takes_debug(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _exit_code(command, "--help") == 0
    assert "--debug" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("fly",),
        ("compile",),
        ("compile", "m.onnx", "--speed", "11"),
        ("bench", "m", "--repeat", "0"),
    ],
)
def test_wrong_usage_is_2_without_a_traceback(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _exit_code(*arguments) == 2
    assert "Usage" in capsys.readouterr().err


def test_a_word_near_a_command_is_asked_about(capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit_code("complie", "m.onnx") == 2
    assert "No such command 'complie'. Did you mean 'compile'?" in capsys.readouterr().err
    assert _exit_code("quark") == 2
    assert "Did you mean" not in capsys.readouterr().err


def test_a_full_disk_is_3_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _fail_with(OSError(errno.ENOSPC, "No space left on device", "/tmp/x"), monkeypatch)
    assert _exit_code("doctor") == 3
    said = capsys.readouterr().err
    assert said.startswith("fusionx: /tmp/x: expected space to write; found No space left")
    assert "TMPDIR" in said


def test_other_errors_of_the_system_are_unexpected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _fail_with(OSError(errno.EIO, "Input/output error"), monkeypatch)
    assert _exit_code("doctor") == 3
    assert "unexpected OSError: [Errno 5] Input/output error." in capsys.readouterr().err


def _fail_with(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command("doctor")
    @entry.debug_option
    def command() -> None:
        raise error

    monkeypatch.setattr("tvm_fusionx.cli.doctor_command.command", command)


@pytest.mark.parametrize(
    ("kind", "code"), [(WrongResultError, 1), (DiskFullError, 3), (OutputFileError, 2)]
)
def test_a_typed_error_is_one_sentence_and_its_own_exit_code(
    kind: type[Exception],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _fail_with(kind("it", expected="this", found="that", next_step="Do so."), monkeypatch)
    assert _exit_code("doctor") == code
    assert capsys.readouterr().err == "fusionx: it: expected this; found that. Do so.\n"


def test_an_unexpected_error_is_one_sentence_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _fail_with(RuntimeError("Traceback of C++\nthe last line"), monkeypatch)
    assert _exit_code("doctor") == 3
    shown = capsys.readouterr().err
    assert "unexpected RuntimeError: the last line." in shown
    assert "--debug" in shown
    assert "C++" not in shown


def test_a_kernel_for_another_processor_is_no_fault_to_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _fail_with(RuntimeError(f"C++\nAssert fail: asked() == 1, {REFUSED}\n"), monkeypatch)
    assert _exit_code("doctor") == 3
    assert capsys.readouterr().err == f"fusionx: {REFUSED}\n"


@pytest.mark.parametrize("arguments", [("--debug", "doctor"), ("doctor", "--debug")])
def test_debug_shows_the_traceback(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    _fail_with(RuntimeError("deep"), monkeypatch)
    with pytest.raises(RuntimeError, match="deep"):
        main(arguments)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"_FUSIONX_COMPLETE": "bash_source"}, "complete -o nosort -F _fusionx_completion fusionx"),
        ({"_FUSIONX_COMPLETE": "zsh_source"}, "#compdef fusionx"),
        (
            {"_FUSIONX_COMPLETE": "bash_complete", "COMP_WORDS": "fusionx com", "COMP_CWORD": "1"},
            "plain,compile",
        ),
        (
            {
                "_FUSIONX_COMPLETE": "bash_complete",
                "COMP_WORDS": "fusionx run --fill-mode o",
                "COMP_CWORD": "3",
            },
            "plain,ones",
        ),
    ],
)
def test_the_shell_completes(
    variables: dict[str, str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert _exit_code() in (0, 1)
    assert said in capsys.readouterr().out
    # As the help says.
    for name in variables:
        monkeypatch.delenv(name)
    assert _exit_code("--help") == 0
    assert '\n    eval "$(_FUSIONX_COMPLETE=bash_source fusionx)"\n' in capsys.readouterr().out


def test_letters_that_the_terminal_lacks_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1"))
    assert _exit_code("--version") == 0
    click.echo("1 \u20ac")
    assert written.getvalue().endswith(b"1 ?\n")


def test_the_module_is_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tvm_fusionx", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("fusionx, version ")


def test_an_interrupt_that_an_import_swallows_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def import_interrupted(**_: object) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("numpy._core.umath failed to import") from None

    monkeypatch.setattr(entry.fusionx, "main", import_interrupted)
    monkeypatch.setattr(entry, "_say_interrupted", lambda: click.echo("interrupted", err=True))
    with pytest.raises(SystemExit) as ended:
        entry.main([])
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize(
    "command", ["verify", "bench", "explain", "memory", "sparsity", "opencl estimate", "count"]
)
def test_no_command_writes_its_result_over_the_model(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    if command == "count":
        require_counting()
    model = save(perceptron(), tmp_path)
    before = model.read_bytes()
    ran = runner(capsys)(*command.split(), model, "--json", model)
    assert ran.code == 2
    assert "the input itself" in ran.problem
    assert model.read_bytes() == before
