"""From a torch module to an ONNX file.

The TorchScript exporter (``dynamo=False``) is the default: it needs nothing beyond torch, and
leaves the shape arithmetic, ``Identity`` and ``Constant`` nodes in the file that a front end has to
cope with. ``exporter="dynamo"`` is the newer form: fewer nodes, opset 18. onnx 1.17 accepts both.
``exporter="program"`` writes torch's own file, for runtimes that read that and not ONNX.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tvm_fusionx.errors import ModelError
from tvm_fusionx.zoo.packages import import_zoo_package

Exporter = Literal["torchscript", "dynamo", "program"]
# 17 is the first opset with LayerNormalization; the newer exporter writes nothing below 18.
OPSETS: Mapping[Exporter, int] = {"torchscript": 17, "dynamo": 18}


def call_with_names(model: Any, input_names: Sequence[str], output_name: str) -> Any:
    """Wrap a transformers model: tensors in by position, one named output tensor out."""
    torch = import_zoo_package("torch")

    def forward(_: Any, *tensors: Any) -> Any:
        return getattr(model(**dict(zip(input_names, tensors, strict=True))), output_name)

    # A module of its own, as the exporters trace modules; torch is not imported at the top.
    wrapper_type = type("NamedCall", (torch.nn.Module,), {"forward": forward})
    wrapper = wrapper_type()
    wrapper.model = model
    return wrapper.eval()


def export_module(
    make_module: Callable[[], Any],
    arguments: Sequence[Any],
    path: Path,
    input_names: Sequence[str],
    output_names: Sequence[str],
    exporter: Exporter,
) -> None:
    """Write the module as an ONNX file of static shapes, or as an exported program of torch.

    Parameters
    ----------
    make_module
        Builds the torch module, in evaluation mode.
    arguments
        One numpy array per input; they fix the shapes and dtypes.
    path
        Where to write; weights go inside the file.
    input_names, output_names
        Names in the ONNX graph.
    exporter
        Which of torch's exporters to use.
    """
    torch = import_zoo_package("torch")
    if exporter == "program":
        _save_program(torch, make_module(), arguments, path)
        return
    options: dict[str, Any] = {"dynamo": False}
    if exporter == "dynamo":
        import_zoo_package("onnxscript")
        options = {"dynamo": True, "external_data": False}
    module = make_module()
    with warnings.catch_warnings(), torch.no_grad():
        # Tracing warns about every shape it freezes; freezing them is what is asked for.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            tuple(torch.from_numpy(array) for array in arguments),
            str(path),
            input_names=list(input_names),
            output_names=list(output_names),
            opset_version=OPSETS[exporter],
            verbose=False,
            **options,
        )


def _save_program(torch: Any, module: Any, arguments: Sequence[Any], path: Path) -> None:
    """Write torch's exported program, in which attention is the one call that torch has for it."""
    if importlib.util.find_spec("triton") is not None:
        raise ModelError(
            f"torch's program {path.name}",
            expected="torch's build for CPUs",
            found="triton, whose LLVM ends a process that has loaded TVM's",
            next_step="Run `pip uninstall triton`.",
        )
    for part in module.modules():
        if hasattr(part, "set_attn_implementation"):
            part.set_attn_implementation("sdpa")
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.export.export(module, tuple(map(torch.from_numpy, arguments)))
    torch.export.save(program, str(path))
