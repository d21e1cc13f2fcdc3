from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.devices.fake_tracker import MAGIC, fake_tracker, message
from tvm_fusionx.devices import Device, tracker
from tvm_fusionx.errors import DeviceError


def device(address: str, key: str = "phone") -> Device:
    return Device("d", "llvm", tracker=address, key=key)


@pytest.fixture(scope="module", name="real")
def fixture_real() -> Iterator[str]:
    rpc_tracker = pytest.importorskip("tvm.rpc.tracker")
    server = rpc_tracker.Tracker(host="127.0.0.1", port=19190, port_end=19290, silent=True)
    yield f"127.0.0.1:{server.port}"
    server.terminate()


def test_an_empty_tracker_has_no_keys(real: str) -> None:
    assert tracker.summarise(device(real)) == tracker.Summary(0, 0, 0, ())


def test_a_key_that_nobody_serves_is_said_at_once(real: str) -> None:
    with pytest.raises(
        DeviceError, match=r"key 'phone': .*found servers of no key at all"
    ) as caught:
        tracker.request(device(real), timeout_seconds=30)
    assert "--key=phone" in str(caught.value)


def test_a_tracker_that_is_not_there_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(DeviceError, match=r"ConnectionRefusedError.*rpc_tracker"):
        tracker.summarise(device(f"127.0.0.1:{port}"))


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ([b"HTTP"], "no RPC tracker answers"),
        ([MAGIC, message("[-1]")], r"it answers \[-1\]"),
        ([MAGIC, message("{")], "JSONDecodeError"),
        ([MAGIC, message("[0, {}]")], "KeyError"),
    ],
)
def test_an_answer_of_something_else_is_said_so(answers: list[bytes], found: str) -> None:
    with fake_tracker(*answers) as address, pytest.raises(DeviceError, match=found):
        tracker.summarise(device(address))


def test_a_tracker_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker, "ANSWER_SECONDS", 0.1)
    with fake_tracker() as address, pytest.raises(DeviceError, match="timed out"):
        tracker.summarise(device(address))


BUSY = (
    '[0, {"server_info": [{"key": "server:phone", "addr": ["h", 1]}], '
    '"queue_info": {"phone": {"free": 0, "pending": 1}}}]'
)


def test_a_device_that_stays_busy_is_given_up() -> None:
    none_free = pytest.raises(DeviceError, match="1 registered, none free")
    with fake_tracker(MAGIC, message(BUSY)) as address, none_free:
        tracker.request(device(address), timeout_seconds=0.3)


def test_a_free_device_is_offered() -> None:
    offer = message('[0, ["10.0.0.9", 9090, "phone:0.1"]]')
    with fake_tracker(MAGIC, message(BUSY), offer) as address:
        found = tracker.request(device(address), timeout_seconds=5)
    assert found == tracker.Offer("10.0.0.9", 9090, "phone:0.1")
