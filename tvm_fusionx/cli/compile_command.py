"""``fusionx compile``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tvm_fusionx.cli.device_options import DeviceChoice, device_options
from tvm_fusionx.cli.options import (
    debug_option,
    input_shapes_option,
    model_argument,
    planner_options,
    precision_option,
    target_option,
    tuning_records_option,
)
from tvm_fusionx.cli.progress import Stages

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


@click.command("compile")
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
@input_shapes_option
@planner_options
@tuning_records_option
@precision_option
@click.option("--cross-compiler", help="C++ compiler that links for the target.")
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
    shape: dict[str, tuple[int, ...]] | None,
    choices: dict[str, Any],
    records: Path | None,
    precision: str | None,
    cross_compiler: str | None,
    device: DeviceChoice,
    dump_code: tuple[str, ...],
) -> None:
    """Compile the ONNX file MODEL into one library file.

    With --device: for its target, which takes the place of --target, linked by its linker, and by
    its own tuning records before those of others of its kind.
    """
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.build.fused_build import build_fused, kernel_notes
    from tvm_fusionx.build.kernels import KernelGraph
    from tvm_fusionx.build.library import describe_library, save_library
    from tvm_fusionx.devices.own_records import records_for
    from tvm_fusionx.frontend import from_onnx
    from tvm_fusionx.inputs import inputs_of
    from tvm_fusionx.output_file import check_writable, new_file
    from tvm_fusionx.schedules import resolve_target
    from tvm_fusionx.threads import threads as use_threads

    check_writable(output)
    if choices["measure"]:
        use_threads()
    chosen = device.find()
    resolved = chosen.tvm_target() if chosen is not None else resolve_target(target)
    with Stages(f"compiling {model.name}") as stage:
        stage("importing")
        mod, params = from_onnx(model, shape=shape)
        stage("building")
        build = build_fused(
            mod,
            resolved,
            params=params,
            records=records_for(chosen, records) if chosen is not None else records,
            precision=precision,
            on_stage=stage,
            **choices,
        )
        stage("writing")
        library = describe_library(
            build.library,
            model=model.stem,
            target=str(resolved),
            inputs=inputs_of(mod, params),
            kernels=kernel_notes(build),
        )
        save_library(library, output, compiler=cross_compiler, device=chosen)
        for kind in dump_code:
            with new_file(f"{output}.{kind}") as scratch:
                scratch.write_text(_code(build, kind), encoding="utf-8")
    kernels = len(KernelGraph.from_json(library.graph_json).kernels)
    click.echo(f"{output}: {kernels} kernels for {resolved}")
    if build.log.coverage:
        click.echo(f"tuning records: {build.log.coverage}")


def _code(build: Any, kind: str) -> str:
    if kind == "relay":
        return str(build.module.astext(show_meta_data=False))
    return str(build.library.get_lib().get_source(kind))
