"""Apply rewriting rules, the largest gain first, until none gains anything."""

from __future__ import annotations

import itertools
import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import tvm

from tvm_fusionx.ecg.fold import fold_constants
from tvm_fusionx.ecg.graph import Graph, Node
from tvm_fusionx.operators import REORGANIZE
from tvm_fusionx.rewrite.cost import NOTHING, Cost, cost_of, freed_by
from tvm_fusionx.rewrite.matching import operators_read
from tvm_fusionx.rewrite.neighbourhood import Change, CountKernels, remembering
from tvm_fusionx.rewrite.rule import Attempt, NumericClass, Refused, Replacement, Rule

logger = logging.getLogger(__name__)

# Every application lowers the cost of what it changes; rules that fight all the same must not hang.
MAX_ROUNDS = 64

# Calls from the root of the deepest left side to its leaves: so far up a change is felt.
_DEEPEST_PATTERN = 5


@dataclass(frozen=True)
class Application:
    """One application of a rule.

    Parameters
    ----------
    rule
        Name of the rule.
    node
        Label of the call it was applied at.
    gain
        Cost before minus cost after, of the calls that changed.
    nodes
        Names, in the model, of all calls that were replaced.
    """

    rule: str
    node: str
    gain: Cost
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Opportunity:
    gain: Cost
    node: Node
    rule: Rule
    attempt: int


def apply_rules(
    graph: Graph,
    rules: Sequence[Rule],
    *,
    exact: bool = False,
    count_kernels: CountKernels | None = None,
) -> list[Application]:
    """Rewrite `graph` in place.

    Parameters
    ----------
    graph
        Changed in place: calls are replaced, constants folded, what is not needed dropped.
    rules
        In order of preference at equal gain.
    exact
        Whether to leave out rules that change rounding.
    count_kernels
        Plans the surroundings of a change that saves neither arithmetic nor bytes; without, kernels
        are only estimated (:class:`~tvm_fusionx.rewrite.cost.Cost`).

    Returns
    -------
    applications
        What was done, in order.
    """
    count = None if count_kernels is None else remembering(count_kernels)
    by_root: dict[str, list[Rule]] = defaultdict(list)
    for rule in rules:
        if not exact or rule.numeric_class is NumericClass.EXACT:
            for root in rule.roots:
                by_root[root].append(rule)
    done: list[Application] = []
    settled = 0
    # None is all of the graph: it is looked at first, and again when nothing new is left.
    where: set[Node] | None = None
    for number in range(MAX_ROUNDS):
        if number == MAX_ROUNDS // 2:
            settled = len(done)
        mark = graph.mark()
        fold_constants(graph)
        graph.prune()
        applied, touched = _apply_round(graph, by_root, where, count)
        if not applied and where is None:
            break
        done.extend(applied)
        where = _surroundings(graph, mark, touched) if applied else None
    else:
        fighting = Counter(application.rule for application in done[settled:]).most_common()
        logger.warning(
            "rewriting stopped after %d rounds; these rules fight: %s", MAX_ROUNDS, fighting
        )
    graph.prune()
    return done


def _surroundings(graph: Graph, mark: int, touched: set[Node]) -> set[Node]:
    """Return the calls at which a rule may match that did not before a change.

    These are the new calls and those whose operands changed, as far up as a left side reaches, and
    the other readers of what they read.
    """
    front = {
        node
        for node in graph.calls()
        if node in touched
        or node.number > mark
        or any(value.node.number > mark for value in node.operands)
    }
    found = set(front)
    for node in front:
        for value in node.operands:
            found.add(value.node)
            found.update(graph.users(value.node))
    front = set(found)
    for _ in range(_DEEPEST_PATTERN):
        front = {user for node in front for user in graph.users(node)} - found
        found |= front
    return found


def _apply_round(
    graph: Graph,
    by_root: dict[str, list[Rule]],
    where: set[Node] | None,
    count: CountKernels | None,
) -> tuple[list[Application], set[Node]]:
    """Find all opportunities, then take them from the largest gain on while they still hold."""
    opportunities = []
    for node in graph.calls():
        if where is not None and node not in where:
            continue
        read = operators_read(node)
        for rule in by_root.get(node.op, ()):
            if read is not None and any(map(read.isdisjoint, rule.reads)):
                continue
            for number, gain in enumerate(_gains(graph, node, rule, count)):
                if gain is not None and gain > NOTHING:
                    opportunities.append(_Opportunity(gain, node, rule, number))
    opportunities.sort(key=lambda item: item.gain, reverse=True)
    applied = []
    touched: set[Node] = set()
    for item in opportunities:
        if not graph.contains(item.node) or (
            not graph.users(item.node) and not graph.is_output(item.node)
        ):
            continue
        application = _apply(graph, item, touched, count)
        if application is not None:
            applied.append(application)
    return applied, touched


def _gains(graph: Graph, node: Node, rule: Rule, count: CountKernels | None) -> list[Cost | None]:
    trials = [_try(graph, attempt, count, keep=False) for attempt in rule.attempts(graph, node)]
    return [None if trial is None else trial.gain for trial in trials]


@dataclass(frozen=True)
class _Trial:
    gain: Cost
    replacements: list[Replacement]
    freed: set[Node]


def _try(
    graph: Graph, attempt: Attempt, count: CountKernels | None = None, *, keep: bool
) -> _Trial | None:
    """Write a replacement and return what it gains; it stays in the graph only if told to."""
    mark = graph.mark()
    try:
        replacements = attempt()
    except tvm.TVMError as error:
        logger.debug("a rule wrote a call that has no type: %s", error)
        replacements = None
    if (
        replacements is None
        or isinstance(replacements, Refused)
        or any(old.type != new.type for old, new in replacements)
    ):
        graph.rollback(mark)
        return None
    new = graph.reachable_since(mark, [value for _, value in replacements])
    kept = {value.node for node in new for value in node.operands}
    kept.update(value.node for _, value in replacements)
    freed = freed_by(graph, [value for value, _ in replacements], kept)
    before, after = cost_of(freed), cost_of(new)
    gain = Cost(*(first - second for first, second in zip(before, after, strict=True)))
    if count is not None and _should_plan(gain, {*freed, *new}):
        change = Change(graph, dict(replacements), freed, new, mark)
        gain = gain._replace(kernels=change.kernels_saved(count))
    if not keep:
        graph.rollback(mark)
    return _Trial(gain, replacements, freed)


def _should_plan(gain: Cost, changed: set[Node]) -> bool:
    """Tell whether kernels decide about a gain; a reshape is no kernel and joins none."""
    decides = gain > NOTHING and gain.arithmetic == 0 and gain.bytes == 0
    return decides and any(node.op not in REORGANIZE for node in changed)


def _apply(
    graph: Graph, item: _Opportunity, touched: set[Node], count: CountKernels | None
) -> Application | None:
    mark = graph.mark()
    attempt = next(itertools.islice(item.rule.attempts(graph, item.node), item.attempt, None), None)
    if attempt is None:
        return None
    trial = _try(graph, attempt, count, keep=True)
    if trial is None or trial.gain <= NOTHING:
        graph.rollback(mark)
        return None
    label = item.node.name or repr(item.node)
    freed = sorted(trial.freed, key=lambda node: node.number)
    names = tuple(dict.fromkeys(node.name for node in freed if node.name))
    for old, new in trial.replacements:
        graph.replace(old, new)
    # A later attempt must not find these again and take them for calls that cost nothing.
    for old, _ in trial.replacements:
        graph.drop_unread(old.node)
    for _, new in trial.replacements:
        touched.update(graph.users(new.node))
    return Application(item.rule.name, label, trial.gain, names)


def exchange(graph: Graph, attempt: Attempt) -> Cost | None:
    """Make one replacement if that lowers the cost, and return by how much.

    Parameters
    ----------
    graph
        Changed in place, or left as it was.
    attempt
        What to try.

    Returns
    -------
    gain
        None when nothing was replaced.
    """
    mark = graph.mark()
    trial = _try(graph, attempt, keep=True)
    if trial is None or trial.gain <= NOTHING:
        graph.rollback(mark)
        return None
    for old, new in trial.replacements:
        graph.replace(old, new)
    for old, _ in trial.replacements:
        graph.drop_unread(old.node)
    return trial.gain
