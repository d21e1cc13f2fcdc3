from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tvm_fusionx.search.sequitur import START, Grammar, RuleUse, expansions, sequitur


def _pairs(grammar: Grammar) -> Counter[object]:
    """Count pairs in all rules; those of a run of equal symbols share symbols: every second one."""
    counted: Counter[object] = Counter()
    for body in grammar.values():
        place = 0
        while place + 1 < len(body):
            counted[body[place], body[place + 1]] += 1
            in_run = body[place : place + 3] == (body[place],) * 3
            place += 2 if in_run else 1
    return counted


SEQUENCES = st.one_of(
    st.text("ab", max_size=60), st.text("abc", max_size=80), st.lists(st.integers(0, 6))
)


@settings(max_examples=300)
@given(SEQUENCES)
@example("aaaa")
@example("abcdbcabcdbc")
@example("aabaaab")
@example("abbbabcbb")
def test_the_two_invariants_hold(sequence: str | list[int]) -> None:
    grammar = sequitur(sequence)
    assert expansions(grammar)[START] == tuple(sequence)
    # Digram uniqueness.
    assert not [pair for pair, count in _pairs(grammar).items() if count > 1]
    # Rule utility.
    used = Counter(
        each.number for body in grammar.values() for each in body if isinstance(each, RuleUse)
    )
    for number, body in grammar.items():
        assert number == START or (used[number] >= 2 and len(body) >= 2)


def test_the_example_of_the_paper() -> None:
    # Nevill-Manning and Witten, figure 1 (b): a rule inside of a rule.
    grammar = sequitur("abcdbcabcdbc")
    assert len(grammar) == 3
    found = {"".join(map(str, symbols)) for symbols in expansions(grammar).values()}
    assert found == {"abcdbcabcdbc", "abcdbc", "bc"}


def test_the_work_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    from tvm_fusionx.search import sequitur as module

    builder = module._Builder
    counted = Counter[str]()
    for name in ("_join", "_check", "_match", "_expand"):
        original = getattr(builder, name)

        def wrapped(self, *args, name=name, original=original):  # type: ignore[no-untyped-def]
            counted[name] += 1
            return original(self, *args)

        monkeypatch.setattr(builder, name, wrapped)

    def work(length: int) -> int:
        counted.clear()
        sequitur([(place * place) % 11 for place in range(length)])
        return sum(counted.values())

    assert work(4000) < 2.5 * work(2000)


def test_nothing_and_one() -> None:
    assert sequitur([]) == {START: ()}
    assert sequitur(["a"]) == {START: ("a",)}
