"""Functions that TVM compiles call kernels whose code is given."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import tvm
from tvm.contrib import cc

from tests.late_passes.test_lower_kernel import CPU, block
from tvm_fusionx._tvm.linked_objects import (
    OLDER_ENGINE,
    WithObjects,
    can_tell_addresses,
    static_libraries,
    tell_addresses,
)
from tvm_fusionx._tvm.object_files import object_code
from tvm_fusionx.late_passes.context import pass_context
from tvm_fusionx.late_passes.lower_kernel import lower_kernel
from tvm_fusionx.late_passes.share_kernels import passing_on

SYMBOL = "fusionx_kernel_of_this_test"


def test_it_is_called_in_memory_and_linked_into_what_is_exported(tmp_path: Path) -> None:
    assert can_tell_addresses()
    with pass_context(CPU):
        lowered = lower_kernel(block(6), CPU, SYMBOL)
        code = object_code(tvm.target.codegen.build_module(tvm.IRModule({SYMBOL: lowered}), CPU))
        (tmp_path / "kernel.o").write_bytes(code)
        library = tmp_path / "kernels.so"
        words = [str(cc.get_cc()), "-shared", "-o", str(library), str(tmp_path / "kernel.o")]
        subprocess.run([*words, "-lm"], check=True)
        kept = tell_addresses(library, [SYMBOL])
        library.unlink()
        caller = passing_on(lowered.with_attr("global_symbol", "caller"), SYMBOL)
        mod = WithObjects(tvm.IRModule({"caller": caller}), (code,))
        targets: list[tvm.target.Target] = []

        def generator(functions: tvm.IRModule, target: tvm.target.Target) -> tvm.runtime.Module:
            targets.append(target)
            return tvm.target.codegen.build_module(functions, target)

        built = mod.build(generator, CPU)
    assert str(targets[0].attrs["jit"]) == OLDER_ENGINE
    built.export_library(str(tmp_path / "all.so"))
    exported = tvm.runtime.load_module(str(tmp_path / "all.so"))
    x = np.random.default_rng(0).standard_normal((6, 20)).astype("float32")
    for module in (built, exported, kept):
        result = tvm.nd.empty((6, 20))
        module["caller" if module is not kept else SYMBOL](tvm.nd.array(x), result)
        np.testing.assert_allclose(result.numpy(), np.exp(x) + 1, rtol=1e-6)


def test_a_static_library_is_part_of_exports() -> None:
    (library,) = static_libraries([b"\x7fELF"])
    assert library.is_dso_exportable
    assert static_libraries([]) == []


def test_equal_files_are_one_module() -> None:
    first, second, other = static_libraries([b"\x7fELF1", b"\x7fELF1", b"\x7fELF2"])
    assert first == second
    assert first != other
