from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import tvm

from tests.devices.small_kernels import (
    EXPECTED,
    EXTENT,
    NAME,
    launches_of,
    library,
    run_add_one,
)
from tvm_fusionx.devices import find_device, open_session
from tvm_fusionx.errors import DeviceError, DeviceLostError
from tvm_fusionx.runtime.pool_library import why_no_pool
from tvm_fusionx.threads import threads, usable_cores

pytestmark = pytest.mark.slow

LOCAL = find_device("local")


def test_a_kernel_runs_in_another_process(tmp_path: Path) -> None:
    path = library(LOCAL, tmp_path)
    with open_session(LOCAL) as session:
        np.testing.assert_array_equal(run_add_one(session, path), EXPECTED)
        facts = session.facts()
        heat = session.temperature()
    assert facts["arch"] == "x86_64" or facts["cores"] >= 1
    assert facts["runtime"] == tvm.__version__
    assert heat is None or 0 < heat < 150


def test_a_kernel_that_crashes_is_a_lost_device_and_the_next_session_works(tmp_path: Path) -> None:
    crashing = library(LOCAL, tmp_path, calls="abort")
    broke = pytest.raises(DeviceLostError, match="the connection broke")
    with broke as caught, open_session(LOCAL) as session:
        run_add_one(session, crashing)
    assert "doctor --device local" in str(caught.value)
    with open_session(LOCAL) as session:
        np.testing.assert_array_equal(run_add_one(session, library(LOCAL, tmp_path)), EXPECTED)


def test_a_kernel_that_hangs_ends_with_the_session(tmp_path: Path) -> None:
    hasty = dataclasses.replace(LOCAL, session_timeout_seconds=1.0)
    hanging = library(hasty, tmp_path, calls="pause")
    expired = pytest.raises(DeviceLostError, match="none within the session's 1 s")
    with expired, open_session(hasty) as session:
        run_add_one(session, hanging)


def test_threads_are_kept_apart(tmp_path: Path) -> None:
    path = library(LOCAL, tmp_path)
    with open_session(LOCAL) as session:
        assert session.keep_threads_apart()
        np.testing.assert_array_equal(run_add_one(session, path), EXPECTED)


@pytest.mark.skipif(len(usable_cores()) < 2, reason="one core: TVM's pool has one thread")
def test_kernels_run_on_our_pool_unless_tvms_was_chosen(tmp_path: Path) -> None:
    path = library(LOCAL, tmp_path, is_parallel=True)
    ran = 0 if why_no_pool() else 1
    with open_session(LOCAL) as session:
        assert launches_of(session, path) == [0, ran]
        assert session.keep_threads_apart()
        np.testing.assert_array_equal(run_add_one(session, path), EXPECTED)
    try:
        threads(pool="tvm")
        with open_session(LOCAL) as session:
            assert launches_of(session, path) == [0, 0]
    finally:
        threads()


def test_an_error_of_the_callers_own_is_left_alone(tmp_path: Path) -> None:
    with (
        pytest.raises(tvm.TVMError, match="Error caught from RPC call"),
        open_session(LOCAL) as session,
    ):
        session.remote.load_module("none.so")
    with pytest.raises(ZeroDivisionError), open_session(LOCAL):
        raise ZeroDivisionError


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wrong.so"
    path.write_text("text")
    with open_session(LOCAL) as session:
        with pytest.raises(
            DeviceError, match=r"wrong\.so: expected a library.*(invalid|file too short)"
        ) as caught:
            session.load(path)
        assert not isinstance(caught.value, DeviceLostError)
        # The session still serves.
        np.testing.assert_array_equal(run_add_one(session, library(LOCAL, tmp_path)), EXPECTED)


def test_handles_that_outlive_their_session_are_freed_in_silence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with open_session(LOCAL) as session:
        module = session.load(library(LOCAL, tmp_path))
        function = module[NAME]
        array = tvm.nd.array(np.zeros(EXTENT, "float32"), session.context)
    del array, function, module
    assert "Exception ignored" not in capfd.readouterr().err


def test_a_server_that_is_gone_is_said_so() -> None:
    from tvm_fusionx.devices.session import _connect
    from tvm_fusionx.devices.tracker import Offer

    with pytest.raises(DeviceError, match=r"its server at 127\.0\.0\.1:1"):
        _connect(LOCAL, Offer("127.0.0.1", 1, "key"))
