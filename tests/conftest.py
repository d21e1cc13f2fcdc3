"""What holds for every test: no network, the same random cases, and the cores left as they were."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Read by TVM when it is imported, so it must be set before any test module is.
os.environ["TOPHUB_LOCATION"] = "NONE"
# Every kernel under test is compiled; tests of what is kept say where themselves.
os.environ["TVM_FUSIONX_KERNEL_CACHE"] = "off"

# Notebooks: a test of one takes minutes, and nothing of it can be given to another worker.
LONGEST = "tests/tutorials/"

# Compiling one example takes as long as the machine needs, and a failure must come back on the
# next run.
settings.register_profile(
    "fusionx",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fusionx")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let kernels that passed before be compiled, and those that pass be written down."""
    group = parser.getgroup("verified kernels")
    group.addoption(
        "--compile-all",
        action="store_true",
        help="compile every kernel, those too that passed before",
    )
    group.addoption(
        "--write-verified",
        action="store_true",
        help="add the kernels that pass to the table of those that need no compiling again",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Follow which kernels pass; hear Ctrl-C, to which background jobs are started deaf."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Imported here: it imports TVM, whose environment is set above.
    from tests.verified_kernels import Plugin
    from tvm_fusionx._tvm.quick_calls import quick_calls
    from tvm_fusionx._tvm.script_parsing import short_stacks

    scope = contextlib.ExitStack()
    # Functions in TVMScript would look for the source of pytest's whole stack.
    scope.enter_context(short_stacks())
    # What tests themselves ask of TVM, beside the passes that open this scope.
    scope.enter_context(quick_calls())
    config.add_cleanup(scope.close)
    config.pluginmanager.register(Plugin(config))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Refuse cases in a set: each worker would collect them in an order of its own."""
    for marker in metafunc.definition.iter_markers("parametrize"):
        if any(isinstance(value, (set, frozenset)) for value in marker.args[1:]):
            raise pytest.UsageError(
                f"{metafunc.definition.nodeid}: parametrize is given a set, expected a sequence, "
                "because workers must collect tests in one order; sort it or write a list"
            )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest: at the end the other worker would wait for it."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what stays until the end: modules and thousands of cases.

    It would visit them again and again, in every test that makes many objects.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _library_information() -> Iterator[None]:
    """Read TVM's build flags once: each operator that it lowers reads them for each dimension."""
    from tvm_fusionx._tvm.cures import remembered_library_information

    with remembered_library_information():
        yield


@pytest.fixture(scope="session", autouse=True)
def _brief_measuring() -> Iterator[None]:
    """Measure as briefly as can be: tests look at what is done with times, not at the times."""
    from tvm_fusionx.tuning import comparison, peak

    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(peak, "REPEATS", 1)
        changed.setattr(peak, "ROUNDS", 1)
        changed.setattr(comparison, "ROUND_MILLISECONDS", 1)
        yield


@pytest.fixture(autouse=True)
def _cores_stay() -> Iterator[None]:
    """Plans depend on the usable cores: a test that takes some away would change others."""
    if not hasattr(os, "sched_getaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    yield
    after = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before)
    assert after == before
