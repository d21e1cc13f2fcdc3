"""A training of no time: the accuracy is a number that the candidate's choices give."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any


def accuracy_of(choices: dict[str, Any], share: float = 1.0) -> float:
    """Return a number between 0 and 1, a little larger for more training."""
    text = json.dumps(choices, sort_keys=True)
    whole = int(hashlib.sha256(text.encode()).hexdigest()[:6], 16) / 0xFFFFFF
    return whole * (0.9 + 0.1 * share)


def train(candidate: dict[str, Any], trial: dict[str, Any]) -> dict[str, Any]:
    """Do as a training does: take a while, say something, leave a file."""
    choices = candidate["choices"]
    Path(trial["folder"]).mkdir(parents=True, exist_ok=True)
    print("epoch 1")
    if os.environ.get("QUICK_TRAINING") == "fails" and choices["layers"] == 2:
        raise RuntimeError("two layers are one too many")
    if os.environ.get("QUICK_TRAINING") == "dies" and choices["layers"] == 2:
        os.abort()
    time.sleep(float(os.environ.get("QUICK_SECONDS", "0")))
    (Path(trial["folder"]) / "weights").write_text(str(trial["share"]))
    return {"accuracy": accuracy_of(choices, trial["share"]), "epochs": 1}
