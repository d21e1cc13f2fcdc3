"""Find out, without importing TVM, whether a TVM with Relay is installed.

Relay left TVM with 0.20, so an installed TVM proves nothing. The check reads the import path only:
it must be cheap at every import and must not load TVM's libraries, which may be broken.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys

from tvm_fusionx.errors import MissingDependencyError

# Package, by the name it is imported by -> the extra of this distribution that brings it.
EXTRAS = {
    "tvm": "tvm",
    "onnx": "onnx",
    "onnxslim": "onnx",
    "onnxruntime": "peers",
    "openvino": "peers",
    "MNN": "peers",
    "ncnn": "peers",
    "xgboost": "tune",
    "scipy": "optimal",
    "egglog": "saturate",
    "gguf": "text",
    "flask": "demo",
    "waitress": "demo",
    "pyyaml": "prune",
    "tomli": "prune",
    "optuna": "search",
    "ray": "ray",
    "torch": "zoo",
    "transformers": "zoo",
    "tokenizers": "text",
    "safetensors": "zoo",
    "onnxscript": "zoo",
    "PIL": "zoo",
}


def install_command(package: str) -> str:
    """Return the command that installs `package`: by its extra where one brings it.

    This distribution is on no index: its extras come from the sources, or from the wheel that
    ``make wheel`` builds of them.
    """
    extra = EXTRAS.get(package)
    if extra is None:
        return f"pip install {package}"
    return f'pip install ".[{extra}]" in the sources of tvm_fusionx, or "FILE.whl[{extra}]"'


INSTALL_ADVICE = (
    f"Install it with: {install_command('tvm')}; or put a TVM up to 0.19 of your own on the path."
)

COMMAND_NAME = "fusionx"


def why_no_relay() -> str | None:
    """Return why Relay cannot be imported, or None when it can.

    Returns
    -------
    str or None
        A phrase such as ``"no package named tvm"``.
    """
    loaded = sys.modules.get("tvm")
    locations = getattr(loaded, "__path__", None)
    if locations is None:
        spec = importlib.util.find_spec("tvm")
        if spec is None:
            return "no package named tvm"
        locations = spec.submodule_search_locations
    if not locations:
        return "a tvm that is not a package"
    folders = list(locations)
    if importlib.machinery.PathFinder.find_spec("tvm.relay", folders) is None:
        return f"a TVM without Relay (0.20 or later) in {', '.join(folders)}"
    return None


def require_relay() -> None:
    """Do nothing when a TVM with Relay is installed.

    Raises
    ------
    MissingDependencyError
        There is no TVM, or one without Relay.
    """
    problem = why_no_relay()
    if problem is not None:
        raise MissingDependencyError(
            "tvm_fusionx",
            expected="a TVM up to 0.19, the last with Relay",
            found=problem,
            next_step=INSTALL_ADVICE,
        )


def missing_package(error: ModuleNotFoundError) -> MissingDependencyError:
    """Return the typed error for a package that could not be imported, with what installs it."""
    package = (error.name or "").split(".")[0]
    return MissingDependencyError(
        f"package {package}",
        expected="an installed package",
        found=str(error),
        next_step=f"Install it with: {install_command(package)}.",
    )


def is_the_command() -> bool:
    """Tell whether the running program is this package's own command line.

    Returns
    -------
    bool
        True under the console script ``fusionx`` and ``python -m tvm_fusionx``. (While Python looks
        for the module of ``-m``, ``sys.argv[0]`` is ``"-m"``; afterwards it is the module's file.)
    """
    program = sys.argv[0] if getattr(sys, "argv", None) else ""
    return program == "-m" or os.path.splitext(os.path.basename(program))[0] == COMMAND_NAME
