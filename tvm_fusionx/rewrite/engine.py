"""Apply rewriting rules, the largest gain first, until none gains anything."""

from __future__ import annotations

import itertools
import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_fusionx.ecg.fold import fold_constants
from tvm_fusionx.ecg.graph import Graph, Node
from tvm_fusionx.rewrite.cost import Cost, cost_of, freed_by
from tvm_fusionx.rewrite.rule import Attempt, NumericClass, Refused, Replacement, Rule

logger = logging.getLogger(__name__)

# Every application lowers the cost of what it changes; rules that fight all the same must not hang.
MAX_ROUNDS = 64


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
    """

    rule: str
    node: str
    gain: Cost


@dataclass(frozen=True)
class _Opportunity:
    gain: Cost
    node: Node
    rule: Rule
    attempt: int


def apply_rules(graph: Graph, rules: Sequence[Rule], *, exact: bool = False) -> list[Application]:
    """Rewrite `graph` in place.

    Parameters
    ----------
    graph
        Changed in place: calls are replaced, constants folded, what is not needed dropped.
    rules
        In order of preference at equal gain.
    exact
        Whether to leave out rules that change rounding.

    Returns
    -------
    applications
        What was done, in order.
    """
    by_root: dict[str, list[Rule]] = defaultdict(list)
    for rule in rules:
        if not exact or rule.numeric_class is NumericClass.EXACT:
            for root in rule.roots:
                by_root[root].append(rule)
    done: list[Application] = []
    settled = 0
    for number in range(MAX_ROUNDS):
        if number == MAX_ROUNDS // 2:
            settled = len(done)
        fold_constants(graph)
        graph.prune()
        applied = _apply_round(graph, by_root)
        if not applied:
            break
        done.extend(applied)
    else:
        fighting = Counter(application.rule for application in done[settled:]).most_common()
        logger.warning(
            "rewriting stopped after %d rounds; these rules fight: %s", MAX_ROUNDS, fighting
        )
    graph.prune()
    return done


def _apply_round(graph: Graph, by_root: dict[str, list[Rule]]) -> list[Application]:
    """Find all opportunities, then take them from the largest gain on while they still hold."""
    opportunities = []
    for node in graph.calls():
        for rule in by_root.get(node.op, ()):
            for number, gain in enumerate(_gains(graph, node, rule)):
                if gain is not None and gain > _NOTHING:
                    opportunities.append(_Opportunity(gain, node, rule, number))
    opportunities.sort(key=lambda item: item.gain, reverse=True)
    applied = []
    for item in opportunities:
        if not graph.contains(item.node) or (
            not graph.users(item.node) and not graph.is_output(item.node)
        ):
            continue
        gain = _apply(graph, item)
        if gain is not None:
            applied.append(Application(item.rule.name, item.node.name or repr(item.node), gain))
    return applied


_NOTHING = Cost(0, 0, 0, 0, 0, 0)


def _gains(graph: Graph, node: Node, rule: Rule) -> list[Cost | None]:
    gains = []
    for attempt in rule.attempts(graph, node):
        gain, _ = _try(graph, attempt, keep=False)
        gains.append(gain)
    return gains


def _try(graph: Graph, attempt: Attempt, *, keep: bool) -> tuple[Cost | None, list[Replacement]]:
    """Write a replacement and return what it gains; it stays in the graph only if told to."""
    mark = graph.mark()
    replacements = attempt()
    if (
        replacements is None
        or isinstance(replacements, Refused)
        or any(old.type != new.type for old, new in replacements)
    ):
        graph.rollback(mark)
        return None, []
    new = graph.reachable_since(mark, [value for _, value in replacements])
    kept = {value.node for node in new for value in node.operands}
    kept.update(value.node for _, value in replacements)
    freed = freed_by(graph, [value for value, _ in replacements], kept)
    before, after = cost_of(freed), cost_of(new)
    gain = Cost(*(first - second for first, second in zip(before, after, strict=True)))
    if not keep:
        graph.rollback(mark)
    return gain, replacements


def _apply(graph: Graph, item: _Opportunity) -> Cost | None:
    mark = graph.mark()
    attempt = next(itertools.islice(item.rule.attempts(graph, item.node), item.attempt, None), None)
    if attempt is None:
        return None
    gain, replacements = _try(graph, attempt, keep=True)
    if gain is None or gain <= _NOTHING:
        graph.rollback(mark)
        return None
    for old, new in replacements:
        graph.replace(old, new)
    # A later attempt must not find these again and take them for calls that cost nothing.
    for old, _ in replacements:
        graph.drop_unread(old.node)
    return gain
