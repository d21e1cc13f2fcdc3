"""CAPS: architecture and pruning are searched together, and how to prune is chosen around it.

After CoCoPIE's compiler-aware search (Li et al., 2021, NPAS): the outer choice is the algorithm
that prunes, the inner search proposes networks with the scheme and rate of each layer. Algorithms
compete for batches, and the one that is behind after a few rounds gets no more of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_fusionx.search.journal import Result
from tvm_fusionx.search.reward import Reward
from tvm_fusionx.search.space import Candidate, Choice, Space
from tvm_fusionx.search.space_file import PRUNING_METHOD
from tvm_fusionx.search.surrogate import SurrogateStrategy

# Batches that each algorithm gets before the worst of them leaves.
ROUNDS = 3


class CapsStrategy:
    """Batches of one pruning algorithm each; inside, a surrogate of accuracy and latency.

    All algorithms learn from the results of all: the surrogate has the algorithm as a decision.

    Parameters
    ----------
    space
        Where it leaves ``pruning_method`` open, that is the outer choice; without it there is one
        inner search.
    seed
        Of all that is drawn.
    reward
        What is asked for.

    Attributes
    ----------
    left
        Algorithms that still compete, in the order in which they take turns.
    """

    def __init__(self, space: Space, seed: int = 0, reward: Reward | None = None) -> None:
        self.reward = reward or Reward()
        methods = _methods(space)
        self.left: list[str] = list(methods) or [""]
        self._inner = {
            method: SurrogateStrategy(_only(space, method), seed + place, self.reward, space)
            for place, method in enumerate(self.left)
        }
        self._best = dict.fromkeys(self.left, 0.0)
        self._turn = 0
        self._rounds = 0

    def ask(self, count: int) -> list[Candidate]:
        """Return so many candidates of the algorithm whose turn it is."""
        return self._inner[self.left[self._turn]].ask(count)

    def tell(self, rewards: Sequence[float]) -> None:
        """Take rewards, and let the algorithm that is behind leave when all had their rounds."""
        method = self.left[self._turn]
        self._best[method] = max([self._best[method], *rewards])
        self._turn += 1
        if self._turn < len(self.left):
            return
        self._turn = 0
        self._rounds += 1
        if self._rounds % ROUNDS == 0 and len(self.left) > 1:
            self.left.remove(min(self.left, key=lambda each: self._best[each]))

    def observe(self, results: Sequence[Result]) -> None:
        """Take what came of candidates."""
        for inner in self._inner.values():
            inner.observe(results)


def _methods(space: Space) -> tuple[str, ...]:
    found = [
        item.options
        for item in space.items
        if isinstance(item, Choice) and item.name == PRUNING_METHOD
    ]
    return tuple(map(str, found[0])) if found else ()


def _only(space: Space, method: str) -> Space:
    others = [each for each in _methods(space) if each != method]
    return space.without(PRUNING_METHOD, others) if others else space
