from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.benchmarks.scripts import FOLDER, script

torch_exports = script("torch_exports")


def test_both_exporters_and_old_and_new_opsets_are_asked() -> None:
    ways = list(torch_exports._ways())
    assert {exporter for exporter, _ in ways} == {"trace", "dynamo"}
    assert min(opset for _, opset in ways) == 17
    assert max(opset for _, opset in ways) == 25


def test_an_unknown_network_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        torch_exports.main(["brt"])
    assert ended.value.code == 2
    assert "brt: expected some of bert" in capsys.readouterr().err


# In a process of its own: torch and TVM bring libraries that may not like each other.
ONE_WAY = """
import torch_exports
torch_exports.OPSETS = {"dynamo": (23,)}
print([(row.precision, row.outcome) for row in torch_exports.rows_of("distilbert")])
"""


@pytest.mark.slow
def test_a_network_is_right_in_all_types() -> None:
    pytest.importorskip("transformers")
    done = subprocess.run(
        [sys.executable, "-c", ONE_WAY],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (FOLDER, FOLDER.parent)))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (
        done.stdout.strip() == "[('float32', 'right'), ('float16', 'right'), ('bfloat16', 'right')]"
    )
