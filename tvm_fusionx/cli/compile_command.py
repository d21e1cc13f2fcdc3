"""``fusionx compile``."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Literal

import click

from tvm_fusionx.cli.bundle_options import BundleChoice, bundle_options
from tvm_fusionx.cli.constants import ModelCommand, bind, constants_option
from tvm_fusionx.cli.device_options import DeviceChoice, device_options
from tvm_fusionx.cli.options import (
    debug_option,
    executor_option,
    model_argument,
    planner_options,
    precision_option,
    strassen_option,
    target_option,
    tuning_records_option,
)
from tvm_fusionx.cli.progress import Stages
from tvm_fusionx.cli.shape_buckets import ShapeBuckets

DUMP_FORMATS = ("relay", "ll", "asm")


class Formats(click.ParamType):  # type: ignore[type-arg]
    """The value of ``--dump-code``: formats with commas between."""

    name = "formats"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Return the formats."""
        formats = tuple(word.strip() for word in str(value).split(",") if word.strip())
        unknown = [word for word in formats if word not in DUMP_FORMATS]
        if unknown:
            known = ", ".join(DUMP_FORMATS)
            self.fail(f"{', '.join(unknown)}: expected some of {known}.", param, ctx)
        return formats


@click.command("compile", cls=ModelCommand)
@model_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("module.tar"),
    show_default=True,
    help="The library file; `tvmc run` takes it too.",
)
@target_option
@click.option(
    "--also-target",
    "further",
    multiple=True,
    help="A further target for AArch64, for a version of its own in the same library; may be given "
    "several times, the plainest first. A core runs the last whose features it has.",
)
@click.option(
    "--input-shapes",
    "shapes",
    type=ShapeBuckets(),
    help='Shapes of inputs that are dynamic in the file, as "x:[1,3,320,320] mask:[1,128]"; '
    '"ids:[1,32|64|128]" makes a program for each extent, and `run` takes the smallest that fits.',
)
@constants_option
@executor_option
@planner_options
@tuning_records_option
@precision_option
@strassen_option
@click.option(
    "--denormals",
    type=click.Choice(["flush", "keep"]),
    default="flush",
    show_default=True,
    help="Whether kernels on CPUs take numbers below the smallest normal one for zero.",
)
@click.option("--cross-compiler", help="C++ compiler that links for the target.")
@click.option(
    "--memory-limit",
    help="Refuse a model whose weights, inputs, outputs and arena take more, such as 64MiB.",
)
@bundle_options
@device_options
@click.option(
    "--dump-code",
    type=Formats(),
    default="",
    help="Also write the code beside the output: some of relay,ll,asm.",
)
@debug_option
def command(
    model: Path,
    output: Path,
    target: str,
    further: tuple[str, ...],
    shapes: list[dict[str, tuple[int, ...]]] | None,
    constants: dict[str, Any],
    executor: str | None,
    choices: dict[str, Any],
    records: Path | None,
    precision: str | None,
    strassen: dict[str, Any],
    denormals: Literal["flush", "keep"],
    cross_compiler: str | None,
    memory_limit: str | None,
    bundle: BundleChoice,
    device: DeviceChoice,
    dump_code: tuple[str, ...],
) -> None:
    """Compile the ONNX file MODEL into one library file.

    A model whose shapes or branches the data decides is compiled for TVM's virtual machine.

    With --device: for its target, which takes the place of --target, linked by its linker, and by
    its own tuning records before those of others of its kind. With --bundle: into a folder for an
    app in C, C++, Python or Kotlin.
    """
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.build.kernels import KernelGraph
    from tvm_fusionx.build.library import save_library
    from tvm_fusionx.build.memory import check_limit, memory_of_build, no_known_memory, parse_size
    from tvm_fusionx.build.programs import build_programs
    from tvm_fusionx.build.vm_file import save_vm_program
    from tvm_fusionx.build.vm_program import VmProgram
    from tvm_fusionx.code_cache.setting import kernel_cache
    from tvm_fusionx.devices.own_records import records_for
    from tvm_fusionx.output_file import check_writable
    from tvm_fusionx.schedules import resolve_target
    from tvm_fusionx.threads import threads as use_threads

    bundle.check(len(shapes or [{}]) * (1 + len(further)))
    limit = parse_size(memory_limit) if memory_limit is not None else None
    if bundle.folder is None:
        check_writable(output, model)
    if choices["measure"]:
        use_threads()
    chosen = device.find()
    resolved = chosen.tvm_target() if chosen is not None else resolve_target(target)
    with contextlib.ExitStack() as scope:
        stage = scope.enter_context(Stages(f"compiling {model.name}"))
        if dump_code:
            # Kernels that were kept have no source to show.
            scope.enter_context(kernel_cache(use=False))
        made = build_programs(
            bind(model, constants),
            [resolved, *further] if further else resolved,
            shapes or [{}],
            model_name=model.stem,
            records=records_for(chosen, records) if chosen is not None else records,
            precision=precision,
            denormals=denormals,
            on_stage=stage,
            executor=executor,
            **choices,
            **strassen,
        )
        if isinstance(made, VmProgram) and (limit is not None or bundle.folder is not None):
            raise no_known_memory(made.reason)
        if limit is not None and bundle.folder is None and not isinstance(made, VmProgram):
            for build in made.builds:
                check_limit(memory_of_build(build.library, build.log), limit)
        stage("writing")
        if bundle.folder is not None and not isinstance(made, VmProgram):
            told = bundle.write(made.builds, cross_compiler, chosen, limit)
        elif isinstance(made, VmProgram):
            save_vm_program(made, output, compiler=cross_compiler, device=chosen)
            write_code(made.build, made.module, output, dump_code)
        else:
            save_library(made.programs, output, compiler=cross_compiler, device=chosen)
            for number, build in enumerate(made.builds):
                program = f".program{number}" if number else ""
                write_code(build, build.library.get_lib(), f"{output}{program}", dump_code)
    if isinstance(made, VmProgram):
        _tell_of_machine(made, output)
        return
    if bundle.folder is not None:
        click.echo(told)
        return
    for library, build in zip(made.programs, made.builds, strict=True):
        kernels = len(KernelGraph.from_json(library.graph_json).kernels)
        line = f"{output}: {kernels} kernels for {library.target if further else resolved}"
        if len(shapes or [{}]) > 1:
            line += f", {' '.join(spec.shape_text for spec in library.inputs)}"
        if library.needs:
            line += f", on cores with {', '.join(library.needs)}"
        click.echo(line)
        if build.log.coverage:
            click.echo(f"tuning records: {build.log.coverage}")


def _tell_of_machine(made: Any, output: Path) -> None:
    click.echo(f"{output}: {len(made.kernels)} kernels for {made.target}, by TVM's virtual machine")
    click.echo(f"why: {made.reason}")
    if made.build.log.coverage:
        click.echo(f"tuning records: {made.build.log.coverage}")


def write_code(build: Any, module: Any, stem: Any, kinds: tuple[str, ...]) -> None:
    """Write the code of a build beside its library, in each of the formats."""
    from tvm_fusionx.output_file import new_file

    for kind in kinds:
        with new_file(f"{stem}.{kind}") as scratch:
            is_relay = kind == "relay"
            text = build.module.astext(show_meta_data=False) if is_relay else None
            scratch.write_text(text or str(module.get_source(kind)), encoding="utf-8")
