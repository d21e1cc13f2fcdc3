from __future__ import annotations

from typing import Any

from tests.compress.prune.small_modules import torch
from tvm_fusionx.compress.prune.batches import Batches, LoaderSteps, seed_of


def test_an_epoch_has_every_sample_once_in_its_own_order() -> None:
    x = torch.arange(12)
    batches = Batches(x, -x, size=4, seed=3)
    assert batches.steps == 3
    epochs = [torch.cat([batches[3 * epoch + step][0] for step in range(3)]) for epoch in (0, 1)]
    assert [sorted(epoch.tolist()) for epoch in epochs] == [list(range(12))] * 2
    assert epochs[0].tolist() != epochs[1].tolist()
    assert (batches[1][1] == -batches[1][0]).all()
    again = Batches(x, size=4, seed=3)
    assert (again[5][0] == batches[5][0]).all()
    assert Batches(x, size=4, seed=4)[0][0].tolist() != batches[0][0].tolist()


def test_a_loader_goes_on_within_an_epoch_as_if_it_had_never_stopped() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(12))

    def loader() -> Any:
        return torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)

    def steps() -> LoaderSteps:
        return LoaderSteps(loader(), lambda _, batch: batch[0].tolist(), seed=1)

    unbroken = steps()
    told = [unbroken(None, step) for step in range(8)]
    assert sorted(each for batch in told[:3] for each in batch) == list(range(12))
    assert told[:3] != told[3:6]
    later = steps()
    # What is drawn between batches is no matter of theirs; the dense model sees the same batch.
    torch.manual_seed(9)
    assert [later(None, step) for step in (4, 4, 5, 6)] == [told[4], told[4], told[5], told[6]]


def test_no_two_seeds_meet() -> None:
    seeds = {seed_of(seed, step) for seed in range(4) for step in range(100)}
    assert len(seeds) == 400
