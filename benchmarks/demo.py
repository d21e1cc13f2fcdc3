"""Compile, verify, run and compare a real model: PP-OCRv4 text detection on a picture with text.

Takes the ONNX file that is inside the package rapidocr-onnxruntime, and leaves in out/demo/ the
picture with the detected lines of text, the numbers as JSON, and a report to open in a browser.

    python benchmarks/demo.py
"""

from __future__ import annotations

import io
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("TOPHUB_LOCATION", "NONE")

import numpy as np
import tvm
from PIL import Image
from rich.console import Console
from rich.table import Table
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tvm_fusionx.build.fused_build import build_fused
from tvm_fusionx.build.kernels import KernelGraph
from tvm_fusionx.errors import FusionXError
from tvm_fusionx.report.bench.bench import BenchResult, bench
from tvm_fusionx.report.explain.explain import with_schedules
from tvm_fusionx.report.explain.explanation import Report, readable_bytes
from tvm_fusionx.report.explain.html import Section
from tvm_fusionx.zoo import draw_text, export
from tvm_fusionx.zoo.pictures import Picture, ocr_input
from tvm_fusionx.zoo.text_boxes import TextBox, draw_boxes, find_text_boxes

OUT = Path(__file__).resolve().parent.parent / "out" / "demo"
TARGET = "llvm -mcpu=native"
LINES = ("Operator fusion", "on TVM 0.19 Relay", "one block, one kernel", "found on two cores")
FONT_SIZE = 26
MARGIN = 24
REPEAT = 40
TABLE_COLUMNS = 100

SIDES = {
    "fusionx": "tvm_fusionx",
    "unfused": "ours, unfused",
    "tvm": "TVM's default",
    "ort": "ONNX Runtime",
}


@contextmanager
def stage(console: Console, what: str) -> Iterator[None]:
    """Show what is being done, and how long it took."""
    started = time.perf_counter()
    with console.status(what):
        yield
    console.print(f"{what}: {time.perf_counter() - started:.1f} s")


def run_once(library: object, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Run a compiled library and return its first output."""
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))  # type: ignore[index]
    executor.set_input(**inputs)
    executor.run()
    output: np.ndarray = executor.get_output(0).numpy()
    return output


def png(picture: Picture) -> bytes:
    """Return a picture as the bytes of a PNG file."""
    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, "PNG")
    return stream.getvalue()


def latency_rows(result: BenchResult) -> list[tuple[str, ...]]:
    """Return one row a side: name, latency, speed, kernels, intermediate results."""
    rows = []
    for side, description in SIDES.items():
        latency = result.latency_ms.get(side)
        kernels = result.kernels.get(side)
        size = result.intermediate_bytes.get(side)
        ratio = result.speedup_over(side)
        rows.append(
            (
                description,
                f"{latency.median:.2f}" if latency else result.errors.get(side, "not measured"),
                f"{latency.p10:.2f} - {latency.p90:.2f}" if latency else "",
                f"{ratio:.2f}x" if ratio else "",
                str(kernels) if kernels is not None else "",
                readable_bytes(size) if size is not None else "",
            )
        )
    return rows


HEADER = ("side", "median ms", "p10 - p90", "time / ours", "kernels", "intermediate results")


def write_results(
    report: Report, result: BenchResult, verified: str, picture: Picture, boxes: int
) -> Path:
    """Write picture, numbers and page; return the page's path."""
    (OUT / "text_boxes.png").write_bytes(png(picture))
    result.save_json(OUT / "bench.json")
    page = OUT / "report.html"
    how = f"{result.device}, {result.threads} threads, {REPEAT} interleaved runs a side"
    sections = (
        Section(
            "Measured side by side",
            HEADER,
            latency_rows(result),
            note=f"{how}. {verified}",
        ),
        Section(f"{boxes} lines of text found", picture=png(picture)),
    )
    report.with_title("PP-OCRv4 text detection").save_html(page, sections)
    return page


def main() -> int:
    """Run the demo and return its exit code."""
    console = Console()
    # Without a terminal, rich would fold the table into 80 columns.
    console.width = max(console.width, TABLE_COLUMNS)
    # TVM's default side is meant to run as it comes, untuned.
    logging.getLogger("autotvm").setLevel(logging.ERROR)
    OUT.mkdir(parents=True, exist_ok=True)
    model = export("ppocr-det", OUT / "ppocr-det.onnx")
    height, width = model.shapes["x"][2:]
    page = draw_text(LINES, width, height, FONT_SIZE, MARGIN)
    inputs = {"x": ocr_input(page)}
    fx.threads()

    with stage(console, "Import"):
        mod, params = fx.from_onnx(model.path, shape=model.shapes)
    with stage(console, "Explain"):
        report = fx.explain(mod, TARGET)
    with stage(console, "Compile"):
        built = build_fused(mod, TARGET, params=params)
        report = with_schedules(report, built.library, built.log)
    with stage(console, "Run and find the text"):
        boxes: list[TextBox] = find_text_boxes(run_once(built.library, inputs))
    with stage(console, "Verify every block, and the whole against ONNX Runtime"):
        verdict = fx.verify(mod, params, inputs, TARGET, reference=model.path)
    with stage(console, "Compare with TVM's default, without fusion, and with ONNX Runtime"):
        result = bench(
            model.path,
            TARGET,
            [side for side in SIDES if side != "fusionx"],
            repeat=REPEAT,
            inputs=inputs,
            shape=model.shapes,
        )
    html = write_results(report, result, verdict.summary(), draw_boxes(page, boxes), len(boxes))

    kernels = len(KernelGraph.from_json(built.library.get_graph_json()).kernels)
    table = Table(title=f"PP-OCRv4 text detection: {result.ops} operators in {kernels} kernels")
    for place, name in enumerate(HEADER):
        table.add_column(name, justify="right" if place else "left")
    for row in latency_rows(result):
        table.add_row(*row)
    console.print(f"Text: {len(boxes)} of {len(LINES)} lines found, {OUT / 'text_boxes.png'}")
    console.print(verdict.summary())
    console.print(table)
    console.print(f"Report: {html}", soft_wrap=True)
    right = verdict.ok and len(boxes) == len(LINES)
    return fx.errors.EXIT_OK if right else fx.errors.EXIT_WRONG_RESULT


if __name__ == "__main__":
    try:
        sys.exit(main())
    except FusionXError as error:
        sys.exit(f"{error}")
