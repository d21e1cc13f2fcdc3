"""Write one wrong block as a folder that anyone can run: script, block, inputs and answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx.output_file import new_folder
from tvm_fusionx.report.verify.defuse import Block
from tvm_fusionx.schedules import resolve_target

SCRIPT = "reproduce.py"
MODULE = "block.json"
TEXT = "block.relay.txt"
OPERANDS = "operands.npz"
EXPECTED = "expected.npz"

SCRIPT_TEXT = '''\
"""One block whose kernel gives wrong numbers: {name}.

Needs tvm, numpy and tvm_fusionx. Builds the block alone, runs it on its true inputs, and compares
it with the same arithmetic in plain TVM. Exits with 1 when it is wrong.
"""

import sys
from pathlib import Path

import numpy as np
import tvm
import tvm_fusionx as fx
from tvm import relay
from tvm.contrib import graph_executor

from tvm_fusionx._tvm.arrays import numpy_of

TARGET = {target!r}
RECORDS = {records!r}
TOLERANCE = {tolerance!r}

here = Path(__file__).resolve().parent
fx.threads()
with fx.lowering(TARGET, records=RECORDS) as log:
    # Operators of our own are known in this scope.
    mod = tvm.ir.load_json((here / "{module}").read_text(encoding="utf-8"))
    lib = relay.build(mod, target=TARGET)

executor = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
with np.load(here / "{operands}", allow_pickle=False) as operands:
    for name in operands.files:
        executor.set_input(name, operands[name])
executor.run()

for entry in log.entries:
    print(f"{{entry.name}}: template {{entry.template}}, knobs {{entry.knobs}}")
worst = 0.0
with np.load(here / "{expected}", allow_pickle=False) as expected:
    for position, name in enumerate(expected.files):
        wanted = expected[name].astype("float64")
        got = numpy_of(executor.get_output(position)).astype("float64").reshape(wanted.shape)
        distance = np.nan_to_num(np.abs(got - wanted), nan=np.inf)
        distance[np.isnan(got) & np.isnan(wanted) | (got == wanted)] = 0.0
        if not distance.size:
            continue
        at = np.unravel_index(int(distance.argmax()), distance.shape)
        largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0)
        relative = distance[at] / largest if largest else distance[at]
        print(
            f"output {{position}}: max abs {{distance[at]:.6g}}, max rel {{relative:.6g}}, "
            f"at {{tuple(map(int, at))}}: {{got[at]}} instead of {{wanted[at]}}"
        )
        worst = max(worst, relative)
print("WRONG" if worst > TOLERANCE else "ok", f"(tolerance {{TOLERANCE:g}})")
sys.exit(1 if worst > TOLERANCE else 0)
'''


def write_reproduction(
    folder: Path,
    *,
    block: Block,
    operands: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    target: str | tvm.target.Target,
    records: str | Path | None,
    tolerance: float,
) -> Path:
    """Write `block` with its true operands and right answers into `folder`, and return the folder.

    Parameters
    ----------
    folder
        An older reproduction there is replaced; it appears complete or not at all.
    operands
        One array for each operand of the block's kernel that is not a constant inside it.
    expected
        The right outputs.

    Raises
    ------
    OutputFileError
        The folder cannot be written, or holds other files.
    """
    module = _module_of(block)
    names = [f"operand{position}" for position in range(len(block.function.params))]
    types = [str(parameter.checked_type.dtype) for parameter in block.function.params]
    arrays = {
        name: operand.astype(dtype, copy=False)
        for name, operand, dtype in zip(names, operands, types, strict=True)
    }
    with new_folder(folder, (SCRIPT, MODULE, TEXT, OPERANDS, EXPECTED)) as scratch:
        (scratch / MODULE).write_text(tvm.ir.save_json(module), encoding="utf-8")
        (scratch / TEXT).write_text(module.astext(show_meta_data=False), encoding="utf-8")
        np.savez(scratch / OPERANDS, allow_pickle=False, **arrays)
        np.savez(
            scratch / EXPECTED,
            allow_pickle=False,
            **{f"output{position}": value for position, value in enumerate(expected)},
        )
        script = SCRIPT_TEXT.format(
            # The name comes from the model file and goes into a docstring of the script.
            name="".join(c if c.isalnum() or c in "._-/ +" else "?" for c in block.name),
            target=str(resolve_target(target)),
            records=str(Path(records).resolve()) if records is not None else None,
            tolerance=tolerance,
            module=MODULE,
            operands=OPERANDS,
            expected=EXPECTED,
        )
        (scratch / SCRIPT).write_text(script, encoding="utf-8")
    return folder


def _module_of(block: Block) -> tvm.IRModule:
    """Return a module whose ``main`` calls the block on inputs ``operand0``, ``operand1``, …."""
    variables = [
        relay.Var(f"operand{position}", parameter.checked_type)
        for position, parameter in enumerate(block.function.params)
    ]
    call = relay.Call(block.function, variables)
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(variables, call)))
