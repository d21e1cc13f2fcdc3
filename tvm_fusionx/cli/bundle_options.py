"""``fusionx compile --bundle``: its options, and the line that it ends with."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

if TYPE_CHECKING:
    from tvm_fusionx.build.fused_build import FusedBuild
    from tvm_fusionx.devices import Device

Command = TypeVar("Command", bound=Callable[..., Any])

# As in the room of bundles, which this module must not import: it loads before TVM is known to be
# there.
PLACES = ("embedded", "beside", "streamed")
MOST_TASKS = 64


@dataclass(frozen=True)
class BundleChoice:
    """What the options say.

    Attributes
    ----------
    folder
        Where the bundle goes; None where none was asked for.
    name, weights, tasks
        As for :func:`tvm_fusionx.export_bundle`.
    """

    folder: Path | None
    name: str | None = None
    weights: str = PLACES[0]
    tasks: int = 1

    def check(self, programs: int) -> None:
        """Refuse a name that is none, and several programs, before anything is built."""
        if self.folder is None:
            return
        from tvm_fusionx.bundle.names import check_bundle_name

        check_bundle_name(self.name if self.name is not None else self.folder.name)
        if programs != 1:
            raise click.UsageError(
                f"--bundle takes one program; the shapes and targets make {programs}."
            )

    def write(
        self,
        builds: Sequence[FusedBuild],
        compiler: str | None,
        device: Device | None,
        memory_limit: int | None = None,
    ) -> str:
        """Write the bundle of the one program, and return what there is to say of it.

        Raises
        ------
        ModelError
            It needs more than `memory_limit` bytes.
        """
        from tvm_fusionx.build.memory import size_text
        from tvm_fusionx.bundle.export import write_bundle
        from tvm_fusionx.bundle.toolchain import find_toolchain

        assert self.folder is not None
        (build,) = builds
        memory = write_bundle(
            build.library,
            build.log,
            self.folder,
            find_toolchain(compiler, device),
            name=self.name,
            weights=self.weights,
            tasks=self.tasks,
            memory_limit=memory_limit,
        )
        return (
            f"{self.folder}: {len(memory.plan.order)} kernels, arena"
            f" {size_text(memory.plan.arena_bytes)}, weights {size_text(memory.weights)}"
        )


_OPTIONS = (
    click.option(
        "--bundle",
        "bundle_folder",
        type=click.Path(path_type=Path),
        help="Write a folder in the place of the library file: a library with a C interface that "
        "needs nothing of TVM, its header, weights, an example, a CMake file.",
    ),
    click.option("--bundle-name", help="What its files and symbols begin with; the folder's name."),
    click.option(
        "--bundle-weights",
        type=click.Choice(PLACES),
        default=PLACES[0],
        show_default=True,
        help="In the library, in a file beside it that processes share, or in memory only as long "
        "as kernels read them.",
    ),
    click.option(
        "--bundle-tasks",
        type=click.IntRange(1, MOST_TASKS),
        default=1,
        show_default=True,
        help="Tasks that the app's own launcher may cut a kernel into.",
    ),
)


def bundle_options(command: Command) -> Command:
    """Add the options; the command takes a :class:`BundleChoice` as `bundle`."""

    @functools.wraps(command)
    def gathered(
        *arguments: Any,
        bundle_folder: Path | None,
        bundle_name: str | None,
        bundle_weights: str,
        bundle_tasks: int,
        **named: Any,
    ) -> Any:
        chosen = BundleChoice(bundle_folder, bundle_name, bundle_weights, bundle_tasks)
        return command(*arguments, bundle=chosen, **named)

    for option in reversed(_OPTIONS):
        gathered = option(gathered)
    return cast(Command, gathered)
