"""``fusionx count``."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tvm_fusionx.cli.count_table import print_assembly, print_counts
from tvm_fusionx.cli.options import debug_option, input_shapes_option, inputs_option, json_option
from tvm_fusionx.cli.progress import Stages

if TYPE_CHECKING:
    from tvm_fusionx.counting.count import Count

DEFAULT_CORE = "cortex-a76"
MODEL_SUFFIX = ".onnx"
SHOWN_KERNELS = 12


@click.command("count")
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--cpu",
    "core",
    default=DEFAULT_CORE,
    show_default=True,
    help="LLVM's name of the Arm core: what a model is compiled for, and what is emulated.",
)
@click.option("--target", help="TVM target for a model, in the place of plain --cpu.")
@input_shapes_option
@inputs_option
@click.option(
    "--caches/--no-caches",
    default=True,
    help="Whether to model the caches, for which counting takes twice as long.",
)
@click.option(
    "--kernels",
    type=click.IntRange(min=0),
    default=SHOWN_KERNELS,
    show_default=True,
    help="Kernels and loops to show.",
)
@click.option(
    "--asm", type=click.IntRange(min=1), metavar="K", help="Disassemble the K hottest loops."
)
@json_option
@debug_option
def command(
    model: Path,
    core: str,
    target: str | None,
    shape: dict[str, tuple[int, ...]] | None,
    inputs: Path | None,
    caches: bool,
    kernels: int,
    asm: int | None,
    json_path: Path | None,
) -> None:
    """Count what one inference executes on an Arm core, under emulation.

    MODEL is an ONNX file, which is compiled for the core, or a library that `fusionx compile`
    wrote for AArch64 Linux. Counts are exact; cycles are estimates of LLVM's models of the cores.
    """
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.counting.count import count_library, save_counts
    from tvm_fusionx.counting.emulator import check_core, require_emulation
    from tvm_fusionx.counting.model_build import compile_for_core
    from tvm_fusionx.inputs import read_inputs
    from tvm_fusionx.output_file import check_writable

    check_core(core)
    require_emulation()
    if json_path is not None:
        check_writable(json_path)
    given = read_inputs(inputs) if inputs is not None else None
    counts: list[Count] = []
    with (
        Stages(f"counting {model.name}") as stage,
        tempfile.TemporaryDirectory(prefix="fusionx-count-") as folder,
    ):
        library = model
        if model.suffix == MODEL_SUFFIX:
            library = Path(folder) / "module.tar"
            compile_for_core(model, library, core, shape=shape, target=target, on_stage=stage)
        stage("running under emulation")
        counts.append(count_library(library, core, inputs=given, with_caches=caches))
    if json_path is not None:
        save_counts(counts, json_path)
    print_counts(counts, kernels)
    if asm is not None:
        print_assembly(counts[0], asm)
