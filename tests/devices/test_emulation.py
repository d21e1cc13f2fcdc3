from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tests.devices.emulated_board import emulated_boards
from tests.devices.small_kernels import EXPECTED, launches_of, library, run_add_one
from tvm_fusionx.devices import export_kernel, find_device, open_session
from tvm_fusionx.devices import session as session_module
from tvm_fusionx.devices.emulation import EMULATOR, Emulation, emulate
from tvm_fusionx.devices.tracker import summarise
from tvm_fusionx.errors import DeviceError, DeviceLostError

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def weights(*shape: int) -> Any:
    return relay.const(np.random.default_rng(5).standard_normal(shape).astype("float32"))


def dense_model() -> Any:
    x = relay.var("x", shape=(12, 40))
    hidden = relay.nn.bias_add(relay.nn.dense(x, weights(56, 40)), weights(56))
    return relay.nn.softmax(relay.nn.dense(relay.erf(hidden), weights(24, 56)))


def convolution_model() -> Any:
    around = (1, 1, 1, 1)
    x = relay.var("x", shape=(1, 16, 28, 28))
    y = relay.nn.relu(relay.nn.conv2d(x, weights(32, 16, 3, 3), padding=around))
    y = relay.nn.conv2d(y, weights(32, 1, 3, 3), groups=32, channels=32, padding=around)
    y = relay.nn.relu(relay.nn.conv2d(y, weights(32, 32, 1, 1)))
    y = relay.nn.conv2d(y, weights(64, 32, 3, 3), padding=around, strides=(2, 2))
    return relay.nn.global_avg_pool2d(y)


def answer(session: Any, path: Path, x: np.ndarray) -> np.ndarray:
    module = session.load(path)
    executor = graph_executor.GraphModule(module["default"](session.context))
    executor.set_input("x", x)
    executor.run()
    return np.asarray(executor.get_output(0).numpy())


CONVOLUTIONS = {"winograd", "conv2d", "depthwise_pointwise", "pool"}


@pytest.mark.parametrize(
    ("model", "templates"),
    [
        (dense_model, {"dot", "rows"}),
        pytest.param(convolution_model, CONVOLUTIONS, marks=pytest.mark.slow),
    ],
)
def test_a_model_answers_on_the_board_as_on_the_host(
    board: Emulation, tmp_path: Path, model: Any, templates: set[str]
) -> None:
    mod = tvm.relay.transform.InferType()(tvm.IRModule.from_expr(model()))
    shape = [int(extent) for extent in mod["main"].params[0].type_annotation.shape]
    x = np.random.default_rng(6).standard_normal(shape).astype("float32")
    answers = []
    for device in (board.device, find_device("local")):
        target = device.tvm_target()
        with fx.lowering(target) as log:
            factory = relay.build(fx.pipeline(target)(mod), target)
        if device is board.device:
            assert {entry.template for entry in log.entries} >= templates
            assert not [entry for entry in log.entries if entry.fallback_reason]
        path = export_kernel(factory, tmp_path / f"{device.name}.so", device)
        with open_session(device) as session:
            answers.append(answer(session, path, x))
    largest = np.abs(answers[1]).max()
    assert largest > 0
    np.testing.assert_allclose(answers[0], answers[1], rtol=0, atol=1e-5 * largest)


def test_the_board_runs_kernels_on_our_pool(board: Emulation, tmp_path: Path) -> None:
    path = library(board.device, tmp_path, is_parallel=True)
    with open_session(board.device) as session:
        assert launches_of(session, path) == [0, 1]


def test_the_board_says_what_it_is(board: Emulation) -> None:
    with open_session(board.device) as session:
        facts = session.facts()
        heat = session.temperature()
    assert facts["arch"] == "aarch64"
    assert facts["emulator"] == EMULATOR
    assert facts["runtime"] == tvm.__version__
    assert heat is None or 0 < heat < 150


def test_a_crash_and_a_hang_end_their_session_and_nothing_else(
    board: Emulation, tmp_path: Path
) -> None:
    device = board.device
    broke = pytest.raises(DeviceLostError, match="the connection broke")
    with broke, open_session(device) as session:
        run_add_one(session, library(device, tmp_path, calls="abort"))
    hasty = dataclasses.replace(device, session_timeout_seconds=1.5)
    expired = pytest.raises(DeviceLostError, match=r"none within the session's 1\.5 s")
    with expired, open_session(hasty) as session:
        run_add_one(session, library(device, tmp_path, calls="pause"))
    with open_session(device) as session:
        np.testing.assert_array_equal(run_add_one(session, library(device, tmp_path)), EXPECTED)
    assert board.servers[0].poll() is None


def test_a_library_of_the_host_is_refused_by_the_board(board: Emulation, tmp_path: Path) -> None:
    path = library(find_device("local"), tmp_path)
    with open_session(board.device) as session:
        with pytest.raises(DeviceError, match=r"add_one\.so: expected a library") as caught:
            session.load(path)
        assert not isinstance(caught.value, DeviceLostError)


def test_a_second_session_waits_for_the_first_and_gives_up(board: Emulation) -> None:
    with open_session(board.device):
        summary = summarise(board.device)
        assert (summary.servers, summary.free) == (1, 0)
        with (
            pytest.raises(DeviceError, match="1 registered, none free"),
            open_session(board.device, timeout_seconds=0.5),
        ):
            pass
    board.wait_until_free()


@pytest.mark.slow
def test_two_boards_of_a_key_serve_two_sessions_at_once(tmp_path: Path) -> None:
    with emulated_boards(2) as boards:
        path = library(boards.device, tmp_path)
        # Each holds its board until the other has one too.
        both = threading.Barrier(2, timeout=30)

        def use(_: int) -> np.ndarray:
            with open_session(boards.device) as session:
                both.wait()
                return run_add_one(session, path)

        with ThreadPoolExecutor(2) as pool:
            for found in pool.map(use, range(2)):
                np.testing.assert_array_equal(found, EXPECTED)


HANG = """
import sys
from tests.devices.small_kernels import run_add_one
from tvm_fusionx.devices import find_device, open_session
with open_session(find_device(sys.argv[1])) as session:
    print("open", flush=True)
    run_add_one(session, sys.argv[2])
"""


@pytest.mark.slow
def test_a_device_that_falls_silent_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "GRACE_SECONDS", 0.5)
    with emulated_boards() as boards:
        device = dataclasses.replace(boards.device, session_timeout_seconds=2.0)
        path = library(device, tmp_path)
        server = boards.servers[0].pid
        expired = pytest.raises(DeviceLostError, match="none within the session's 2 s")
        with expired, open_session(device) as session:
            # A phone whose battery is out sends nothing, not even the end of its connections.
            children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
            frozen = [server, *map(int, children)]
            for pid in frozen:
                os.kill(pid, signal.SIGSTOP)
            try:
                run_add_one(session, path)
            finally:
                for pid in reversed(frozen):
                    os.kill(pid, signal.SIGKILL)


EMULATE = """
import time
from tvm_fusionx.devices.emulation import emulate
with emulate() as emulation:
    print(emulation.servers[0].pid, flush=True)
    time.sleep(60)
"""


def test_a_port_that_is_taken_is_said_so(board: Emulation) -> None:
    with pytest.raises(DeviceError, match="a port that is free"), emulate(port=board.port):
        pass


@pytest.mark.slow
def test_boards_end_with_the_process_that_started_them(board: Emulation) -> None:
    words = [sys.executable, "-c", EMULATE]
    owner = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE)
    assert owner.stdout is not None
    pid = owner.stdout.readline().decode().strip()
    assert is_running(pid)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    deadline = time.monotonic() + 20
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(pid)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["local", "board"])
def test_a_client_that_is_killed_in_a_hang_leaves_nothing_running(
    board: Emulation, tmp_path: Path, where: str
) -> None:
    device = board.device if where == "board" else find_device("local")
    device.save(tmp_path / "d.json")
    path = library(device, tmp_path, calls="pause")
    words = [sys.executable, "-c", HANG, str(tmp_path / "d.json"), str(path)]
    client = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE)
    assert client.stdout is not None
    assert client.stdout.readline() == b"open\n"
    children = Path(f"/proc/{client.pid}/task/{client.pid}/children").read_text().split()
    time.sleep(0.3)
    client.kill()
    client.wait()
    client.stdout.close()
    if where == "board":
        # Far less than the session's 60 s.
        board.wait_until_free(seconds=20)
        return
    assert children
    deadline = time.monotonic() + 20
    while any(is_running(child) for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(is_running(child) for child in children)


def is_running(pid: str) -> bool:
    """Tell whether a process exists and has not ended; an orphan may stay a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_wrong_key_is_refused_at_once(board: Emulation) -> None:
    device = dataclasses.replace(board.device, key="pixel")
    with (
        pytest.raises(DeviceError, match=r"key 'pixel'.*found servers of 'emulated-arm64'"),
        open_session(device),
    ):
        pass


@pytest.mark.slow
def test_a_plug_pulled_is_a_lost_device_and_another_takes_over(tmp_path: Path) -> None:
    with emulated_boards() as boards:
        device = boards.device
        path = library(device, tmp_path)
        lost = pytest.raises(DeviceLostError, match="the connection broke")
        with lost as caught, open_session(device) as session:
            boards.servers[0].kill()
            boards.servers[0].wait()
            # The session's process dies with the server that it came from.
            deadline = time.monotonic() + 10
            while session.is_alive() and time.monotonic() < deadline:
                time.sleep(0.01)
            run_add_one(session, path)
        assert "doctor --device emulated-arm64" in str(caught.value)
        boards.start_server()
        boards.wait_until_free()
        with open_session(device) as session:
            np.testing.assert_array_equal(run_add_one(session, path), EXPECTED)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "found"),
    [
        ("--load-library=/no/such/plug-in.so", "plug-in"),
        ("--work-folder=/no/such/folder", "no folder can be made in /no/such/folder"),
    ],
)
def test_a_board_that_cannot_serve_says_why(option: str, found: str) -> None:
    with emulated_boards() as boards:
        boards.servers[0].kill()
        boards.servers[0].wait()
        boards.start_server(option)
        boards.wait_until_free()
        with pytest.raises(DeviceError, match=found), open_session(boards.device):
            pass
        # It goes on serving, and failing, instead of ending.
        boards.wait_until_free()
        assert boards.servers[1].poll() is None


@pytest.mark.slow
def test_a_board_may_limit_its_sessions_itself(tmp_path: Path) -> None:
    with emulated_boards() as boards:
        boards.servers[0].kill()
        boards.servers[0].wait()
        boards.start_server("--session-limit=1")
        boards.wait_until_free()
        path = library(boards.device, tmp_path, calls="pause")
        expired = pytest.raises(DeviceLostError, match="none within the session's")
        with expired, open_session(boards.device) as session:
            run_add_one(session, path)


@pytest.mark.slow
def test_a_tracker_that_comes_back_finds_its_boards(tmp_path: Path) -> None:
    with emulated_boards() as boards:
        device = boards.device
        path = library(device, tmp_path)
        with open_session(device) as session:
            # A session needs no tracker once it is open.
            boards.stop_tracker()
            np.testing.assert_array_equal(run_add_one(session, path), EXPECTED)
        with pytest.raises(DeviceError, match="rpc_tracker"), open_session(device):
            pass
        boards.start_tracker()
        boards.wait_until_free()
        with open_session(device) as session:
            np.testing.assert_array_equal(run_add_one(session, path), EXPECTED)
        assert boards.log().count("registered") >= 2
