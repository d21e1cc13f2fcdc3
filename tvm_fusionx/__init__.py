"""tvm_fusionx: operator fusion beyond TVM's own, for TVM 0.19's Relay.

``import tvm_fusionx as fx``; then ``fx.from_onnx``, ``fx.build``, ``fx.verify``, ``fx.explain``,
or the passes of ``fx.passes`` in a ``tvm.transform.Sequential`` of your own; models to try them on
are in ``fx.zoo``. Importing changes nothing in TVM.
"""

import importlib
from typing import TYPE_CHECKING, Any

from tvm_fusionx import errors
from tvm_fusionx._tvm.presence import is_the_command, missing_package, require_relay
from tvm_fusionx.version import VERSION

if TYPE_CHECKING:
    from tvm_fusionx import compress, zoo
    from tvm_fusionx.compress.quantize.quantize import quantize
    from tvm_fusionx.frontend.from_onnx import from_onnx
    from tvm_fusionx.gguf.from_gguf import from_gguf
    from tvm_fusionx.report.bench.bench import bench

__version__ = VERSION

__all__ = [
    "__version__",
    "bench",
    "build",
    "compress",
    "errors",
    "explain",
    "export_bundle",
    "from_gguf",
    "from_onnx",
    "kernel_cache",
    "lowering",
    "passes",
    "phases",
    "pipeline",
    "profile",
    "quantize",
    "schedules",
    "threads",
    "tune",
    "verify",
    "zoo",
]

# The command must start where TVM is missing or broken: telling so is the doctor's work. It loads
# what a subcommand needs when that subcommand runs.
if not is_the_command():
    require_relay()

    # A function that bears its module's name is imported eagerly on purpose: importing such a
    # module later would put the module in the function's place.
    from tvm_fusionx import passes, schedules
    from tvm_fusionx.build.build import build
    from tvm_fusionx.build.pipeline import phases, pipeline
    from tvm_fusionx.bundle.export import export_bundle
    from tvm_fusionx.code_cache.setting import kernel_cache
    from tvm_fusionx.lowering import lowering
    from tvm_fusionx.report.explain.explain import explain
    from tvm_fusionx.report.profile.profile import profile
    from tvm_fusionx.report.verify.verify import verify
    from tvm_fusionx.threads import threads
    from tvm_fusionx.tuning.tune import tune

# Reading ONNX needs the package of that name, which a user of the passes alone may not have.
_LOADED_WHEN_ASKED_FOR = {
    "compress": "tvm_fusionx.compress",
    "bench": "tvm_fusionx.report.bench.bench",
    "from_gguf": "tvm_fusionx.gguf.from_gguf",
    "from_onnx": "tvm_fusionx.frontend.from_onnx",
    "quantize": "tvm_fusionx.compress.quantize.quantize",
    "zoo": "tvm_fusionx.zoo",
}


def __getattr__(name: str) -> Any:
    if name not in _LOADED_WHEN_ASKED_FOR:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(_LOADED_WHEN_ASKED_FOR[name])
    except ModuleNotFoundError as error:
        raise missing_package(error) from error
    return getattr(module, name, module)


def __dir__() -> list[str]:
    return sorted(__all__)
