"""What rewriting removes from each model: operations, operators, kernels, and the time it takes.

    python benchmarks/rewriting.py [MODEL ...] [--strategy saturate] [--verify] [--remaining]

A MODEL is an ONNX file (its inputs as arrays in ``MODEL.inputs.npz``, from which shapes are taken)
or a name of the zoo; all of the zoo without. Each row is one form of the model: after TVM's own
simplifications alone, then after rewriting. Nothing is compiled unless --verify is given: it holds
the model to ONNX Runtime with no rules, then with more of them, and tells how far each set of them
moves the outputs. A JSON file a model is written to benchmarks/results/rewriting/.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import tvm

import tvm_fusionx as fx
from tvm_fusionx import zoo
from tvm_fusionx._tvm.cures import let_cure, simplification_passes
from tvm_fusionx.build.library import build_versions
from tvm_fusionx.ecg import from_relay
from tvm_fusionx.ecg.flops import flops
from tvm_fusionx.ecg.fold import fold_constants
from tvm_fusionx.ecg.graph import Node, Value
from tvm_fusionx.fusion import Plan
from tvm_fusionx.operators import CONTRACTIONS, MOVEMENTS
from tvm_fusionx.passes import FuseByMapping, PackLayouts
from tvm_fusionx.passes.fuse_by_mapping import fuse_module
from tvm_fusionx.passes.rewrite_graph import TVM_OPT_LEVEL, rewrite_module
from tvm_fusionx.report.bench.bench import describe_device
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.report.verify.reference import run_onnxruntime
from tvm_fusionx.rewrite import ALL_RULES, Application, NumericClass, Rule, Strategy
from tvm_fusionx.rewrite.cost import cost_of
from tvm_fusionx.schedules import resolve_target

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "out" / "zoo"
RESULTS = ROOT / "benchmarks" / "results" / "rewriting"
TARGET = resolve_target("llvm -mcpu=native")

# Sets of rules, each with those before it.
RULE_SETS: dict[str, tuple[NumericClass, ...]] = {
    "no rules": (),
    "exact": (NumericClass.EXACT,),
    "+ reassociating": (NumericClass.EXACT, NumericClass.REASSOCIATES),
    "+ conditional": tuple(NumericClass),
}
LAST_SET = list(RULE_SETS)[-1]


@dataclass
class Row:
    """One form of a model.

    Parameters
    ----------
    form
        Which.
    operations, operators
        Arithmetic operations of one run, and calls.
    kernels, with_product
        Planned kernels, and those of them that compute a contraction.
    estimated
        Kernels by the estimate that rewriting chooses by: a bound from below.
    shared_inputs, shared_weights, chained
        Products that read the input, or the constant weights, of an earlier one; and products of a
        product, with nothing but moves between: no others could be merged by a law.
    seconds
        Processor time that rewriting took; None before it.
    rules
        How often each rule was applied.
    """

    form: str
    operations: int
    operators: int
    kernels: int
    with_product: int
    estimated: int
    shared_inputs: int
    shared_weights: int
    chained: int
    seconds: float | None = None
    rules: dict[str, int] = field(default_factory=dict)

    HEAD = (
        f"{'model':<22} {'form':<10} {'MFLOP':>10} {'operators':>9} {'kernels':>7} "
        f"{'products':>8} {'estimate':>8} {'seconds':>7}"
    )

    def text(self, model: str) -> str:
        """Return the row of the table."""
        seconds = "" if self.seconds is None else f"{self.seconds:7.2f}"
        return (
            f"{model:<22} {self.form:<10} {self.operations / 1e6:>10.2f} {self.operators:>9} "
            f"{self.kernels:>7} {self.with_product:>8} {self.estimated:>8} {seconds}"
        ).rstrip()

    def bound(self) -> str:
        """Return what rewriting could remove at most, and the products it could merge."""
        others = self.kernels - self.with_product
        return (
            f"{others} of {self.kernels} kernels ({others / self.kernels:.1%}) hold no product; "
            f"of the products, {self.shared_inputs} share an input, {self.shared_weights} share "
            f"weights, {self.chained} follow another"
        )


@dataclass(frozen=True)
class Deviation:
    """How far a set of rules moves a model's outputs, relative to the largest.

    Parameters
    ----------
    rules
        Which set: a name of ``RULE_SETS``.
    ok
        Whether every block and output is right; None where only outputs were compared.
    beside_onnx_runtime, beside_no_rules
        From ONNX Runtime, and from the same build without rules.
    seconds
        Processor time of building and comparing.
    allowance
        Why outputs may be further from ONNX Runtime than 1e-5, if they are.
    same_module
        Whether the set before gave the same module, so that this is its result.
    """

    rules: str
    ok: bool | None
    beside_onnx_runtime: float
    beside_no_rules: float
    seconds: float
    allowance: str = ""
    same_module: bool = False

    def text(self) -> str:
        """Return the row of the table."""
        verdict = {True: "ok", False: "WRONG", None: ""}[self.ok]
        same = " (the same module)" if self.same_module else f" in {self.seconds:.0f} s"
        return (
            f"{self.rules:<16} {verdict:<5} beside ONNX Runtime {self.beside_onnx_runtime:.2e}, "
            f"beside no rules {self.beside_no_rules:.2e}{same} {self.allowance}"
        ).rstrip()


def import_model(model: str) -> tuple[Any, Mapping[str, np.ndarray], Path]:
    """Return the imported module of a file or of a model of the zoo, its inputs and its file."""
    path = Path(model)
    if path.suffix == ".onnx":
        arrays = np.load(path.with_suffix(".inputs.npz"))
        inputs = {name: arrays[name] for name in arrays.files}
    else:
        MODELS.mkdir(parents=True, exist_ok=True)
        path = zoo.export(model, MODELS / f"{model}.onnx").path
        inputs = dict(zoo.sample_inputs(model))
    shape = {name: array.shape for name, array in inputs.items()}
    return fx.from_onnx(path, shape=shape)[0], inputs, path


def simplified(mod: Any) -> Any:
    """Return the module after TVM's own simplifications alone: they are not rewriting's gain."""
    with let_cure(), tvm.transform.PassContext(opt_level=TVM_OPT_LEVEL):
        return tvm.transform.Sequential(simplification_passes())(mod)


def planned(mod: Any) -> Plan:
    """Return the plan of a module as ``fx.build`` makes it."""
    options = FuseByMapping(TARGET).planner_options()
    return fuse_module(PackLayouts(TARGET)(mod), options)[1]["main"]


def measure(form: str, mod: Any, plan: Plan) -> Row:
    """Return what a module and its plan consist of."""
    graph = from_relay(tvm.relay.transform.InferType()(mod)["main"])
    fold_constants(graph)
    calls = graph.calls()
    products = [call for call in calls if call.op in CONTRACTIONS]
    return Row(
        form=form,
        operations=sum(map(flops, calls)),
        operators=len(calls),
        kernels=plan.kernels,
        with_product=sum(not CONTRACTIONS.isdisjoint(block.ops) for block in plan.blocks),
        estimated=cost_of(calls).kernels,
        shared_inputs=_repeated(call.operands[0] for call in products),
        shared_weights=_repeated(call.operands[1] for call in products if _has_weights(call)),
        chained=sum(any(_moved_from(v).op in CONTRACTIONS for v in c.operands) for c in products),
    )


def _has_weights(call: Node) -> bool:
    return call.operands[1].is_constant


def _repeated(values: Iterable[Value]) -> int:
    counts = Counter(values)
    return counts.total() - len(counts)


def _moved_from(value: Value) -> Node:
    while value.op in MOVEMENTS:
        value = value.node.operands[0]
    return value.node


def forms(mod: Any, strategies: Sequence[Strategy]) -> Iterator[tuple[Row, Plan]]:
    """Yield the row and the plan of the model before rewriting, and after it by each strategy."""
    before = simplified(mod)
    plan = planned(before)
    yield measure("before", before, plan), plan
    for strategy in strategies:
        start = time.process_time()
        rewritten, applications = rewrite_module(mod, strategy=strategy)
        seconds = time.process_time() - start
        plan = planned(rewritten)
        row = measure("after" if strategy == "greedy" else strategy, rewritten, plan)
        row.seconds, row.rules = seconds, _counted(applications)
        yield row, plan


def _counted(applications: Sequence[Application]) -> dict[str, int]:
    return dict(Counter(item.rule for item in applications).most_common())


def remaining(plan: Plan) -> Iterator[str]:
    """Yield the reasons that keep kernels apart, and the kernels without a product."""
    reasons = Counter(
        f"{edge.reason.name} {edge.detail}"
        for edge in plan.edges
        if edge.reason is not None and edge.reason.name != "RESHAPE_IS_FREE"
    )
    yield from (f"{count} x {reason}" for reason, count in reasons.most_common())
    for block in plan.blocks:
        if not block.is_reshape_only and CONTRACTIONS.isdisjoint(block.ops):
            yield f"no product: {block.name}: {' '.join(block.ops)}"


def rules_of(classes: Sequence[NumericClass]) -> tuple[Rule, ...]:
    """Return the rules of some numeric classes."""
    return tuple(rule for rule in ALL_RULES if rule.numeric_class in classes)


def deviations(mod: Any, inputs: Mapping[str, np.ndarray], path: Path) -> Iterator[Deviation]:
    """Yield how far each set of rules moves the outputs.

    Without rules and with all of them every block is verified (:func:`fx.verify`); between, the
    outputs are compared. A set that gives the same module as the one before is not built again.
    """
    wanted = run_onnxruntime(str(path), inputs)
    books = {name: rules_of(classes) for name, classes in RULE_SETS.items()}
    rewritten = {name: rewrite_module(mod, rules=rules)[0] for name, rules in books.items()}
    unrewritten: Sequence[np.ndarray] = ()
    outputs: Sequence[np.ndarray]
    found: Deviation | None = None
    before: Any = None
    for name, rules in books.items():
        if found is not None and tvm.ir.structural_equal(rewritten[name], before):
            found = replace(found, rules=name, same_module=True)
            yield found
            continue
        before = rewritten[name]
        start = time.process_time()
        if found is None or tvm.ir.structural_equal(before, rewritten[LAST_SET]):
            report = fx.verify(mod, None, inputs, TARGET, reference=wanted, rules=rules)
            outputs, ok, why = report.outputs, report.ok, report.allowance
        else:
            outputs, ok, why = run_once(fx.build(mod, TARGET, rules=rules), inputs), None, ""
        unrewritten = unrewritten or outputs
        found = Deviation(
            rules=name,
            ok=ok,
            beside_onnx_runtime=largest_difference(outputs, wanted),
            beside_no_rules=largest_difference(outputs, unrewritten),
            seconds=round(time.process_time() - start, 1),
            allowance=why,
        )
        yield found


def largest_difference(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    """Return the largest difference of any output, relative to that output's largest element."""
    return max(
        float(np.max(np.abs(one.astype("float64") - other), initial=0.0))
        / float(np.max(np.abs(other), initial=np.finfo("float32").tiny))
        for one, other in zip(found, wanted, strict=True)
    )


def main() -> None:
    """Print the table and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help="ONNX files, or names of the zoo; all without")
    parser.add_argument("--strategy", choices=("greedy", "saturate"), default="greedy")
    parser.add_argument("--verify", action="store_true", help="build, and tell deviations")
    parser.add_argument("--remaining", action="store_true", help="tell what keeps kernels apart")
    options = parser.parse_args()
    strategies: list[Strategy] = ["greedy"]
    if options.strategy == "saturate":
        strategies.append("saturate")
    largest = dict.fromkeys(RULE_SETS, 0.0)
    print(Row.HEAD)
    for model in options.models or zoo.names():
        mod, inputs, path = import_model(model)
        result: dict[str, Any] = {"model": path.stem, **facts(path.stem), "forms": []}
        for row, plan in forms(mod, strategies):
            print(row.text(path.stem), flush=True)
            result["forms"].append(asdict(row))
            if row.rules:
                print("   " + ", ".join(f"{name} {count}" for name, count in row.rules.items()))
            if options.remaining:
                print(f"   {row.bound()}")
                print("\n".join(f"   {line}" for line in remaining(plan)))
        if options.verify:
            result["deviations"] = []
            for found in deviations(mod, inputs, path):
                print(f"   {found.text()}", flush=True)
                result["deviations"].append(asdict(found))
                largest[found.rules] = max(largest[found.rules], found.beside_no_rules)
        save(result)
    if options.verify:
        for rules, difference in largest.items():
            print(f"largest difference from no rules, {rules}: {difference:.2e}")


def facts(model: str) -> dict[str, Any]:
    """Return when, where and with what this was measured; only seconds depend on it."""
    flags = [argument for argument in sys.argv[1:] if argument.startswith("--")]
    flags += ["saturate"] if "saturate" in sys.argv else []
    return {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "device": describe_device(),
        "versions": build_versions(),
        "command": f"python benchmarks/rewriting.py {model} {' '.join(flags)}".strip(),
    }


def save(result: dict[str, Any]) -> None:
    """Write a model's result over what is known of it; what was not measured now stays."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{result['model']}.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    forms = {form["form"]: form for form in (*known.get("forms", ()), *result["forms"])}
    merged = {**known, **result, "forms": list(forms.values())}
    path.write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
