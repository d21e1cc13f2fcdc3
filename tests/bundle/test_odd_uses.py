"""Bundles as nobody should use them, and some do: what is wrong is refused, the rest is right."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relay

import tvm_fusionx as fx
from tests.bundle.small_bundles import LOCAL, NAME, STRICT, executed, need
from tests.relay_modules import const, module, var
from tvm_fusionx.bundle.export import export_bundle

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")

X = np.random.default_rng(5).standard_normal((4, 32)).astype("float32")
DIALECTS = ("gcc -std=c99", "gcc -std=c17", "g++ -std=c++11 -x c++", "g++ -std=c++20 -x c++")


def _library(seed: int, name: str = "x") -> Any:
    wide = relay.nn.softmax(relay.nn.dense(var(name, 4, 32), const(64, 32, seed=seed)))
    return fx.build(module(relay.nn.softmax(relay.nn.dense(wide, const(16, 64, seed=seed)))), LOCAL)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Return two models and the folders of their bundles, which have one name."""
    found = []
    for seed in range(2):
        library = _library(seed)
        folder = tmp_path_factory.mktemp(f"model{seed}") / NAME
        export_bundle(library, folder)
        found.append((library, folder))
    return found


def _loader(folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"odd_{id(folder)}", folder / f"{folder.name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def _said(words: list[str | Path]) -> str:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr


def test_two_bundles_of_one_name_do_not_link(models: list[Any], tmp_path: Path) -> None:
    (_, one), (_, two) = models
    objects: list[Path] = []
    for number, folder in enumerate((one, two)):
        source = tmp_path / f"part{number}.c"
        call = "net_run(0, 0, 0, 0, 0)"
        source.write_text(f'#include "net.h"\nint part{number}(void) {{ return {call}; }}\n')
        objects.append(source.with_suffix(".o"))
        assert not _said(["gcc", "-c", f"-I{folder}", source, "-o", objects[-1]])
    main = tmp_path / "main.c"
    main.write_text("int part0(void), part1(void); int main(void) { return part0() + part1(); }\n")
    archives = [one / "libnet.a", two / "libnet.a"]
    words = ["gcc", main, *objects, *archives, "-lm", "-lpthread", "-o", tmp_path / "both"]
    assert "multiple definition of `net_run'" in _said(words)
    # The library of another version of a model is none of its header.
    main.write_text("int part0(void); int main(void) { return part0() - 1; }\n")
    last: list[str | Path] = ["-lm", "-lpthread", "-o", tmp_path / "one"]
    assert "undefined reference to `net_run_" in _said(
        ["gcc", main, objects[0], archives[1], *last]
    )
    assert not _said(["gcc", main, objects[0], archives[0], *last])
    subprocess.run([tmp_path / "one"], check=True)


def test_headers_of_one_name_do_not_meet(models: list[Any], tmp_path: Path) -> None:
    (_, one), (_, two) = models
    source = tmp_path / "both.c"
    source.write_text(f'#include "{one}/net.h"\n#include "{one}/net.h"\nint none;\n')
    assert not _said(["gcc", "-c", source, "-o", tmp_path / "both.o"])
    source.write_text(f'#include "{one}/net.h"\n#include "{two}/net.h"\nint none;\n')
    assert "two bundles have names" in _said(["gcc", "-c", source, "-o", tmp_path / "both.o"])


def test_libraries_of_one_name_keep_to_themselves_in_a_process(models: list[Any]) -> None:
    """Even where a program has made the names of the first everybody's."""
    (_, one), (library, two) = models
    ctypes.CDLL(str(one / "libnet.so"), mode=ctypes.RTLD_GLOBAL)
    with _loader(two).Model() as model:
        assert model.run(x=X)[0].tobytes() == executed(library, {"x": X})[0]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_header_is_plain_in_every_dialect(
    models: list[Any], dialect: str, tmp_path: Path
) -> None:
    words = dialect.split()
    need(words[0])
    header = models[0][1] / "net.h"
    source = tmp_path / "use.c"
    source.write_text(
        f'#include "{header}"\n#include <stddef.h>\n'
        "int main(void) { return (int)net_run(NULL, NULL, NULL, NET_ARENA_BYTES, NULL); }\n"
    )
    more = ["-Wshadow", "-Wconversion", "-Wundef", "-fsyntax-only"]
    assert not _said([*words, *STRICT, *more, source])


def test_threads_share_one_model_in_python(models: list[Any]) -> None:
    library, folder = models[0]
    given = [X + number for number in range(8)]
    expected = [executed(library, {"x": each})[0] for each in given]
    model = _loader(folder).Model()
    with ThreadPoolExecutor(4) as threads:
        for _ in range(20):
            found = threads.map(lambda each: model.run(x=each)[0].tobytes(), given)
            assert list(found) == expected
    model.close()
    with pytest.raises(RuntimeError, match="a pointer that is needed is null"):
        model.run(x=X)


def test_names_that_are_no_ascii_are_folders_and_inputs(tmp_path: Path) -> None:
    folder = tmp_path / "ein Modell 模型 😀" / NAME
    library = _library(2, name="输入")
    export_bundle(library, folder, weights="beside")
    loaded = _loader(folder)
    (field,) = (name for name, _, _ in loaded.INPUTS)
    assert loaded.Model().run(**{field: X})[0].tobytes() == executed(library, {"输入": X})[0]
    assert "输入 [4, 32] float32" in (folder / "net.h").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "make",
    [
        lambda: relay.nn.dense(var("x", 0, 32), const(64, 32)),
        lambda: relay.nn.conv2d(var("x", 0, 16, 8, 8), const(16, 16, 3, 3), padding=(1, 1)),
    ],
    ids=["dense", "window"],
)
def test_a_batch_of_nothing_gives_nothing(make: Any, tmp_path: Path) -> None:
    folder = tmp_path / NAME
    export_bundle(fx.build(module(make()), LOCAL), folder)
    loaded = _loader(folder)
    _, shape, dtype = loaded.INPUTS[0]
    (found,) = loaded.Model().run(x=np.zeros(shape, dtype))
    assert found.shape == loaded.OUTPUTS[0][1]
    assert found.size == 0
