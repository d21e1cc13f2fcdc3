from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.tiny_models import TARGET
from tvm_fusionx.errors import OutputFileError
from tvm_fusionx.report.verify.defuse import Block
from tvm_fusionx.report.verify.reproduction import write_reproduction

OPERANDS = [np.arange(4, dtype="float32"), np.full(4, 2, "float32")]


def _block(name: str = 'pair """; import os') -> Block:
    """Return a block that gives the sum and the product of its operands."""
    x, y = (relay.var(n, shape=(4,)) for n in "xy")
    body = relay.Tuple([relay.add(x, y), relay.multiply(x, y)])
    function = relay.Function([x, y], body).with_attr("Primitive", 1)
    function = function.with_attr("fusionx.block", "pair")
    arguments = [relay.var(n, shape=(4,)) for n in "ab"]
    main = relay.Function(arguments, relay.Call(function, arguments))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(main))
    return Block(name, ("Add_0", "Mul_1"), mod["main"].body, 0, 2)


def _write(folder: Path, expected: list[np.ndarray]) -> Path:
    return write_reproduction(
        folder,
        block=_block(),
        operands=OPERANDS,
        expected=expected,
        target=TARGET,
        records=None,
        tolerance=1e-5,
    )


def _run(folder: Path) -> int:
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(folder / "reproduce.py"), run_name="__main__")
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [(0, 0, "ok (tolerance 1e-05)"), (1, 1, "5.0 instead of 6.0"), (np.nan, 1, "instead of nan")],
    ids=["right", "wrong", "not a number"],
)
def test_the_script_runs_the_block_and_tells_right_from_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: float, code: int, said: str
) -> None:
    total, product = OPERANDS[0] + OPERANDS[1], OPERANDS[0] * OPERANDS[1]
    total[3] += change
    folder = _write(tmp_path / "made", [total, product])
    assert _run(folder) == code
    assert said in capsys.readouterr().out


def test_the_folder_holds_the_block_its_operands_and_answers(tmp_path: Path) -> None:
    folder = _write(tmp_path / "made", [OPERANDS[0], OPERANDS[1]])
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "reproduce.py",
        "block.json",
        "block.relay.txt",
        "operands.npz",
        "expected.npz",
    }
    assert "Primitive=1" in (folder / "block.relay.txt").read_text()
    with np.load(folder / "operands.npz") as operands:
        assert [np.array_equal(operands[f"operand{i}"], OPERANDS[i]) for i in (0, 1)] == [True] * 2


def test_a_block_name_from_a_model_file_is_not_code(tmp_path: Path) -> None:
    folder = _write(tmp_path / "made", [OPERANDS[0], OPERANDS[1]])
    first = (folder / "reproduce.py").read_text().splitlines()[0]
    assert first == '"""One block whose kernel gives wrong numbers: pair ???? import os.'


def test_an_older_reproduction_is_replaced_and_a_failure_leaves_it(tmp_path: Path) -> None:
    folder = _write(tmp_path / "made", [OPERANDS[0], OPERANDS[1]])
    (folder / "reproduce.py").write_text("old")
    _write(folder, [OPERANDS[0], OPERANDS[1]])
    assert (folder / "reproduce.py").read_text() != "old"
    with pytest.raises(OutputFileError):
        _write(tmp_path / "missing" / "made", [OPERANDS[0], OPERANDS[1]])


def test_a_folder_with_other_files_is_left_as_it_is(tmp_path: Path) -> None:
    folder = _write(tmp_path / "made", [OPERANDS[0], OPERANDS[1]])
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(OutputFileError, match=r"notes\.txt"):
        _write(folder, [OPERANDS[0], OPERANDS[1]])
    assert (folder / "notes.txt").read_text() == "mine"
