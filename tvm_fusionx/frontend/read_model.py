"""A path, bytes or a ``ModelProto`` to one complete, checked ``ModelProto``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeAlias

from tvm_fusionx._tvm.presence import install_command
from tvm_fusionx.errors import MissingDependencyError, ModelError

try:
    import onnx
    import onnx.inliner
except ImportError as error:
    raise MissingDependencyError(
        "reading an ONNX model",
        expected="the onnx package, 1.17",
        found=str(error),
        next_step=f"Install it with: {install_command('onnx')}.",
    ) from error

ModelSource: TypeAlias = "str | os.PathLike[str] | bytes | onnx.ModelProto"

EXPORT_AGAIN = "Export or download the model again."
# The newest IR version and opset that onnx 1.17 knows, and our converters were checked against.
NEWEST_OPSET = 28
STANDARD_DOMAINS = ("", "ai.onnx")


def _read_bytes(content: bytes, thing: str) -> Any:
    try:
        return onnx.load_model_from_string(content)
    except Exception as error:
        raise ModelError(
            thing,
            expected="an ONNX model in protobuf form",
            found=f"{len(content)} bytes that do not parse ({type(error).__name__}: {error})",
            next_step=f"The file is truncated, corrupt or of another format. {EXPORT_AGAIN}",
        ) from error


def _read_path(path: Path) -> Any:
    if not path.is_file():
        found = "a directory" if path.is_dir() else "no such file"
        raise ModelError(
            str(path),
            expected="an ONNX file",
            found=found,
            next_step=f"Check the path; the current directory is {Path.cwd()}.",
        )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(
            str(path),
            expected="a readable ONNX file",
            found=str(error),
            next_step="Check the file's permissions.",
        ) from error
    model = _read_bytes(content, str(path))
    try:
        onnx.load_external_data_for_model(model, str(path.resolve().parent))
    except Exception as error:
        raise ModelError(
            str(path),
            expected=f"its external weights beside it in {path.resolve().parent}",
            found=str(error),
            next_step="Copy the .data files that were exported with the model next to it.",
        ) from error
    return model


def _check_is_whole(model: Any, thing: str) -> None:
    """Refuse what protobuf accepts although it is not a model: an empty or cut message."""
    if not model.graph.node and not model.graph.output:
        raise ModelError(
            thing,
            expected="an ONNX model with a graph",
            found="a message without nodes and outputs",
            next_step=f"The file is truncated, corrupt or of another format. {EXPORT_AGAIN}",
        )
    version = opset_of(model)
    if version > NEWEST_OPSET:
        raise ModelError(
            thing,
            expected=f"ONNX opset {NEWEST_OPSET} or older",
            found=f"opset {version}",
            next_step=f"Export with opset_version={NEWEST_OPSET}, or use onnx.version_converter.",
        )
    defined = {"", *(info.name for info in model.graph.input)}
    defined.update(tensor.name for tensor in model.graph.initializer)
    defined.update(tensor.values.name for tensor in model.graph.sparse_initializer)
    for node in model.graph.node:
        missing = [name for name in node.input if name not in defined]
        if missing:
            raise ModelError(
                f"{node.op_type} node {node.name!r} in {thing}",
                expected="inputs made by earlier nodes",
                found=f"{missing[0]!r}, which nothing makes",
                next_step=f"The graph is incomplete or not sorted. {EXPORT_AGAIN}",
            )
        defined.update(node.output)
    missing = [info.name for info in model.graph.output if info.name not in defined]
    if missing:
        raise ModelError(
            thing,
            expected="every output to be made by a node",
            found=f"output {missing[0]!r}, which nothing makes",
            next_step=f"The graph is incomplete. {EXPORT_AGAIN}",
        )


def opset_of(model: Any) -> int:
    """Return the version of ONNX's own operator set that `model` uses."""
    versions = [o.version for o in model.opset_import if o.domain in STANDARD_DOMAINS]
    return int(max(versions, default=1))


def read_model(source: ModelSource) -> Any:
    """Return `source` as a ``ModelProto`` with external weights loaded and local functions inlined.

    Parameters
    ----------
    source
        A path, the bytes of a file, or a loaded model (whose external data must be loaded too).

    Raises
    ------
    ModelError
        If the file is missing, unreadable, truncated, not ONNX, or of a newer opset.
    TypeError
        If `source` is none of the three.
    """
    if isinstance(source, (str, os.PathLike)):
        thing = os.fspath(source)
        model = _read_path(Path(source))
    elif isinstance(source, bytes):
        thing = "the model's bytes"
        model = _read_bytes(source, thing)
    elif isinstance(source, onnx.ModelProto):
        thing = f"model {source.graph.name!r}"
        model = source
    else:
        raise TypeError(
            f"from_onnx takes a path, bytes or an onnx.ModelProto, not {type(source).__name__}"
        )
    _check_is_whole(model, thing)
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    return model
