"""Train small networks on Fashion-MNIST, from fixed seeds, and write them as ONNX files.

    python benchmarks/fashion_networks.py OUT [resnet mobilenet] [--epochs 2] [--images 30000]

Reads the Debian package ``dataset-fashion-mnist`` (60,000 and 10,000 pictures of 28 x 28). A file
takes any number of pictures at a time, ``(N, 1, 28, 28)``, less their mean and divided by their
deviation. The accuracy on the pictures kept apart is printed.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

FOLDER = Path("/usr/share/datasets/fashion-mnist")
SIDE = 28
CLASSES = 10
# Of the training pictures; the same for what is kept apart.
MEAN, DEVIATION = 0.286, 0.353
# What precedes the numbers in the files: four words for pictures, two for labels.
HEADERS = {"images": 16, "labels": 8}

SEED = 11
BATCH = 128
LEARNING_RATE = 4e-3
WEIGHT_DECAY = 5e-4
OPSET = 17


def pictures(part: str, count: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the first `count` pictures ``(N, 1, 28, 28)`` float32 and labels of a part.

    Parameters
    ----------
    part
        ``"train"`` or ``"t10k"``, which is kept apart.
    """
    raw = {}
    for kind, header in HEADERS.items():
        files = sorted(FOLDER.glob(f"{part}-{kind}-*.gz"))
        if not files:
            raise SystemExit(f"no {part}-{kind} in {FOLDER}: apt install dataset-fashion-mnist")
        with gzip.open(files[0]) as file:
            raw[kind] = np.frombuffer(file.read(), np.uint8, offset=header)
    images = raw["images"].reshape(-1, 1, SIDE, SIDE)[:count].astype("float32") / 255
    return (images - MEAN) / DEVIATION, raw["labels"][:count].astype("int64")


class _Residual(nn.Module):
    """Two convolutions and what passes by them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        is_same = inputs == outputs and stride == 1
        shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
        self.by = nn.Identity() if is_same else nn.Sequential(shortcut, nn.BatchNorm2d(outputs))

    def forward(self, x: Any) -> Any:
        return torch.relu(self.body(x) + self.by(x))


class _Inverted(nn.Module):
    """Widened, one window a channel, narrowed again: a block of MobileNetV2."""

    def __init__(self, inputs: int, outputs: int, stride: int, wider: int = 4) -> None:
        super().__init__()
        inner = inputs * wider
        self.body = nn.Sequential(
            nn.Conv2d(inputs, inner, 1, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU6(),
            nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU6(),
            nn.Conv2d(inner, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.is_residual = inputs == outputs and stride == 1

    def forward(self, x: Any) -> Any:
        return x + self.body(x) if self.is_residual else self.body(x)


def _network(blocks: list[nn.Module], width: int, last: int, activation: nn.Module) -> nn.Module:
    # Half the side at once: a quarter of the work, which two cores are to do in minutes.
    stem = [nn.Conv2d(1, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), activation]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, CLASSES)]
    return nn.Sequential(*stem, *blocks, *head)


def resnet() -> nn.Module:
    """Return the ResNet-20 of He et al. for small pictures: 16, 32 and 64 channels."""
    plan = [(16, 16, 1)] * 3 + [(16, 32, 2)] + [(32, 32, 1)] * 2 + [(32, 64, 2)] + [(64, 64, 1)] * 2
    return _network([_Residual(*row) for row in plan], 16, 64, nn.ReLU())


def mobilenet() -> nn.Module:
    """Return a small MobileNetV2: inverted residuals of 16 to 64 channels."""
    plan = [(16, 24, 1), (24, 24, 1), (24, 40, 2), (40, 40, 1), (40, 64, 1), (64, 64, 1)]
    return _network([_Inverted(*row) for row in plan], 16, 64, nn.ReLU6())


NETWORKS = {"resnet": resnet, "mobilenet": mobilenet}


def train(name: str, epochs: int, count: int | None = None) -> nn.Module:
    """Return a trained network: AdamW, one cycle of the learning rate, mirrored pictures."""
    torch.manual_seed(SEED)
    # Layers of few channels: threads would wait for each other, and order sums by chance.
    torch.set_num_threads(1)
    model = NETWORKS[name]().to(memory_format=torch.channels_last)
    images, labels = (torch.from_numpy(each) for each in pictures("train", count))
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    steps = epochs * (len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps + 1)
    generator = torch.Generator().manual_seed(SEED)
    model.train()
    for epoch in range(epochs):
        order = torch.randperm(len(images), generator=generator)
        total = 0.0
        for start in range(0, len(images) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            batch = images[chosen]
            is_mirrored = torch.rand(len(batch), generator=generator) < 0.5
            batch[is_mirrored] = batch[is_mirrored].flip(-1)
            batch = batch.to(memory_format=torch.channels_last)
            loss = nn.functional.cross_entropy(model(batch), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(f"{name} epoch {epoch + 1}: loss {total / (len(images) // BATCH):.3f}", flush=True)
    return model.eval()


def accuracy(model: nn.Module, count: int | None = None) -> float:
    """Return the share of pictures kept apart that a network names rightly."""
    images, labels = pictures("t10k", count)
    with torch.no_grad():
        parts = [model(torch.from_numpy(part)) for part in np.array_split(images, 20)]
    return float((torch.cat(parts).argmax(1).numpy() == labels).mean())


def export(model: nn.Module, path: Path) -> None:
    """Write a network as an ONNX file that takes any number of pictures."""
    torch.onnx.export(
        model,
        (torch.zeros(1, 1, SIDE, SIDE),),
        str(path),
        input_names=["x"],
        output_names=["y"],
        dynamic_axes={"x": {0: "N"}, "y": {0: "N"}},
        opset_version=OPSET,
        dynamo=False,
    )


def main(words: list[str] | None = None) -> int:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*", default=sorted(NETWORKS))
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--images", type=int, default=30000, help="train on the first so many")
    given = parser.parse_args(words)
    unknown = sorted(set(given.names) - set(NETWORKS))
    if unknown:
        parser.error(f"{unknown[0]}: expected some of {', '.join(sorted(NETWORKS))}")
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.names:
        model = train(name, given.epochs, given.images)
        print(f"{name}: accuracy {accuracy(model):.4f}", flush=True)
        export(model, given.out / f"fashion-{name}.onnx")
    return 0


if __name__ == "__main__":
    sys.exit(main())
