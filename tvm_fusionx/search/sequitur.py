"""Sequitur: the grammar of a sequence, in linear time (Nevill-Manning and Witten, 1997).

Two things hold of the grammar after every symbol: no pair of neighbouring symbols occurs twice
(digram uniqueness), and every rule is used twice at least (rule utility). So what repeats in a
sequence is a rule, once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

START = 0
"""The number of the rule that is the whole sequence."""


@dataclass(frozen=True)
class RuleUse:
    """A rule in the place of what it stands for."""

    number: int


Grammar = dict[int, tuple[Hashable, ...]]
"""Rules by number; what is no :class:`RuleUse` in them is a symbol of the sequence."""


class _Rule:
    """A ring of symbols that begins and ends at a guard."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.uses = 0
        self.guard = _Symbol(None, guards=self)
        self.guard.next = self.guard.previous = self.guard

    @property
    def first(self) -> _Symbol:
        found: _Symbol = self.guard.next
        return found

    @property
    def last(self) -> _Symbol:
        found: _Symbol = self.guard.previous
        return found

    def __iter__(self) -> Iterator[_Symbol]:
        symbol = self.first
        while symbol is not self.guard:
            yield symbol
            symbol = symbol.next


class _Symbol:
    __slots__ = ("guards", "next", "previous", "value")

    next: Any
    previous: Any

    def __init__(self, value: Hashable, guards: _Rule | None = None) -> None:
        self.next = self.previous = None
        self.value = value
        self.guards = guards
        if isinstance(value, _Rule):
            value.uses += 1

    @property
    def is_alone(self) -> bool:
        """Tell whether no pair begins here: a guard, or the last symbol of a rule."""
        return self.guards is not None or self.next.guards is not None

    @property
    def pair(self) -> tuple[Hashable, Hashable]:
        return self.value, self.next.value


def _is_in_run(symbol: _Symbol) -> bool:
    """Tell whether a symbol stands between two that are equal to it."""
    before, after = symbol.previous, symbol.next
    if before is None or after is None or symbol.guards is not None:
        return False
    if before.guards is not None or after.guards is not None:
        return False
    return bool(before.value == symbol.value == after.value)


class _Builder:
    """The grammar of what was added so far."""

    def __init__(self) -> None:
        self.made = 0
        self.start = self._new_rule()
        self.pairs: dict[tuple[Hashable, Hashable], _Symbol] = {}

    def add(self, value: Hashable) -> None:
        """Add a symbol at the end of the sequence."""
        self._insert(self.start.last, _Symbol(value))
        if self.start.first is not self.start.last:
            self._check(self.start.last.previous)

    def _new_rule(self) -> _Rule:
        rule = _Rule(self.made)
        self.made += 1
        return rule

    def _forget(self, symbol: _Symbol) -> None:
        if not symbol.is_alone and self.pairs.get(symbol.pair) is symbol:
            del self.pairs[symbol.pair]

    def _join(self, left: _Symbol, right: _Symbol) -> None:
        """Put `right` behind `left`; the pair that ended there is no more."""
        if left.next is not None:
            self._forget(left)
            # Of three equal symbols in a row only one pair is known: when that goes, the other is.
            if _is_in_run(right):
                self.pairs[right.pair] = right
            if _is_in_run(left):
                self.pairs[left.previous.pair] = left.previous
        left.next, right.previous = right, left

    def _insert(self, place: _Symbol, symbol: _Symbol) -> None:
        self._join(symbol, place.next)
        self._join(place, symbol)

    def _delete(self, symbol: _Symbol) -> None:
        self._join(symbol.previous, symbol.next)
        self._forget(symbol)
        if isinstance(symbol.value, _Rule):
            symbol.value.uses -= 1

    def _check(self, symbol: _Symbol) -> bool:
        """Make sure that the pair at `symbol` is the only one; tell whether it was replaced."""
        if symbol.is_alone:
            return False
        known = self.pairs.get(symbol.pair)
        if known is None:
            self.pairs[symbol.pair] = symbol
            return False
        if known is symbol:
            return False
        # Two pairs of three equal symbols share one of them: that is no repetition.
        if known.next is not symbol and symbol.next is not known:
            self._match(symbol, known)
            return True
        return False

    def _match(self, new: _Symbol, known: _Symbol) -> None:
        owner = known.previous.guards
        if owner is not None and known.next.next.guards is owner:
            rule = owner
            self._substitute(new, rule)
        else:
            rule = self._new_rule()
            for value in new.pair:
                self._insert(rule.last, _Symbol(value))
            self._substitute(known, rule)
            self._substitute(new, rule)
            self.pairs[rule.first.pair] = rule.first
        for end in (rule.first, rule.last):
            if isinstance(end.value, _Rule) and end.value.uses == 1:
                self._expand(end)

    def _substitute(self, symbol: _Symbol, rule: _Rule) -> None:
        """Put a rule in the place of the pair at `symbol`."""
        before = symbol.previous
        second = symbol.next
        self._delete(symbol)
        self._delete(second)
        self._insert(before, _Symbol(rule))
        if not self._check(before):
            self._check(before.next)

    def _expand(self, symbol: _Symbol) -> None:
        """Put the symbols of a rule that is used once in the place of its use."""
        rule = symbol.value
        assert isinstance(rule, _Rule)
        left, right = symbol.previous, symbol.next
        first, last = rule.first, rule.last
        self._forget(symbol)
        self._join(left, first)
        self._join(last, right)
        if not last.is_alone:
            self.pairs[last.pair] = last
        self._check(left)


def sequitur(sequence: Iterable[Hashable]) -> Grammar:
    """Return the grammar of a sequence.

    Parameters
    ----------
    sequence
        Symbols of any kind that can be compared.

    Returns
    -------
    grammar
        Rules by number, those first that others use last; :data:`START` is the sequence.
    """
    builder = _Builder()
    for value in sequence:
        builder.add(value)
    grammar: Grammar = {}
    waiting = [builder.start]
    numbers = {id(builder.start): START}
    while waiting:
        rule = waiting.pop(0)
        written: list[Hashable] = []
        for symbol in rule:
            if isinstance(symbol.value, _Rule):
                if id(symbol.value) not in numbers:
                    numbers[id(symbol.value)] = len(numbers)
                    waiting.append(symbol.value)
                written.append(RuleUse(numbers[id(symbol.value)]))
            else:
                written.append(symbol.value)
        grammar[numbers[id(rule)]] = tuple(written)
    return grammar


def expansions(grammar: Grammar) -> dict[int, tuple[Hashable, ...]]:
    """Return the symbols of the sequence that each rule stands for."""
    known: dict[int, tuple[Hashable, ...]] = {}
    # A rule may be used by one that was met earlier: written when all that it uses is.
    waiting = list(grammar)
    while waiting:
        number = waiting.pop()
        missing = [
            each.number
            for each in grammar[number]
            if isinstance(each, RuleUse) and each.number not in known
        ]
        if missing:
            waiting += [number, *missing]
            continue
        symbols: list[Hashable] = []
        for each in grammar[number]:
            symbols += known[each.number] if isinstance(each, RuleUse) else (each,)
        known[number] = tuple(symbols)
    return known
