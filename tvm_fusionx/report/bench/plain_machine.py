"""TVM without us for models whose shapes or branches the data decides: by its virtual machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx._tvm.cures import PASSES_THAT_UNDO_BLOCKS, let_cure
from tvm_fusionx.build.parameters import bind_parameters
from tvm_fusionx.build.vm_program import VmProgram, outputs_told
from tvm_fusionx.inputs import inputs_of
from tvm_fusionx.passes import OutlineStatic
from tvm_fusionx.schedules import resolve_target

# Below it, TVM leaves out passes that its virtual machine's compiler relies on.
TVM_LEVEL = 3


def build_plain_machine(
    mod: tvm.IRModule,
    target: str | tvm.target.Target,
    params: Mapping[str, Any] | None = None,
) -> VmProgram:
    """Build `mod` for the virtual machine with TVM's own fusion and schedules.

    What is static is cut out as in our builds, since TVM's compiler fails on much that is not; in
    these functions TVM fuses as it does by default.

    Parameters
    ----------
    mod, target, params
        As for ``fx.build``.
    """
    resolved = resolve_target(target)
    bound = relay.transform.InferType()(bind_parameters(mod, params))
    context = tvm.transform.PassContext(
        opt_level=TVM_LEVEL,
        # They enter kernels, and leave nothing of some, which has no shape function.
        disabled_pass=[*PASSES_THAT_UNDO_BLOCKS, "Legalize"],
        config={"tir.disable_cse_tir": True},
    )
    with let_cure(), context:
        outlined = tvm.transform.Sequential([OutlineStatic()])(bound)
        executable = relay.vm.compile(outlined, target=resolved)
        bytecode, module = executable.save()
    return VmProgram(
        bytes(bytecode),
        module,
        "model",
        str(resolved),
        inputs_of(bound),
        outputs_told(bound["main"].ret_type),
    )
