"""Execute the tutorials, and renew the outputs that they are kept with.

    python tests/tutorials/notebooks.py [NUMBER ...]

All notebooks are executed, or those of the numbers. Outputs are written where a notebook's code has
changed since they were made, and of those that were named: times differ from run to run, and would
fill every commit otherwise.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import os
import re
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = ROOT / "tutorials"
NOTEBOOKS = sorted(TUTORIALS.glob("*.ipynb"))

# Far above what a notebook takes: a cell that hangs must not hold the suite until CI ends it.
CELL_TIMEOUT_SECONDS = 600

# A notebook's own facts, in its metadata.
FACTS = "fusionx"
MADE_OF = "outputs_of"

# Names of objects in memory, which are others in each run.
AN_ADDRESS = re.compile(r"0x[0-9a-f]{8,}")
NO_ADDRESS = "0x..."

# The file that a cell was, in warnings.
A_CELL = re.compile(r"\S*/ipykernel_\d+/\d+\.py")

# Of a kept picture: drawings and printed text need no more.
COLOURS = 16
PNG = "image/png"


def code_of(notebook: Any) -> list[Any]:
    """Return the cells of code."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def digest_of(notebook: Any) -> str:
    """Return a name for all code of a notebook."""
    joined = "\n\0".join(cell.source for cell in code_of(notebook))
    return hashlib.sha256(joined.encode()).hexdigest()[:32]


def missing_programs(notebook: Any) -> list[str]:
    """Return which programs a notebook says it needs and this machine lacks."""
    names = notebook.metadata.get(FACTS, {}).get("programs", ())
    return [name for name in names if shutil.which(name) is None]


def execute(path: Path, folder: Path) -> Any:
    """Run a notebook from its first cell to its last, and return it with its outputs.

    Parameters
    ----------
    path
        The notebook; not changed.
    folder
        Where it runs, and leaves its files. Kernels are kept there too, as a user's are elsewhere:
        what a notebook builds twice is compiled once.
    """
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT_SECONDS,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    )
    # The kernel is a process of its own, in a folder where the checkout is not on the path.
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TOPHUB_LOCATION": "NONE",
        "TVM_FUSIONX_KERNEL_CACHE": str(folder / "kept_kernels"),
    }
    client.execute(env=environment)
    return notebook


def keep_outputs(notebook: Any, folder: Path) -> None:
    """Make outputs fit to be kept: small pictures, no paths and addresses, and the code's name."""
    for cell in code_of(notebook):
        for output in cell.outputs:
            _say_without_places(output, folder)
            if PNG in output.get("data", {}):
                output.data[PNG] = smaller(output.data[PNG])
                output.data.pop("image/jpeg", None)  # Pillow gives the same picture twice.
    facts = notebook.metadata.setdefault(FACTS, {})
    facts[MADE_OF] = digest_of(notebook)


def _say_without_places(output: Any, folder: Path) -> None:
    held = output.get("data", output)
    for key, text in list(held.items()):
        if key in ("text", "text/plain", "text/html", "image/svg+xml") and isinstance(text, str):
            for place in (folder.resolve(), folder, ROOT):
                text = text.replace(f"{place}/", "").replace(str(place), ".")
            held[key] = AN_ADDRESS.sub(NO_ADDRESS, A_CELL.sub("cell.py", text))


def smaller(picture: str) -> str:
    """Return a PNG file in base64 with few colours; the same where that is no smaller."""
    from PIL import Image

    with Image.open(io.BytesIO(base64.b64decode(picture))) as opened:
        made = opened.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    held = io.BytesIO()
    made.save(held, "png", optimize=True)
    return min(base64.b64encode(held.getvalue()).decode(), picture.strip(), key=len)


def main() -> int:
    """Execute notebooks, renew what is to be renewed, and say what each took."""
    import nbformat

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("numbers", nargs="*", type=int)
    numbers = parser.parse_args().numbers
    for path in NOTEBOOKS:
        if numbers and int(path.name[:2]) not in numbers:
            continue
        before = nbformat.read(path, as_version=4)
        missing = missing_programs(before)
        if missing:
            print(f"{path.name}: not executed, missing programs: {' '.join(missing)}", flush=True)
            continue
        began, used = time.perf_counter(), _child_seconds()
        with tempfile.TemporaryDirectory(prefix="fusionx-tutorial-") as folder:
            notebook = execute(path, Path(folder))
            keep_outputs(notebook, Path(folder))
        is_stale = before.metadata.get(FACTS, {}).get(MADE_OF) != digest_of(before)
        if numbers or is_stale:
            nbformat.write(notebook, path)
        print(
            f"{path.name}: {time.perf_counter() - began:.0f} s, "
            f"{_child_seconds() - used:.0f} s of the processor"
            f"{', renewed' if numbers or is_stale else ''}",
            flush=True,
        )
    return 0


def _child_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
