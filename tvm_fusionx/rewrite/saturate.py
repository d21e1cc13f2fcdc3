"""The second engine: equality saturation of each region by ``egglog``, from the same declarations.

All equal forms of a region are kept at once and the cheapest is taken out, so that a step that
gains nothing by itself is not the end. Only equations whose conditions are facts about single
values can be told to egglog; the others, and the rules in Python, are left to the greedy engine.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm_fusionx._tvm.presence import install_command
from tvm_fusionx.ecg.graph import NO_ATTRIBUTES, Attributes, Graph, Node, Value
from tvm_fusionx.errors import MissingDependencyError
from tvm_fusionx.operators import MappingType, mapping_type_of
from tvm_fusionx.rewrite.conditions import (
    why_not_constant,
    why_not_non_negative,
    why_not_positive,
    why_not_scalar,
)
from tvm_fusionx.rewrite.cost import NOTHING, relative_cost
from tvm_fusionx.rewrite.engine import Application, exchange
from tvm_fusionx.rewrite.regions import Region, algebraic_regions
from tvm_fusionx.rewrite.rule import Domain, Rule
from tvm_fusionx.rewrite.term import COMPUTED, LITERAL, ONE_OF, VARIABLE, Term

logger = logging.getLogger(__name__)

NAME = "saturation"
# Larger regions have more equal forms than there is time for.
LARGEST_REGION = 40
MOST_ITERATIONS = 6
# The next iteration may be ten times the size of one with this many equal forms, and take seconds.
MOST_FORMS = 2_000
# Every operator occurs in the cheapest form at this price at least, so that fewer calls win.
_CALL = 1

_FACTS = {
    why_not_constant: "known",
    why_not_scalar: "number",
    why_not_non_negative: "nonnegative",
    why_not_positive: "positive",
}
_SIZES = re.compile(r"\w (\d+)\)")
_TOKENS = re.compile(r"[()]|[^\s()]+")


def saturate(
    graph: Graph, rules: Sequence[Rule], *, budget_seconds: float = 5.0
) -> list[Application]:
    """Replace each region of a graph by its cheapest equal form, in place.

    Parameters
    ----------
    graph
        Changed in place.
    rules
        Those that are equations of single operators are used, in both directions where they can.
    budget_seconds
        Time for all regions together; what is found by then is taken.

    Returns
    -------
    applications
        One for each value that was replaced, with what it gained.

    Raises
    ------
    MissingDependencyError
        ``egglog`` is not installed.
    """
    try:
        from egglog.bindings import EGraph
    except ImportError as error:
        raise MissingDependencyError(
            "RewriteGraph(strategy='saturate')",
            expected="the package egglog",
            found=str(error),
            next_step=f"Install it with: {install_command('egglog')}.",
        ) from error
    deadline = time.monotonic() + budget_seconds
    done: list[Application] = []
    # The layers of a model are one program many times.
    known: dict[tuple[str, ...], list[str]] = {}
    for region in algebraic_regions(graph):
        program = _Program(region)
        body = program.body() if len(region.nodes) <= LARGEST_REGION else ()
        if body not in known and (not body or time.monotonic() > deadline):
            logger.info("a region of %d calls is left as it is", len(region.nodes))
            continue
        text = program.text(body, rules)
        if body not in known:
            known[body] = _cheapest(EGraph(), text, len(region.roots), deadline)
        for root, best in zip(region.roots, known[body], strict=True):
            application = _replace(graph, program, root, best)
            if application is not None:
                done.append(application)
    graph.prune()
    return done


def _cheapest(engine: Any, text: str, roots: int, deadline: float) -> list[str]:
    """Return the cheapest form of each root that is found while there is time and room."""

    def run(command: str) -> list[object]:
        return list(engine.run_program(*engine.parse_program(command)))

    run(text)
    for _ in range(MOST_ITERATIONS):
        run("(run 1)")
        (sizes,) = run("(print-size)")
        forms = sum(map(int, _SIZES.findall(str(sizes))))
        if forms > MOST_FORMS or time.monotonic() > deadline:
            break
    best = (run(f"(extract $root{position})") for position in range(roots))
    return [str(form) for (form,) in best]


def _replace(graph: Graph, program: _Program, root: Value, best: str) -> Application | None:
    if not graph.contains(root.node):
        return None
    gain = exchange(graph, lambda: [(root, program.build(graph, best, root))])
    if gain is None or gain <= NOTHING:
        return None
    return Application(NAME, root.node.name or repr(root.node), gain)


@dataclass
class _Program:
    """A region as an egglog program, and the way back."""

    region: Region
    leaves: list[Value] = field(default_factory=list)
    operators: dict[str, tuple[str, Attributes, int]] = field(default_factory=dict)

    def body(self) -> tuple[str, ...]:
        """Return the region and the facts about its values; equal for regions that are alike."""
        nodes = [self._node(node) for node in self.region.nodes]
        roots = enumerate(self._place(root.node) for root in self.region.roots)
        return (*nodes, *(f"(let $root{position} {place})" for position, place in roots))

    def text(self, body: Sequence[str], rules: Sequence[Rule]) -> str:
        """Return sorts, the body, and all rules that can be said."""
        # A law whose way back is another law would be there twice.
        laws = list(dict.fromkeys(law for rule in rules for law in self._laws(rule)))
        head = ["(datatype V (Leaf i64) (Num f64))"]
        head += [f"(relation {fact} (V))" for fact in _FACTS.values()]
        head += [
            f"(constructor {name} ({' '.join('V' * arity)}) V :cost {self._cost(op)})"
            for name, (op, _, arity) in self.operators.items()
        ]
        head += ["(rule ((= e (Num x))) ((known e) (number e)))"]
        head += ["(rule ((= e (Num x)) (>= x 0.0)) ((nonnegative e)))"]
        head += ["(rule ((= e (Num x)) (> x 0.0)) ((positive e)))"]
        return "\n".join([*head, *self._arithmetic(), *laws, *body])

    def _cost(self, op: str) -> int:
        return _CALL + relative_cost(op)

    def _arithmetic(self) -> Iterator[str]:
        signs = {"add": "+", "multiply": "*", "subtract": "-"}
        for op, sign in signs.items():
            name = self._name(op, NO_ATTRIBUTES, 2)
            yield f"(rewrite ({name} (Num x) (Num y)) (Num ({sign} x y)))"
            if op != "subtract":
                yield f"(rewrite ({name} a b) ({name} b a))"
                yield f"(birewrite ({name} ({name} a b) c) ({name} a ({name} b c)))"

    def _name(self, op: str, attrs: Attributes, arity: int) -> str:
        for name, known in self.operators.items():
            if known == (op, attrs, arity):
                return name
        name = f"{op.replace('.', '_')}_{len(self.operators)}"
        self.operators[name] = (op, attrs, arity)
        return name

    def _place(self, node: Node) -> str:
        return f"$n{self.region.nodes.index(node)}"

    def _value(self, value: Value, inside: set[Node]) -> str:
        if value.node in inside:
            return self._place(value.node)
        if value.is_constant and value.shape == ():
            return f"(Num {float(value.array)!r})"
        if value not in self.leaves:
            self.leaves.append(value)
        return f"(Leaf {self.leaves.index(value)})"

    def _node(self, node: Node) -> str:
        inside = set(self.region.nodes)
        operands = [self._value(value, inside) for value in node.operands]
        name = self._name(node.op, node.attrs, len(operands))
        lines = [f"(let {self._place(node)} ({name} {' '.join(operands)}))"]
        for value in (node[0], *node.operands):
            for condition, fact in _FACTS.items():
                if condition(value) is None:
                    lines.append(f"({fact} {self._value(value, inside)})")
        return "\n".join(dict.fromkeys(lines))

    def _laws(self, rule: Rule) -> Iterator[str]:
        if rule.lhs is None or rule.rhs is None or rule.domain is Domain.INTEGER:
            return
        facts = []
        for condition in rule.conditions:
            fact = _FACTS.get(getattr(condition, "asks", None))  # type: ignore[arg-type]
            if fact is None:
                return
            facts += [f"({fact} {name})" for name in condition.names]  # type: ignore[attr-defined]
        left, right = self._pattern(rule.lhs), self._pattern(rule.rhs)
        if left is None or right is None:
            return
        when = f" :when ({' '.join(facts)})" if facts else ""
        yield f"(rewrite {left} {right}{when})"
        # The way back may show something better; not for what would match everything.
        if rule.rhs.op != VARIABLE and _variables(rule.lhs) == _variables(rule.rhs):
            yield f"(rewrite {right} {left}{when})"

    def _pattern(self, term: Term) -> str | None:
        if term.op == VARIABLE:
            return term.name
        if term.op == LITERAL:
            return f"(Num {term.number!r})"
        if term.op in (ONE_OF, COMPUTED) or term.attrs is not None:
            return None
        operands = [self._pattern(operand) for operand in term.operands]
        if any(operand is None for operand in operands):
            return None
        known = [
            name
            for name, (op, _, arity) in self.operators.items()
            if (op, arity) == (term.op, len(operands))
        ]
        if len(known) > 1:
            return None  # which of several attributes is meant is not said
        if not known and (
            term.op in _WITH_ATTRIBUTES or mapping_type_of(term.op) is not MappingType.ONE_TO_ONE
        ):
            return None
        name = known[0] if known else self._name(term.op, NO_ATTRIBUTES, len(operands))
        return f"({name} {' '.join(item for item in operands if item is not None)})"

    def build(self, graph: Graph, text: str, root: Value) -> Value:
        """Add the calls of an extracted form and return its value."""
        stack: list[list[Value | str | float]] = [[]]
        for token in _TOKENS.findall(text):
            if token == "(":
                stack.append([])
            elif token == ")":
                head, *operands = stack.pop()
                stack[-1].append(self._built(graph, str(head), operands, root))
            else:
                stack[-1].append(token)
        ((value,),) = stack
        assert isinstance(value, Value)
        return value

    def _built(
        self, graph: Graph, head: str, operands: Sequence[Value | str | float], root: Value
    ) -> Value:
        if head == "Leaf":
            return self.leaves[int(str(operands[0]))]
        if head == "Num":
            return graph.constant(float(str(operands[0])), root.dtype)
        op, attrs, _ = self.operators[head]
        values = [value for value in operands if isinstance(value, Value)]
        return graph.call(op, values, attrs, name=root.node.name)


# Their calls need attributes, which an equation takes from the left side.
_WITH_ATTRIBUTES = frozenset(
    ["argmax", "argmin", "cast", "clip", "max", "mean", "min", "prod", "sum", "variance"]
)


def _variables(term: Term) -> set[str]:
    if term.op == VARIABLE:
        return {term.name}
    return {name for operand in term.operands for name in _variables(operand)}
