"""One object of all that a bundle is made of: kernels or their sources, calls, weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

from tvm_fusionx._tvm.object_files import save_object
from tvm_fusionx.bundle.toolchain import Toolchain
from tvm_fusionx.bundle.weights import Weights
from tvm_fusionx.devices.opencl_plugin import opencl_headers
from tvm_fusionx.errors import TargetError

TEMPLATES = Path(__file__).parent / "templates"
FUNCTIONS = (
    *("memory_weights", "open_weights", "close_weights", "verify_weights"),
    *("run", "status_text", "set_launcher"),
)


def filled(template: str, fields: Mapping[str, Any]) -> str:
    """Return a template with its fields filled in."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return environment.get_template(f"{template}.jinja").render(fields)


def whole_object(
    lib: Any, folder: Path, fields: Mapping[str, Any], stored: Weights, toolchain: Toolchain
) -> Path:
    """Return the one object of a bundle: kernels, calls and, where they are embedded, weights."""
    name, prefix = fields["name"], fields["prefix"]
    kernels = [
        save_object(module, folder / f"kernels{number}.o")
        for number, module in enumerate([] if fields["is_device"] else _code(lib.get_lib()))
    ]
    toolchain.check_kernels(kernels)
    (folder / f"{name}.h").write_text(filled("bundle.h", fields), encoding="utf-8")
    source = folder / "bundle.c"
    source.write_text(filled("bundle.c", fields), encoding="utf-8")
    headers = [opencl_headers()] if fields["is_device"] else []
    objects = [*kernels, toolchain.compile(source, folder / "bundle.o", headers)]
    functions = [*FUNCTIONS, f"run_{fields['identity']}"]

    def add_bytes(path: Path, symbol: str) -> None:
        assembly = path.with_suffix(".s")
        text = filled("bytes.s", {**fields, "path": path, "symbol": symbol})
        assembly.write_text(text, encoding="utf-8")
        objects.append(toolchain.compile(assembly, path.with_suffix(".o")))

    if fields["is_embedded"]:
        functions.append("builtin_weights")
        stored.write(folder / "weights.bin")
        add_bytes(folder / "weights.bin", f"{prefix}_weights_file")
    if fields["is_device"]:
        (folder / "sources.cl").write_text(fields["source"], encoding="ascii")
        add_bytes(folder / "sources.cl", f"{prefix}_sources")
    kept = [f"{prefix}_{function}" for function in functions]
    return toolchain.together(objects, folder / f"{name}.o", kept)


# TVM's kinds of modules with machine code: what it compiled, and kernels that were kept.
MACHINE_CODE = ("llvm", "static_library")


def _code(module: Any) -> list[Any]:
    """Return the modules of machine code of a library.

    Raises
    ------
    TargetError
        One is no machine code of a CPU.
    """
    waiting, found = [module], []
    while waiting:
        each = waiting.pop()
        if each.type_key not in MACHINE_CODE:
            raise TargetError(
                "code of a bundle",
                expected="kernels that LLVM compiled",
                found=f"a module of kind {each.type_key!r}",
                next_step="Build the model for llvm.",
            )
        found.append(each)
        waiting.extend(each.imported_modules)
    return found
