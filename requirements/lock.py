"""Write constraints.txt: the one version of every package, for each Python that is supported.

Asks pip of each interpreter to resolve the whole set of extras without installing anything, and
joins the answers; a package whose version depends on the Python gets one line per range, with a
marker.

    python requirements/lock.py python3.10 python3.11 python3.12 python3.13
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
EXTRAS = "tvm,onnx,tune,peers,text,zoo,search,ray,prune,demo,saturate,docs,notebook,dev"
# What torch's build for NVIDIA cards asks for; `make` installs the build for CPUs.
CUDA_PREFIXES = ("cuda-", "nvidia-", "triton")
HEADER = "# Made by requirements/lock.py; `make lock` writes it anew.\n"


def resolve(interpreter: str) -> tuple[str, dict[str, str]]:
    """Return the interpreter's version ("3.11") and the version pip picks for every package."""
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    version = subprocess.run(
        [interpreter, "-c", asked], check=True, capture_output=True, text=True
    ).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            interpreter, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet",
            "--only-binary", ":all:", "--report", str(report), f"{HERE.parent}[{EXTRAS}]",
        ]  # fmt: skip
        subprocess.run(command, check=True)
        items = json.loads(report.read_text())["install"]
    metadata = [item["metadata"] for item in items]
    # A local label such as 2.13.0+cpu names one index's build; the constraint holds for all.
    versions = {
        re.sub(r"[-_.]+", "-", entry["name"]).lower(): entry["version"].split("+")[0]
        for entry in metadata
    }
    return version, {
        name: version
        for name, version in versions.items()
        if name != "tvm-fusionx" and not name.startswith(CUDA_PREFIXES)
    }


def join(resolved: dict[str, dict[str, str]]) -> list[str]:
    """Return the lines of the constraints file for versions resolved per Python."""
    pythons = sorted(resolved, key=lambda text: tuple(map(int, text.split("."))))
    lines = []
    for name in sorted({name for packages in resolved.values() for name in packages}):
        ranges: list[tuple[str, list[str]]] = []
        for python in pythons:
            version = resolved[python].get(name)
            if version is None:
                continue
            if ranges and ranges[-1][0] == version:
                ranges[-1][1].append(python)
            else:
                ranges.append((version, [python]))
        if len(ranges) == 1:
            lines.append(f"{name}=={ranges[0][0]}")
            continue
        for version, covered in ranges:
            bounds = []
            if covered[0] != pythons[0]:
                bounds.append(f"python_version >= '{covered[0]}'")
            if covered[-1] != pythons[-1]:
                bounds.append(f"python_version <= '{covered[-1]}'")
            lines.append(f"{name}=={version}; {' and '.join(bounds)}")
    return lines


def main(interpreters: list[str]) -> None:
    """Resolve with every interpreter named and write constraints.txt."""
    resolved = dict(resolve(interpreter) for interpreter in interpreters)
    text = HEADER + "".join(f"{line}\n" for line in join(resolved))
    (HERE / "constraints.txt").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
