from __future__ import annotations

import re
from pathlib import Path

import pytest

from tvm_fusionx.errors import TargetError
from tvm_fusionx.processors.core_features import (
    FEATURES,
    HWCAP,
    HWCAP2,
    features_needed,
    features_told,
    is_linux_on_aarch64,
    word_of,
)
from tvm_fusionx.processors.targets import _is_feature, resolve_target

ARM = "llvm -mtriple=aarch64-linux-gnu"
# Linux's own file, where Debian's cross compiler brings it.
HEADER = Path("/usr/aarch64-linux-gnu/include/asm/hwcap.h")
LINUX_NAMES = {
    "lse": ["HWCAP_ATOMICS"],
    "fullfp16": ["HWCAP_FPHP", "HWCAP_ASIMDHP"],
    "rdm": ["HWCAP_ASIMDRDM"],
    "complxnum": ["HWCAP_FCMA"],
    "rcpc": ["HWCAP_LRCPC"],
    "sha3": ["HWCAP_SHA3"],
    "dotprod": ["HWCAP_ASIMDDP"],
    "sve": ["HWCAP_SVE"],
    "fp16fml": ["HWCAP_ASIMDFHM"],
    "flagm": ["HWCAP_FLAGM"],
    "sve2": ["HWCAP2_SVE2"],
    "fptoint": ["HWCAP2_FRINT"],
    "i8mm": ["HWCAP2_I8MM"],
    "bf16": ["HWCAP2_BF16"],
}


@pytest.mark.parametrize(
    ("options", "needs"),
    [
        ("", ()),
        (" -mcpu=cortex-a53", ()),
        (" -mcpu=cortex-a53 -mattr=+dotprod", ("dotprod",)),
        (" -mcpu=cortex-a76", ("dotprod", "fullfp16", "lse", "rcpc", "rdm")),
    ],
)
def test_a_target_needs_what_its_code_may_use(options: str, needs: tuple[str, ...]) -> None:
    assert features_needed(resolve_target(ARM + options)) == needs


def test_a_newer_core_needs_more() -> None:
    older, newer = (
        {*features_needed(resolve_target(f"{ARM} -mcpu={core}"))}
        for core in ("cortex-a76", "neoverse-n2")
    )
    assert older < newer
    assert {"i8mm", "bf16", "sve2"} <= newer


@pytest.mark.parametrize("target", ["llvm", "llvm -mtriple=arm64-apple-darwin", "opencl"])
def test_what_tells_nothing_of_its_core_is_refused(target: str) -> None:
    with pytest.raises(TargetError, match="AArch64 under Linux or Android"):
        features_needed(resolve_target(target))


def test_a_feature_is_told_by_all_of_its_bits() -> None:
    words = {HWCAP: 1 << 9 | 1 << 20, HWCAP2: 1 << 13}
    # Of fullfp16's two bits only one is there.
    assert features_told(words.__getitem__) == {"dotprod", "i8mm"}
    words[HWCAP] |= 1 << 10
    assert features_told(words.__getitem__) == {"dotprod", "fullfp16", "i8mm"}
    # As C has it, the highest bit makes a word negative.
    assert features_told(lambda word: -1) == FEATURES.keys()


def test_llvm_knows_each_feature() -> None:
    assert all(_is_feature("aarch64-linux-gnu", name) for name in FEATURES)


def test_bits_are_those_of_linux() -> None:
    if not HEADER.is_file():
        pytest.skip("no header of Linux for AArch64: apt-get install g++-aarch64-linux-gnu")
    found = re.findall(r"#define (HWCAP\w+)\s+\(1U?L?L? << (\d+)\)", HEADER.read_text())
    bits = {name: int(bit) for name, bit in found}
    assert LINUX_NAMES.keys() == FEATURES.keys()
    for feature, names in LINUX_NAMES.items():
        word, places = FEATURES[feature]
        assert [bits[name] for name in names] == [*places]
        assert all(name.startswith("HWCAP2_") == (word == HWCAP2) for name in names)


def test_the_words_of_a_core_tell_of_its_features_and_no_others() -> None:
    needs = features_needed(resolve_target(f"{ARM} -mcpu=neoverse-v1"))
    assert features_told(lambda word: word_of(needs, word)) == {*needs}
    assert word_of((), HWCAP) == 0
    assert word_of(("fullfp16", "i8mm"), HWCAP) == 1 << 9 | 1 << 10


@pytest.mark.parametrize(
    ("triple", "whether"),
    [
        ("aarch64-linux-gnu", True),
        ("arm64-linux-gnu", True),
        ("aarch64-linux-android21", True),
        ("arm64-apple-darwin", False),
        ("x86_64-linux-gnu", False),
        ("", False),
    ],
)
def test_linux_on_aarch64_is_told_by_the_triple(triple: str, whether: bool) -> None:
    assert is_linux_on_aarch64(triple) is whether
