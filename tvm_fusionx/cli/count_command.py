"""``fusionx count``."""

from __future__ import annotations

import math
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tvm_fusionx.cli.count_table import print_assembly, print_counts
from tvm_fusionx.cli.options import (
    debug_option,
    input_shapes_option,
    inputs_option,
    json_option,
    strassen_option,
)
from tvm_fusionx.cli.progress import Stages

if TYPE_CHECKING:
    from tvm_fusionx.counting.count import Count

DEFAULT_CORE = "cortex-a76"
MODEL_SUFFIX = ".onnx"
SHOWN_KERNELS = 12


@click.command("count")
@click.argument("model", type=click.Path(path_type=Path), required=False)
@click.option(
    "--cpu",
    "core",
    default=DEFAULT_CORE,
    show_default=True,
    help="LLVM's name of the Arm core: what a model is compiled for, and what is emulated.",
)
@click.option(
    "--against",
    default="",
    help="Also count these runtimes: some of ort,mnn,ncnn,litert,mnn-fp16,ncnn-fp16.",
)
@click.option(
    "--fetch-peers",
    is_flag=True,
    help="Fetch Debian for arm64 and the runtimes' wheels into the cache folder, once (350 MB).",
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
@strassen_option
@json_option
@debug_option
def command(
    model: Path | None,
    core: str,
    against: str,
    fetch_peers: bool,
    target: str | None,
    shape: dict[str, tuple[int, ...]] | None,
    inputs: Path | None,
    caches: bool,
    kernels: int,
    asm: int | None,
    strassen: dict[str, Any],
    json_path: Path | None,
) -> None:
    """Count what one inference executes on an Arm core, under emulation.

    MODEL is an ONNX file, which is compiled for the core, or a library that `fusionx compile`
    wrote for AArch64 Linux. Counts are exact; cycles are estimates of LLVM's models of the cores.
    """
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.counting.arm_root import fetch_peers as fetch
    from tvm_fusionx.counting.comparison import ratios, relative_error
    from tvm_fusionx.counting.count import count_library, save_counts
    from tvm_fusionx.counting.emulator import check_core, require_emulation
    from tvm_fusionx.counting.library_run import inputs_of_library
    from tvm_fusionx.counting.model_build import compile_for_core
    from tvm_fusionx.counting.peer_run import check_sides, count_peer
    from tvm_fusionx.errors import FusionXError
    from tvm_fusionx.inputs import check_inputs, random_inputs, read_inputs
    from tvm_fusionx.output_file import check_writable

    if fetch_peers:
        with Stages("fetching the other runtimes") as stage:
            click.echo(f"The other runtimes: {fetch(stage)}", err=True)
        if model is None:
            return
    if model is None:
        raise click.UsageError("Missing argument 'MODEL'.")
    sides = [side.strip() for side in against.split(",") if side.strip()]
    if sides and model.suffix != MODEL_SUFFIX:
        raise click.UsageError("--against needs the ONNX file, which the others read too.")
    check_core(core)
    check_sides(sides)
    require_emulation()
    if json_path is not None:
        check_writable(json_path, model, inputs)
    chosen = read_inputs(inputs) if inputs is not None else {}
    problems: dict[str, str] = {}
    with (
        Stages(f"counting {model.name}") as stage,
        tempfile.TemporaryDirectory(prefix="fusionx-count-") as folder,
    ):
        library = model
        if model.suffix == MODEL_SUFFIX:
            library = Path(folder) / "module.tar"
            compile_for_core(
                model, library, core, shape=shape, target=target, on_stage=stage, **strassen
            )
        stage("running under emulation")
        specs = inputs_of_library(library)
        given = check_inputs(random_inputs(specs) | chosen, specs)
        ours = count_library(library, core, inputs=given, with_caches=caches)
        others: list[Count] = []
        for side in sides:
            stage(f"running {side} under emulation")
            try:
                others.append(count_peer(side, model, given, core, with_caches=caches))
            except (FusionXError, RuntimeError, ImportError) as error:
                problems[side] = str(error)
    errors = {other.side: relative_error(other, ours) for other in others}
    found = ratios(ours, others)
    if json_path is not None:
        # JSON has no infinity.
        told = {side: error if error != math.inf else None for side, error in errors.items()}
        further = {"ratios": [asdict(each) for each in found], "errors": told}
        save_counts([ours, *others], json_path, **further, problems=problems)
    print_counts([ours, *others], kernels, found, errors)
    for side, problem in problems.items():
        click.echo(f"{side}: {problem}")
    if asm is not None:
        print_assembly(ours, asm)
