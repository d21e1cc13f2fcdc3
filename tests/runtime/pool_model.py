"""The pool's protocol as a state machine, and an explorer of all its interleavings.

Every step is one access of shared memory, as ``tvm_fusionx/runtime/pool/pool.cc`` makes them, under
sequential consistency; weaker orders are the thread sanitizer's to find. Callers launch jobs,
workers take shares and sleep, and at the end somebody stops the pool. A state says where each
thread is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

ASLEEP = 1 << 8  # kCallerSleeps
MISTAKES = (
    "reads the fields before it takes a share",
    "looks for sleepers before it rings",
    "remembers the bell after its last look",
    "waits for no share that others have begun",
    "sleeps whatever was counted meanwhile",
)


@dataclass(frozen=True)
class Thread:
    """Where one thread is, and what it holds."""

    at: str
    seen: int = 0  # what it read of the bell, or of what is finished
    left: int = 0  # what it read of the shares
    share: int = -1
    job: int = -1  # the job whose fields it read
    own: int = 0  # shares that a caller ran itself
    todo: tuple[int, ...] = ()  # shares of each job that a caller has still to launch


@dataclass(frozen=True)
class State:
    """All that is shared, and all threads: callers, then workers, then who stops the pool."""

    threads: tuple[Thread, ...]
    done: tuple[tuple[int, int], ...] = ()  # (job, share) that ran, in order of their numbers
    unclaimed: int = 0
    finished: int = 0
    bell: int = 0
    sleepers: int = 0
    slot: int = 0
    job: int = -1
    shares: int = 0
    jobs: int = 0
    wanted: int = 1


Move = Callable[..., State]
"""Returns the state after a step: where the thread is then, what is shared, what it holds."""


class BrokenError(AssertionError):
    """The protocol does what it must not."""


def explore(jobs: tuple[tuple[int, ...], ...], workers: int, mistake: str | None = None) -> int:
    """Visit every state that callers with these jobs, and so many workers, can come to.

    Returns
    -------
    int
        The number of states. :class:`BrokenError` is raised for the first that is wrong: a share
        that runs twice or not at all, fields that change under a reader, a thread that waits for
        ever.
    """
    threads = [Thread("launch", todo=each) for each in jobs]
    threads += [Thread("begin") for _ in range(workers)]
    first = State((*threads, Thread("stop")))
    known, stack = {first}, [first]
    while stack:
        state = stack.pop()
        following = [
            each
            for number in range(len(state.threads))
            for each in _steps(state, number, len(jobs), mistake)
        ]
        if not following and any(thread.at != "ended" for thread in state.threads):
            raise BrokenError(f"waits for ever: {[thread.at for thread in state.threads]}")
        for each in following:
            if each not in known:
                known.add(each)
                stack.append(each)
    return len(known)


def _steps(state: State, number: int, callers: int, mistake: str | None) -> Iterator[State]:
    me = state.threads[number]

    def to(at: str, shared: State = state, **held: object) -> State:
        changed = list(shared.threads)
        changed[number] = replace(me, at=at, **held)
        return replace(shared, threads=tuple(changed))

    if number < callers:
        yield from _caller(state, me, to, mistake)
    elif number < len(state.threads) - 1:
        yield from _worker(state, me, to, mistake)
    elif me.at == "stop" and all(each.at == "ended" for each in state.threads[:callers]):
        early = mistake == MISTAKES[1]
        yield to("look early" if early else "ring", replace(state, wanted=0))
    elif me.at == "look early":
        yield to("ring", seen=state.sleepers)
    elif me.at == "ring":
        yield to("wake", replace(state, bell=state.bell + 1))
    elif me.at == "wake":
        sleepers = me.seen if mistake == MISTAKES[1] else state.sleepers
        yield to("join", _woken(state, "asleep", "awake") if sleepers else state)
    elif me.at == "join" and all(each.at == "ended" for each in state.threads[callers:-1]):
        yield to("ended")


def _caller(state: State, me: Thread, to: Move, mistake: str | None) -> Iterator[State]:
    at = me.at
    if at == "launch":
        if not me.todo:
            yield to("ended")
        elif state.slot:  # it runs its tasks itself
            yield to("launch", todo=me.todo[1:])
        else:
            yield to("write", replace(state, slot=1))
    elif at == "write":
        if any(each.job == state.job >= 0 for each in state.threads if each is not me):
            raise BrokenError("fields change under a reader")
        written = replace(
            state, job=state.jobs, jobs=state.jobs + 1, shares=me.todo[0], finished=0, done=()
        )
        yield to("publish", written, own=0)
    elif at == "publish":
        yield to("ring", replace(state, unclaimed=(1 << state.shares) - 2))
    elif at == "ring":
        yield to("look for sleepers", replace(state, bell=state.bell + 1))
    elif at == "look for sleepers":
        # How many are woken is of no matter here: those left out sleep until the next ring.
        yield to("run", _woken(state, "asleep", "awake") if state.sleepers else state, share=0)
    elif at == "run":
        yield to("take", _ran(state, state.job, me.share), own=me.own + 1, share=-1)
    elif at == "take":
        yield to("swap" if state.unclaimed else "count", left=state.unclaimed)
    elif at == "swap":
        yield from _swapped(state, me, to, "run", "take", 0)
    elif at == "count":
        counted = replace(state, finished=state.finished + me.own)
        yield to("free" if mistake == MISTAKES[3] else "wait", counted)
    elif at == "wait":
        if state.finished & ~ASLEEP == state.shares:
            yield to("free")
        else:
            yield to("doze", replace(state, finished=state.finished | ASLEEP), seen=state.finished)
    elif at == "doze":
        if state.finished == me.seen | ASLEEP or mistake == MISTAKES[4]:
            yield to("dozing")
        else:
            yield to("wait")
    elif at == "free":
        if state.done != tuple((state.job, share) for share in range(state.shares)):
            raise BrokenError(f"a launch returned with {state.done}")
        yield to("launch", replace(state, slot=0), todo=me.todo[1:])


def _worker(state: State, me: Thread, to: Move, mistake: str | None) -> Iterator[State]:
    at = me.at
    if at == "begin":
        yield to("check" if state.wanted else "ended", seen=state.bell)
    elif at == "check":
        # The number that is wanted is read after the bell.
        yield to("take" if state.wanted else "ended")
    elif at == "take":
        early = state.job if mistake == MISTAKES[0] else -1
        yield to("swap" if state.unclaimed else "idle", left=state.unclaimed, job=early)
    elif at == "swap":
        yield from _swapped(state, me, to, "read", "take", 1)
    elif at == "read":
        yield to("run", job=me.job if mistake == MISTAKES[0] else state.job)
    elif at == "run":
        if me.job != state.job:
            raise BrokenError("a share runs with the fields of another job")
        yield to("count", _ran(state, me.job, me.share), job=-1, share=-1)
    elif at == "count":
        counted = replace(state, finished=state.finished + 1)
        is_last = state.finished == ASLEEP | (state.shares - 1)
        yield to("wake" if is_last else "take", counted)
    elif at == "wake":
        yield to("take", _woken(state, "dozing", "wait"))
    elif at == "idle":
        if state.unclaimed or state.bell != me.seen:
            yield to("begin")
        late = state.bell if mistake == MISTAKES[2] else me.seen
        yield to("sleep", replace(state, sleepers=state.sleepers + 1), seen=late, job=-1)
    elif at == "sleep":
        yield to("asleep" if state.bell == me.seen else "awake")
    elif at == "awake":
        yield to("begin", replace(state, sleepers=state.sleepers - 1))


def _swapped(state: State, me: Thread, to: Move, won: str, lost: str, own: int) -> Iterator[State]:
    if state.unclaimed != me.left:
        yield to(lost)
        return
    mine = [share for share in range(state.shares) if me.left >> share & 1]
    share = next((share for share in mine if share >= own), mine[0])
    yield to(won, replace(state, unclaimed=me.left & ~(1 << share)), share=share)


def _ran(state: State, job: int, share: int) -> State:
    if (job, share) in state.done:
        raise BrokenError("a share ran twice")
    return replace(state, done=tuple(sorted((*state.done, (job, share)))))


def _woken(state: State, asleep: str, awake: str) -> State:
    return replace(
        state,
        threads=tuple(
            replace(each, at=awake) if each.at == asleep else each for each in state.threads
        ),
    )
