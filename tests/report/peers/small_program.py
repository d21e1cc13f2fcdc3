"""A small network made with torch, and a peer held to what torch computes of it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from tests.report.peers.held_to_reference import CONVERTED, PEER_TOLERANCE
from tvm_fusionx.report.peers import PreparedPeer, prepare_peer
from tvm_fusionx.report.peers.conversions import Conversions


def check_program(name: str, folder: Path) -> PreparedPeer:
    """Prepare a convolution, mean, product and two outputs; run it twice, compare with torch."""
    torch = pytest.importorskip("torch")
    if importlib.util.find_spec("triton") is not None:
        pytest.skip("triton is installed, whose LLVM ends a process that has loaded TVM's")

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = torch.nn.Conv2d(3, 8, 3, padding=1)
            self.product = torch.nn.Linear(8, 5)

        def forward(self, image, scale):  # type: ignore[no-untyped-def]
            mean = torch.relu(self.convolution(image)).mean((2, 3))
            scores = self.product(mean * scale)
            return scores, scores.softmax(-1)

    torch.manual_seed(7)
    network = Network().eval()
    generator = np.random.default_rng(3)
    inputs = {
        "image": generator.standard_normal((1, 3, 8, 8)).astype("float32"),
        "scale": generator.standard_normal((1, 8)).astype("float32"),
    }
    values = tuple(map(torch.from_numpy, inputs.values()))
    with torch.no_grad():
        wanted = [result.numpy() for result in network(*values)]
        torch.export.save(torch.export.export(network, values), str(folder / "network.pt2"))
    conversions = Conversions(folder / "kept")
    # The second finds what was converted for the first, if anything was.
    for _ in range(2):
        prepared = prepare_peer(name, folder / "network.onnx", inputs, 1, conversions)
    assert (conversions.spared_s > 0) == (name in CONVERTED)
    prepared.run()
    for found, reference in zip(prepared.outputs(prepared.run()), wanted, strict=True):
        assert np.abs(found - reference).max() <= PEER_TOLERANCE * np.abs(reference).max()
    assert prepared.name == name
    assert prepared.version[0].isdigit()
    return prepared
