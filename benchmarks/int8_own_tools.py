"""Int8 sides of runtimes that do not take a QDQ file: the float model, by the runtime's own tool.

MNN's converter fails on the operators of a QDQ file, or leaves them floats, and litert-torch knows
none of them; their users quantize the float model with what the runtime comes with:

- ``litert``: litert-torch converts the model's program, ai-edge-quantizer quantizes it, with ranges
  of the inputs where the model has convolutions, and weights alone (what they are multiplied by is
  quantized as it comes) where it is a transformer, as its recipes are meant;
- ``mnn``: the converter quantizes the weights, and what they are multiplied by is quantized as it
  comes (``memory: low``).

ncnn's quantizer is in no package.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

import numpy as np
from int8_models import export, is_transformer

from tvm_fusionx import zoo
from tvm_fusionx.report.peers import PreparedPeer, lite_rt, mnn_session
from tvm_fusionx.report.peers.conversions import Conversions
from tvm_fusionx.report.peers.torch_program import PROGRAM_SUFFIX, convert_apart

# A model's converted forms are read again by the next run.
KEPT = "conversions"
STATIC, DYNAMIC = "static_wi8_ai8", "dynamic_wi8_afp32"
QUANTIZE = """
import sys
import numpy as np
from ai_edge_litert.interpreter import Interpreter
from ai_edge_quantizer import quantizer, recipe
source, made = sys.argv[1:]
ways, stored = np.load({inputs!r}), quantizer.Quantizer(source, recipe.{recipe}())
((key, names),) = Interpreter(source).get_signature_list().items()
order = sorted(names["inputs"], key=lambda name: int(name.rpartition("_")[2]))
feeds = dict(zip(order, (ways[name] for name in ways.files)))
ranges = stored.calibrate({{key: [feeds]}}) if stored.need_calibration else None
stored.quantize(ranges).export_model(made, overwrite=True)
"""


@contextlib.contextmanager
def litert_file(out: Path, name: str, inputs: Mapping[str, np.ndarray]) -> Iterator[Path]:
    """Yield the file of a model of the zoo in 8 bits that LiteRT takes."""
    model = export(out, name)
    program = model.with_suffix(PROGRAM_SUFFIX)
    if not program.exists():
        # From a model without a torch module, onnx2torch makes one.
        with contextlib.suppress(Exception):
            zoo.export(name, program, "program")
    kept = Conversions(out / KEPT)
    recipe = DYNAMIC if is_transformer(model) else STATIC
    script = QUANTIZE.format(inputs=str((out / f"{name}.inputs.npz").resolve()), recipe=recipe)
    with lite_rt.converted(model, inputs, kept) as folder:
        source = folder / lite_rt.CONVERTED

        def convert(to: Path) -> None:
            convert_apart("ai-edge-quantizer", script, source, to / lite_rt.CONVERTED)

        sources = [source, recipe, metadata.version("ai-edge-quantizer")]
        with kept.made("litert-int8", sources, convert) as quantized:
            yield quantized / lite_rt.CONVERTED


def litert(out: Path, name: str, inputs: Mapping[str, np.ndarray], threads: int) -> PreparedPeer:
    """Return LiteRT's side of a model of the zoo in 8 bits."""
    with litert_file(out, name, inputs) as file:
        return lite_rt.loaded(file.read_bytes(), inputs, threads)


def mnn(out: Path, name: str, inputs: Mapping[str, np.ndarray], threads: int) -> PreparedPeer:
    """Return MNN's side of a model of the zoo in 8 bits."""
    kept = Conversions(out / KEPT)
    return mnn_session.prepare(
        export(out, name),
        inputs,
        threads,
        kept,
        mnn_session.BYTES_OPTIONS,
        mnn_session.BYTES_MEMORY,
    )


# Side -> what prepares it of the folder of models, a name, inputs and threads.
OWN_TOOLS: Mapping[str, Callable[[Path, str, Mapping[str, np.ndarray], int], PreparedPeer]] = {
    "mnn": mnn,
    "litert": litert,
}
