from __future__ import annotations

from typing import Any

import pytest

from tests.search.small_spaces import TRANSFORMERS
from tvm_fusionx.search.networks import layers_of
from tvm_fusionx.search.space import Candidate
from tvm_fusionx.search.space_file import parse_space

torch = pytest.importorskip("torch", reason="torch is not installed")

from tvm_fusionx.search.composability import (  # noqa: E402
    assemble,
    saved_seconds,
    shared_blocks,
    train_block,
)
from tvm_fusionx.search.torch_network import TorchNetwork, torch_network  # noqa: E402

SPACE = parse_space({**TRANSFORMERS, "layers": [3], "hidden": [16], "feed_forward": [16, 32, 64]})


def _candidate(*feed_forward: int) -> Candidate:
    choices: dict[str, Any] = {"layers": 3, "hidden": 16}
    for place, size in enumerate(feed_forward):
        choices |= {f"layer{place}.heads": 2, f"layer{place}.feed_forward": size}
    candidate = {**next(iter(SPACE.every())), "choices": choices}
    SPACE.check(candidate)
    return candidate


TEACHER = _candidate(64, 64, 64)
NETWORKS = [
    _candidate(16, 32, 16),
    _candidate(16, 32, 32),
    _candidate(16, 32, 64),
    _candidate(64, 16, 32),
]


def test_what_most_networks_share_comes_first() -> None:
    first, *rest = shared_blocks(NETWORKS, TEACHER)
    assert (first.first, first.uses, first.saves) == (1, 3, 4)
    assert [dict(layer.sizes)["feed_forward"] for layer in first.layers] == [16, 32]
    # The last layer of 32 is shared alone; the teacher's own layers need no training.
    assert {(each.first, each.uses) for each in rest} == {(1, 3), (2, 3), (3, 2)}
    assert len(shared_blocks(NETWORKS, TEACHER, most=1)) == 1


def test_networks_that_do_not_fit_the_teacher_share_nothing_with_it() -> None:
    other = parse_space({**TRANSFORMERS, "layers": [2], "hidden": [16]})
    assert shared_blocks(list(other.every()), TEACHER) == []


@pytest.fixture(scope="module", name="teacher")
def fixture_teacher() -> TorchNetwork:
    torch.manual_seed(0)
    teacher = torch_network(TEACHER, 0)
    optimiser = torch.optim.Adam(teacher.parameters(), 5e-3)
    for _ in range(40):
        x = torch.randint(0, 20, (16, 8))
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(teacher(x), _label(x)).backward()
        optimiser.step()
    return teacher


def _label(x: Any) -> Any:
    """Return the class of a text: which third of the vocabulary most of it is of, roughly."""
    return (x.float().mean(1) / 20 * 3 + 0.5).long().clamp(0, 2)


def test_a_network_of_trained_blocks_begins_ahead(teacher: TorchNetwork) -> None:
    torch.manual_seed(1)
    batches = [torch.randint(0, 20, (16, 8)) for _ in range(40)]
    blocks = [
        train_block(block, teacher, batches, learning_rate=1e-2)
        for block in shared_blocks(NETWORKS, TEACHER)
    ]
    for trained in blocks:
        assert trained.last_loss < trained.first_loss / 2
    assert saved_seconds(blocks) >= sum(trained.seconds for trained in blocks)
    x = torch.randint(0, 20, (256, 8))

    def distance(network: TorchNetwork) -> float:
        with torch.no_grad():
            return torch.nn.functional.mse_loss(network.eval()(x), teacher.eval()(x)).item()

    for candidate in NETWORKS[:3]:
        fresh = distance(torch_network(candidate, 2))
        made = assemble(candidate, torch_network(candidate, 2), teacher, blocks)
        assert made.from_blocks >= 2
        assert made.from_teacher >= 2
        assert made.from_teacher + made.from_blocks + made.fresh == len(layers_of(candidate))
        assert distance(made.network) < fresh / 2


def test_a_block_takes_its_teachers_place_in_names(teacher: TorchNetwork) -> None:
    block = shared_blocks(NETWORKS, TEACHER)[0]
    trained = train_block(block, teacher, [torch.zeros((2, 8), dtype=torch.int64)])
    assert {name.partition("_")[0] for name in trained.arrays} == {"l1", "l2"}
    assert set(trained.arrays) <= set(torch_network(NETWORKS[0]).arrays())


def test_no_batches_are_told(teacher: TorchNetwork) -> None:
    block = shared_blocks(NETWORKS, TEACHER)[0]
    with pytest.raises(ValueError, match="one batch at least"):
        train_block(block, teacher, [])
