"""CAPS: architecture and pruning are searched together, and how to prune is chosen around it.

After CoCoPIE's compiler-aware search (Li et al., 2021, NPAS): the outer choice is the algorithm
that prunes, the inner search proposes networks with the scheme and rate of each layer. Algorithms
take turns, proposal by proposal, and the one that is behind after a few gets no more of them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tvm_fusionx.search.journal import Result
from tvm_fusionx.search.pruned_spaces import (
    is_pruned,
    methods_of,
    pruned_anew,
    settled,
    unpruned,
)
from tvm_fusionx.search.reward import Reward
from tvm_fusionx.search.space import Candidate, Space
from tvm_fusionx.search.space_file import PRUNING_METHOD
from tvm_fusionx.search.surrogate import MUTATION_RATE, SurrogateStrategy

# Turns that each algorithm has before the worst of them leaves.
TURNS_EACH = 6


class CapsStrategy(SurrogateStrategy):
    """A surrogate of accuracy and latency, whose pruned networks are of algorithms in turn.

    It begins as a search for the architecture alone does, by networks without zeros. From then on
    the best so far are changed in their architecture, in the zeros of their layers, or in both, and
    what is expected to add most is trained, pruned or not. All algorithms share all results.

    Parameters
    ----------
    space
        Where it leaves ``pruning_method`` open, that is the outer choice.
    seed
        Of all that is drawn.
    reward
        What is asked for.
    encoded
        As for :class:`tvm_fusionx.search.surrogate.SurrogateStrategy`.

    Attributes
    ----------
    left
        Algorithms that still compete, in the order in which they take turns.
    """

    def __init__(
        self,
        space: Space,
        seed: int = 0,
        reward: Reward | None = None,
        encoded: Space | None = None,
    ) -> None:
        super().__init__(space, seed, reward, encoded)
        self.left: list[str] = list(methods_of(space))
        self._may_prune = unpruned(space) != space
        self._turn = 0
        self._turns_taken = 0
        self._best = dict.fromkeys(self.left, 0.0)

    def is_open(self, candidate: Candidate) -> bool:
        """Tell whether a candidate is of the algorithm whose turn it is, or of none."""
        choices = candidate["choices"]
        if not self.left or not is_pruned(candidate):
            return settled(self.space, candidate) == candidate
        return bool(choices[PRUNING_METHOD] == self.left[self._turn])

    def picked(self, candidate: Candidate) -> None:
        """Let the next algorithm have its turn: one that promises too little keeps none waiting."""
        if self.left:
            self._turn = (self._turn + 1) % len(self.left)
            self._turns_taken += 1

    def variant(self, parent: Candidate, generator: random.Random) -> Candidate:
        """Return a network whose zeros are drawn anew, or whose architecture differs, or both."""
        kind = generator.randrange(3) if self._may_prune else 0
        method = generator.choice(self.left) if self.left else ""
        child = parent if kind == 1 else self.space.mutate(parent, generator, MUTATION_RATE)
        if kind:
            child = pruned_anew(self.space, child, generator, method)
        return settled(self.space, child)

    def observe(self, results: Sequence[Result]) -> None:
        """Take what came of candidates, and let an algorithm leave when all had their turns."""
        super().observe(results)
        for each in results:
            method = each.candidate["choices"].get(PRUNING_METHOD, "")
            if method in self._best and is_pruned(each.candidate):
                self._best[method] = max(self._best[method], self.reward(each))
        if len(self.left) > 1 and self._turns_taken >= TURNS_EACH * len(self.left):
            self.left.remove(min(self.left, key=lambda each: self._best[each]))
            self._turn = self._turns_taken = 0
