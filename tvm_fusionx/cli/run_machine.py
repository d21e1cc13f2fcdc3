"""``fusionx run`` of a library for TVM's virtual machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tvm_fusionx.cli.time_line import time_line

if TYPE_CHECKING:
    from tvm_fusionx.build.vm_program import VmProgram
    from tvm_fusionx.report.profile.profile import ProfileReport


class _Machine:
    """A virtual machine with inputs set, as `fusionx run` times an executor."""

    def __init__(self, machine: Any, arrays: list[Any]) -> None:
        self._machine = machine
        machine.set_input("main", *arrays)

    def run(self) -> None:
        self._machine.invoke_stateful("main")


def run_machine(
    program: VmProgram,
    inputs: Path | None,
    fill_mode: str | None,
    is_profiled: bool,
    timing: tuple[int, int, int, int] | None,
    loading_seconds: float,
) -> tuple[list[Any], ProfileReport | None]:
    """Run `program` once, print its times where they are asked for, and profile it.

    Parameters
    ----------
    inputs, fill_mode
        File of arrays; what the others are filled with.
    is_profiled
        Whether a profile is asked for.
    timing
        Measurements, runs in each, runs before them, and threads.
    loading_seconds
        What reading the file took.

    Returns
    -------
    list of numpy.ndarray, ProfileReport or None
        The outputs, and the profile.

    Raises
    ------
    InputError
        The inputs are not those of the model.
    """
    import tvm

    from tvm_fusionx.build.vm_program import outputs_of
    from tvm_fusionx.inputs import check_inputs, fill_inputs, read_inputs
    from tvm_fusionx.report.bench.timing import threads_apart
    from tvm_fusionx.report.profile.machine_profile import profile_machine

    given = {} if inputs is None else read_inputs(inputs)
    if inputs is None and fill_mode is None:
        click.echo("No --inputs: using random ones.", err=True)
    if inputs is None or fill_mode is not None:
        given = fill_inputs(given, program.inputs, fill_mode or "random")
    arrays = check_inputs(given, program.inputs)
    started = time.perf_counter()
    machine = program.machine()
    init_seconds = loading_seconds + time.perf_counter() - started
    started = time.perf_counter()
    results = outputs_of(machine, arrays)
    first_seconds = time.perf_counter() - started
    if timing is not None:
        repeat, number, warmup, threads = timing
        timed = _Machine(machine, [tvm.nd.array(array) for array in arrays.values()])
        with threads_apart(threads):
            line = time_line(timed, None, init_seconds, first_seconds, repeat, number, warmup)
        click.echo(f"{line} ({repeat} x {number} runs, {threads} threads)")
    report = profile_machine(program, arrays) if is_profiled else None
    return results, report
