"""Blocks that no fast template takes, of networks that are only planned and scheduled.

    python benchmarks/wild_blocks.py [NAME|FILE.onnx ...] [--cache out/wild] [--minutes M]

Names are those of ``wild.py``, whose exported files are used and made; other files need inputs of
known shapes. Nothing is compiled or timed, so the list is the same on every machine of a kind and
takes seconds a network: ``default`` and TVM's own schedules compute number by number, ``rows``
multiplies slowly what no template for products takes. What a block would take so is estimated, and
told in parts of what its network would take: a large network counts no more than a small one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import wild

HERE = Path(__file__).resolve()
TARGET = "llvm -mcpu=znver4 -num-cores=2"
KEPT = "{}.blocks.json"
LIMIT_SECONDS = 600
# Estimates: a core that computes number by number, two that compute by vectors, and memory.
SCALAR_RATE, VECTOR_RATE, BYTES_RATE = 1e9, 50e9, 20e9
LAUNCH_SECONDS = 2e-6
MULTIPLIES_SLOWLY = "rows"


def rows_of(mod: Any, params: Mapping[str, Any], target_name: str = TARGET) -> list[dict[str, Any]]:
    """Plan a module and schedule its distinct blocks; return a row a block.

    Returns
    -------
    list of dict
        Template, operators, shapes of operands and results, count, seconds at least (by vectors)
        and as it is served, and whether no fast template serves it.
    """
    from template_blocks import scheduled_blocks

    from tvm_fusionx.fusion.candidate import SMALL_FLOPS
    from tvm_fusionx.schedules import resolve_target
    from tvm_fusionx.schedules.block_work import work_of

    target = resolve_target(target_name)
    rows: dict[str, dict[str, Any]] = {}
    for key, function, func, scheduled in scheduled_blocks(mod, params, target):
        if key in rows:
            rows[key]["count"] += 1
            continue
        template = scheduled.template if scheduled is not None else "TVM's own"
        work = work_of(func) if func is not None else None
        least = taken = LAUNCH_SECONDS
        is_slow = scheduled is None or template in ("default", "unscheduled")
        if work is not None:
            least += max(work.instructions / VECTOR_RATE, work.bytes / BYTES_RATE)
            # Small products that follow one another are one block for the launches that it saves.
            multiplies = work.products > 0 and work.flops > SMALL_FLOPS
            is_slow = is_slow or (template == MULTIPLIES_SLOWLY and multiplies)
            taken = least + work.instructions / SCALAR_RATE if is_slow else least
        rows[key] = {
            "template": template,
            "operators": _operators(function),
            "reads": [_shape(each.type_annotation) for each in function.params],
            "gives": _shape(function.ret_type),
            "count": 1,
            "least_us": least * 1e6,
            "taken_us": taken * 1e6,
            "is_slow": is_slow,
            "why": (scheduled.fallback_reason or "") if scheduled is not None else "",
        }
    return list(rows.values())


def _operators(function: Any) -> list[str]:
    from tvm_fusionx.ecg.block_calls import post_order

    return [
        str(each.op.name)
        for each in post_order(function.body)
        if hasattr(each, "op") and hasattr(each.op, "name")
    ]


def _shape(kind: Any) -> str:
    if hasattr(kind, "fields"):
        return " + ".join(map(_shape, kind.fields))
    return "x".join(map(str, getattr(kind, "shape", "?")))


def by_kind(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return kinds of blocks that are served slowly, the dearest over all networks first.

    A kind is a template and the operators it computes, each named once.
    """
    kinds: dict[str, dict[str, Any]] = {}
    for network, rows in found.items():
        whole = sum(row["taken_us"] * row["count"] for row in rows)
        for row in rows:
            if not row["is_slow"]:
                continue
            counted = Counter(row["operators"])
            name = f"{row['template']}: " + " ".join(
                f"{op}*{times}" if times > 1 else op for op, times in counted.items()
            )
            kind = kinds.setdefault(name, {"kind": name, "part": 0.0, "count": 0, "in": []})
            lost = (row["taken_us"] - row["least_us"]) * row["count"] / whole
            kind["part"] += lost
            kind["count"] += row["count"]
            kind["in"].append((lost, network, row["reads"], row["gives"]))
    for kind in kinds.values():
        kind["in"].sort(key=lambda each: -each[0])
    return sorted(kinds.values(), key=lambda kind: -kind["part"])


def table(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return the list as text, and how many blocks each template takes."""
    templates: Counter[str] = Counter()
    for rows in found.values():
        for row in rows:
            templates[row["template"]] += row["count"]
    lines = [f"{len(found)} networks; blocks by template: "]
    lines += [f"{count:6} {name}" for name, count in templates.most_common()]
    lines += ["", "parts of networks' estimated times, blocks, kind; where the most is lost"]
    for kind in by_kind(found):
        _, network, reads, gives = kind["in"][0]
        lines.append(f"{kind['part']:6.2f} {kind['count']:4} {kind['kind'][:160]}")
        lines.append(f"{'':12}{network}: {', '.join(reads)[:100]} -> {gives[:60]}")
    return "\n".join(lines)


def plan(path: Path, shapes: Mapping[str, Sequence[int]]) -> list[dict[str, Any]]:
    """Return the rows of an ONNX file."""
    import tvm_fusionx as fx

    mod, params = fx.from_onnx(path, shape={name: tuple(each) for name, each in shapes.items()})
    return rows_of(mod, params)


def shapes_of(path: Path, row: Mapping[str, Any] | None) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a file's inputs: the network's, or those that it tells."""
    import onnx

    inputs = onnx.load(str(path), load_external_data=False).graph.input
    if row is not None:
        given = [wild.drawn(each).shape for each in row["given"]]
        return {each.name: shape for each, shape in zip(inputs, given, strict=False)}
    return {
        each.name: tuple(int(axis.dim_value) for axis in each.type.tensor_type.shape.dim)
        for each in inputs
    }


def files(names: Sequence[str], cache: Path) -> Iterator[tuple[str, Path]]:
    """Yield name and file of each network; those of ``wild.py`` are exported where they are not."""
    for name in names:
        if name.endswith(".onnx"):
            yield Path(name).stem, Path(name)
            continue
        path = cache / wild.MODEL.format(name)
        words = ["--export", name, "--cache", str(cache)]
        why = "" if path.is_file() else wild.in_process(words, cache / f"{name}.log")
        if why:
            print(f"{name}: not exported: {why}", flush=True)
            continue
        yield name, path


def main(words: Sequence[str] | None = None) -> int:
    """List what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("names", nargs="*", help="of wild.py, or ONNX files; all by default")
    parser.add_argument("--cache", type=Path, default=Path("out/wild"))
    parser.add_argument("--again", action="store_true", help="plan what was planned already")
    parser.add_argument("--minutes", type=float, help="begin no network after so many")
    parser.add_argument("--plan", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    known, cache = wild.networks(), options.cache
    cache.mkdir(parents=True, exist_ok=True)
    if options.plan:
        path = Path(options.plan)
        rows = plan(path, shapes_of(path, known.get(path.stem)))
        wild.write(cache / KEPT.format(path.stem), json.dumps(rows, indent=1) + "\n")
        return 0
    names = options.names or list(known)
    unknown = [name for name in names if name not in known and not Path(name).is_file()]
    if unknown:
        parser.error(f"{', '.join(unknown)}: no file, and none of {', '.join(known)}")
    started = time.monotonic()
    found = {}
    for name, path in files(names, cache):
        kept = cache / KEPT.format(name)
        if options.again or not kept.is_file():
            if options.minutes is not None and time.monotonic() - started >= options.minutes * 60:
                print(f"{options.minutes} minutes are over: run it again to go on", flush=True)
                break
            done = subprocess.run(
                [sys.executable, str(HERE), "--plan", str(path), "--cache", str(cache)],
                capture_output=True,
                text=True,
                timeout=LIMIT_SECONDS,
                check=False,
            )
            if done.returncode:
                print(f"{name}: {done.stderr.strip().splitlines()[-1:]}", flush=True)
                continue
            print(name, f"{time.monotonic() - started:.0f} s", flush=True)
        found[name] = json.loads(kept.read_text(encoding="utf-8"))
    print(table(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
