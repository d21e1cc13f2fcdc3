from __future__ import annotations

import re
from pathlib import Path

import pytest

from tvm_fusionx.cli.train_script import load_script
from tvm_fusionx.compress.prune.read_config import read_config
from tvm_fusionx.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
WHOLE = """
def model(): return "m"
def example(): return ()
def train_step(model, step): return (model, step)
def as_dictionary(): return {"model": model, "example": example, "evaluate": len}
def nothing(): return {"modle": model, "example": example}
"""


def test_the_functions_of_a_file_or_of_what_a_function_returns(tmp_path: Path) -> None:
    path = tmp_path / "t.py"
    path.write_text(WHOLE)
    script = load_script(str(path))
    assert script.model() == "m"
    assert script.evaluate is None
    train = script.train(0)
    assert train is not None
    assert train("m", 3) == ("m", 3)
    other = load_script(f"{path}:as_dictionary")
    assert other.train(0) is None
    assert other.evaluate is not None
    assert other.evaluate([1, 2]) == 2


def test_a_loader_makes_steps_of_batches(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "t.py").write_text(WHOLE + "def loaders(): return [7, 8, 9]\n")
    train = load_script(str(tmp_path / "t.py")).train(0)
    assert train is not None
    assert [train("m", step)[1] for step in range(4)] == [7, 8, 9, 7]


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        (None, "", "no file"),
        (WHOLE, ":missing", "no function missing"),
        (WHOLE, ":nothing", "no model, but modle"),
        ("def example(): return ()", "", "no model"),
        (WHOLE + "evaluate = 3", "", "evaluate, which is no function"),
        ("1 / 0", "", "ZeroDivisionError"),
    ],
)
def test_what_a_script_lacks_is_told(
    tmp_path: Path, text: str | None, name: str, words: str
) -> None:
    if text is not None:
        (tmp_path / "t.py").write_text(text)
    with pytest.raises(InputError, match=words):
        load_script(f"{tmp_path / 't.py'}{name}")


def test_the_script_and_the_configuration_of_the_how_to_page_are_read(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    text = (ROOT / "docs" / "how-to" / "prune-a-model.md").read_text(encoding="utf-8")
    first, second = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    (config,) = re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL)
    (tmp_path / "train.py").write_text(first)
    (tmp_path / "config.yaml").write_text(config)
    script = load_script(str(tmp_path / "train.py"))
    module = script.model()
    train = script.train(0)
    assert train is not None
    loss, outputs = train(module, 0)
    assert outputs.shape == (64, 2)
    assert loss.ndim == 0
    assert script.evaluate is not None
    with torch.no_grad():
        assert 0 < script.evaluate(module) < 1
    choices = read_config(tmp_path / "config.yaml")
    assert choices.training.method == "admm"
    assert choices.op_type_configs["embedding"] is None
    exec(compile(second, "how-to", "exec"), {})
