from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from tvm_fusionx.devices import check_up, doctor, find_device
from tvm_fusionx.devices.check_up import Step
from tvm_fusionx.devices.doctor import Finding, Verdict, examine, is_fit


def _by_subject(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.subject: finding for finding in findings}


def test_this_environment_is_fit() -> None:
    findings = examine()
    assert is_fit(findings), [f for f in findings if f.verdict is Verdict.FAIL]
    found = _by_subject(findings)
    assert {"python", "tvm", "one tvm", "tvm loads", "llvm", "threads", "compiler"} <= set(found)
    assert "0.19" in found["tvm loads"].found


def test_every_finding_that_is_not_ok_says_what_to_do() -> None:
    assert all(finding.advice for finding in examine() if finding.verdict is not Verdict.OK)


def test_a_python_too_old_or_too_new_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ((3, 9, 1), (3, 14, 0)):
        monkeypatch.setattr(sys, "version_info", version)
        (finding,) = doctor.check_python()
        assert finding.verdict is Verdict.FAIL
        assert "3.10 to 3.13" in finding.advice


def test_a_missing_tvm_fails_and_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "why_no_relay", lambda: "no package named tvm")
    (finding,) = doctor.check_tvm()
    assert finding.verdict is Verdict.FAIL
    assert "pip install" in finding.advice
    assert doctor.check_tvm_loads() == []


def test_a_tvm_that_does_not_load_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "tvm":
                raise OSError("libLLVM.so.22: cannot open shared object file")

    for name in [name for name in sys.modules if name == "tvm" or name.startswith("tvm.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(doctor, "why_no_relay", lambda: None)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    (finding,) = doctor.check_tvm_loads()
    assert finding.verdict is Verdict.FAIL
    assert "libLLVM" in finding.found


def _install(folder: Path, name: str, *, package: bool = True) -> None:
    """Make a distribution `name` that brings a package ``tvm``."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "RECORD").write_text("tvm/__init__.py,,\n")
    if package:
        (folder / "tvm").mkdir(exist_ok=True)
        (folder / "tvm" / "__init__.py").write_text("")


def test_two_distributions_that_bring_tvm_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(tmp_path, "apache-tvm")
    _install(tmp_path, "tlcpack")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    (finding,) = doctor.check_single_tvm()
    assert finding.verdict is Verdict.FAIL
    assert "apache-tvm 1.0, tlcpack 1.0" in finding.found
    assert "pip uninstall apache-tvm tlcpack" in finding.advice


def test_two_folders_that_hold_tvm_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        _install(tmp_path / name, "apache-tvm")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), str(tmp_path / "second")])
    (finding,) = doctor.check_single_tvm()
    assert finding.verdict is Verdict.FAIL
    assert str(tmp_path / "first" / "tvm") in finding.found
    assert str(tmp_path / "second" / "tvm") in finding.found


def test_one_folder_twice_on_the_path_is_one_tvm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(tmp_path, "apache-tvm")
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / ".")])
    (finding,) = doctor.check_single_tvm()
    assert finding.verdict is Verdict.OK


@pytest.mark.parametrize(
    ("package", "version", "verdict"),
    [
        ("onnx", "1.23.2", Verdict.OK),
        ("onnx", "1.17.0", Verdict.WARN),
        ("onnx", "1.24.0", Verdict.WARN),
        ("onnx", None, Verdict.WARN),
        ("numpy", None, Verdict.FAIL),
    ],
)
def test_packages_are_held_to_the_versions_known_to_work(
    package: str, version: str | None, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = metadata.version

    def answer(name: str) -> str:
        if name != package:
            return right(name)
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(metadata, "version", answer)
    assert _by_subject(doctor.check_packages())[package].verdict is verdict


def test_a_variable_that_limits_tvms_threads_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_NUM_THREADS", "99")
    (finding,) = doctor.check_threads()
    assert finding.verdict is Verdict.WARN
    assert "TVM_NUM_THREADS=99" in finding.found


def test_a_missing_compiler_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CC", raising=False)
    (finding,) = doctor.check_compiler()
    assert finding.verdict is Verdict.WARN
    assert "g++" in finding.advice


def test_a_check_that_breaks_is_reported_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def check_threads() -> list[Finding]:
        raise ZeroDivisionError("no cores")

    monkeypatch.setattr(doctor, "check_threads", check_threads)
    found = _by_subject(examine())
    assert found["threads"].verdict is Verdict.FAIL
    assert "no cores" in found["threads"].found
    assert "compiler" in found


@pytest.mark.parametrize(
    ("step", "verdict"),
    [
        (Step("key", "registered"), Verdict.OK),
        (Step("runtime", "another", advice="Build it."), Verdict.WARN),
        (Step("key", "not registered", True, "Start it."), Verdict.FAIL),
    ],
)
def test_steps_of_a_device_become_findings(
    monkeypatch: pytest.MonkeyPatch, step: Step, verdict: Verdict
) -> None:
    monkeypatch.setattr(check_up, "check_up", lambda device: [step])
    (finding,) = doctor.examine_device(find_device("local"))
    assert finding == Finding(step.subject, verdict, step.found, step.advice)


def test_where_our_pool_cannot_be_had_the_doctor_says_what_kernels_run_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (finding,) = doctor.check_pool()
    assert finding.verdict in (Verdict.OK, Verdict.WARN)
    monkeypatch.setattr(doctor, "why_no_pool", lambda: "no compiler")
    (finding,) = doctor.check_pool()
    assert finding.verdict is Verdict.WARN
    assert finding.found == "no compiler"
    assert "TVM's" in finding.advice
