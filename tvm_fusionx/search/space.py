"""Search spaces as data: which decisions there are, in which order, and what each may be.

A space is a row of decisions. Some stand alone (``hidden``), some are repeated as often as an
earlier one says (``layer0.heads``, ``layer1.heads``). A sample is a dictionary of plain values, so
that everything that walks a space (chance, mutation, a controller, a tuner) makes the same walk.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tvm_fusionx.errors import SpaceError

Option = int | float | str
Choices = dict[str, Option]
Candidate = dict[str, Any]
"""``{"family": ..., "fixed": {...}, "choices": {...}}``, all of it plain JSON."""

Pick = Callable[[str, tuple[Option, ...]], Option]
"""Given a decision's name and its options, returns one of them."""

# Of SHA-256's 64 digits: a birthday among a billion candidates has a chance of 1e-20.
DIGITS = 32


@dataclass(frozen=True)
class Choice:
    """One decision.

    Attributes
    ----------
    name
        What it decides.
    options
        What it may be, in the order of the file.
    divides
        Name of an earlier decision that stands alone: only options that divide its value are valid.
    """

    name: str
    options: tuple[Option, ...]
    divides: str = ""

    def valid(self, choices: Mapping[str, Option]) -> tuple[Option, ...]:
        """Return the options that earlier decisions leave."""
        if not self.divides:
            return self.options
        whole = int(choices[self.divides])
        return tuple(option for option in self.options if whole % int(option) == 0)


@dataclass(frozen=True)
class Repeat:
    """Decisions that are taken anew for each of `count` places: ``prefix0.name``, ``prefix1.name``.

    Attributes
    ----------
    prefix
        What the places are called.
    count
        Name of the earlier decision that says how many there are.
    choices
        What is decided in each.
    """

    prefix: str
    count: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True)
class Space:
    """A family of networks and its decisions, in the order in which they are taken.

    Attributes
    ----------
    family
        The program that makes networks of the choices (:mod:`tvm_fusionx.search.networks`).
    fixed
        What is not searched: shapes of inputs, classes, strides.
    items
        The decisions.
    """

    family: str
    fixed: Mapping[str, Any]
    items: tuple[Choice | Repeat, ...] = field(default_factory=tuple)

    def walk(self, pick: Pick) -> Candidate:
        """Return the candidate that `pick` decides, asked once for each decision in order.

        Raises
        ------
        SpaceError
            Earlier decisions leave no option, or `pick` returned none of those offered.
        """
        choices: Choices = {}
        for item in self.items:
            if isinstance(item, Choice):
                _decide(item.name, item, choices, pick)
                continue
            for place in range(int(choices[item.count])):
                for choice in item.choices:
                    _decide(f"{item.prefix}{place}.{choice.name}", choice, choices, pick)
        return {
            "family": self.family,
            "fixed": json.loads(json.dumps(self.fixed)),
            "choices": choices,
        }

    def sample(self, generator: random.Random) -> Candidate:
        """Return a candidate, each decision uniform over what is valid there."""
        return self.walk(lambda _, options: generator.choice(options))

    def mutate(
        self, candidate: Mapping[str, Any], generator: random.Random, rate: float = 0.0
    ) -> Candidate:
        """Return another candidate near `candidate`: one decision is changed, more at random.

        Decisions that the change makes possible are taken at random; those it makes invalid too.

        Parameters
        ----------
        rate
            Chance of every further decision to be changed.

        Raises
        ------
        SpaceError
            `candidate` is not of this space, or the space has only one.
        """
        self.check(candidate)
        before = candidate["choices"]
        open_names = [name for name, options in self.decisions(candidate) if len(options) > 1]
        if not open_names:
            raise SpaceError(
                "mutation",
                expected="a space of more than one candidate",
                found="one candidate",
                next_step="Give a decision of the space more options.",
            )
        chosen = generator.choice(open_names)

        def pick(name: str, options: tuple[Option, ...]) -> Option:
            known = before.get(name)
            is_changed = name == chosen or (rate > 0 and generator.random() < rate)
            others = tuple(option for option in options if option != known)
            if known in options and not (is_changed and others):
                return options[options.index(known)]
            return generator.choice(others or options)

        return self.walk(pick)

    def check(self, candidate: Mapping[str, Any]) -> None:
        """Raise SpaceError where `candidate` is not one of this space."""
        choices = candidate.get("choices")
        if not isinstance(choices, Mapping):
            raise _foreign("choices", "a dictionary", repr(choices)[:60])
        for name, expected in (("family", self.family), ("fixed", dict(self.fixed))):
            if candidate.get(name) != expected:
                raise _foreign(name, repr(expected), repr(candidate.get(name)))

        def pick(name: str, options: tuple[Option, ...]) -> Option:
            if name not in choices:
                raise _foreign(name, f"one of {list(options)}", "nothing")
            return choices[name]

        walked = self.walk(pick)["choices"]
        further = sorted(set(choices) - set(walked))
        if further:
            raise _foreign(further[0], "no such decision here", repr(choices[further[0]]))

    def decisions(self, candidate: Mapping[str, Any]) -> list[tuple[str, tuple[Option, ...]]]:
        """Return the name and options of every decision on the way to `candidate`."""
        asked: list[tuple[str, tuple[Option, ...]]] = []

        def pick(name: str, options: tuple[Option, ...]) -> Option:
            asked.append((name, options))
            return candidate["choices"][name]

        self.walk(pick)
        return asked

    def size(self) -> int:
        """Return how many candidates there are."""
        alone = [item for item in self.items if isinstance(item, Choice)]
        repeats = [item for item in self.items if isinstance(item, Repeat)]
        # What later decisions ask for must be known; all others only multiply.
        asked = {item.count for item in repeats}
        asked |= {choice.divides for item in repeats for choice in item.choices if choice.divides}
        asked |= {choice.divides for choice in alone if choice.divides}

        def count(position: int, known: Choices) -> int:
            if position == len(alone):
                total = 1
                for item in repeats:
                    place = 1
                    for choice in item.choices:
                        place *= len(choice.valid(known))
                    total *= place ** int(known[item.count])
                return total
            choice = alone[position]
            options = choice.valid(known)
            if choice.name not in asked:
                return len(options) * count(position + 1, known)
            return sum(count(position + 1, {**known, choice.name: each}) for each in options)

        return count(0, {})

    def every(self) -> Iterator[Candidate]:
        """Yield every candidate, in the order of the options; for spaces that are small."""
        # Counts up like a mileage counter whose wheels are found on the way.
        wheels: list[int] = []
        while True:
            sizes: list[int] = []

            def pick(name: str, options: tuple[Option, ...], sizes: list[int] = sizes) -> Option:
                place = len(sizes)
                sizes.append(len(options))
                if place == len(wheels):
                    wheels.append(0)
                return options[wheels[place]]

            yield self.walk(pick)
            del wheels[len(sizes) :]
            while wheels and wheels[-1] + 1 == sizes[len(wheels) - 1]:
                wheels.pop()
            if not wheels:
                return
            wheels[-1] += 1

    def digest(self) -> str:
        """Return a name for the space: equal for equal decisions."""
        items = [
            [item.name, list(item.options), item.divides]
            if isinstance(item, Choice)
            else [
                item.prefix,
                item.count,
                [[each.name, list(each.options), each.divides] for each in item.choices],
            ]
            for item in self.items
        ]
        return _digest([self.family, dict(self.fixed), items])

    def without(self, name: str, options: Sequence[Option]) -> Space:
        """Return the space in which no decision called `name` may be one of `options`.

        Raises
        ------
        SpaceError
            Nothing would be left to decide.
        """

        def fewer(choice: Choice) -> Choice:
            if choice.name.rpartition(".")[2] != name:
                return choice
            left = tuple(option for option in choice.options if option not in options)
            if not left:
                raise SpaceError(
                    f"search space, {choice.name}",
                    expected="an option that is left",
                    found=f"all of {list(choice.options)} taken out",
                    next_step="Keep one of them.",
                )
            return replace(choice, options=left)

        items = tuple(
            fewer(item)
            if isinstance(item, Choice)
            else replace(item, choices=tuple(map(fewer, item.choices)))
            for item in self.items
        )
        return replace(self, items=items)

    def pinned(self, candidate: Mapping[str, Any], is_open: Callable[[str], bool]) -> Space:
        """Return the part of the space in which all is as in `candidate` but what `is_open`.

        Its candidates are of this space too. What says how often others are repeated stays.

        Raises
        ------
        SpaceError
            `candidate` is not of this space.
        """
        self.check(candidate)
        counts = {item.count for item in self.items if isinstance(item, Repeat)}
        items = tuple(
            Choice(name, options if free else (candidate["choices"][name],))
            for name, options in self.decisions(candidate)
            for free in [is_open(name) and name not in counts]
        )
        return replace(self, items=items)


def candidate_key(candidate: Mapping[str, Any]) -> str:
    """Return the canonical key of a candidate: equal for equal networks of one family."""
    return _digest([candidate["family"], candidate["fixed"], candidate["choices"]])


def candidate_text(candidate: Mapping[str, Any]) -> str:
    """Return a candidate in a line for people."""
    choices = candidate["choices"]
    return f"{candidate['family']} " + " ".join(f"{name}={choices[name]}" for name in choices)


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _decide(name: str, choice: Choice, choices: Choices, pick: Pick) -> None:
    options = choice.valid(choices)
    if not options:
        raise SpaceError(
            f"search space, {name}",
            expected=f"an option that divides {choice.divides}={choices[choice.divides]}",
            found=f"{list(choice.options)}",
            next_step="Give it one, or take the other option out.",
        )
    found = pick(name, options)
    if found not in options:
        raise _foreign(name, f"one of {list(options)}", repr(found))
    choices[name] = found


def _foreign(name: str, expected: str, found: str) -> SpaceError:
    return SpaceError(
        f"candidate, {name}",
        expected=expected,
        found=found,
        next_step="Give a candidate of this space: `space.sample` makes some.",
    )
