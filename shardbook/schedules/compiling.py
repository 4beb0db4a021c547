"""Compiles a program: checks it and lays it out in topological order.

See [Note: two predecessors] in `shardbook.schedules.core`.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter

from shardbook.schedules.core import Action, Allocation, Plan, Pool, checked_seconds, program_fault
from shardbook.schedules.faults import ScheduleError


def compile_plan(actions: Iterable[Action]) -> Plan:
    """Check a program and lay it out for `simulate`; linear in actions and dependencies.

    Raises `ScheduleError` for a missing producer, a deadlock, or memory taken or released twice.
    """
    program = tuple(actions)
    preds, issue_of = _predecessors(program)
    costs = checked_seconds("seconds", [action.seconds for action in program])
    costs += checked_seconds("issue", [program[at].issue for at in issue_of])
    seconds, first, second, number = lay_out(program, preds, costs, issue_of)
    count = len(program)
    issue_node = [0] * count
    for node, action_index in zip(number[count:], issue_of, strict=True):
        issue_node[action_index] = node
    return Plan(program, _pools(program), seconds, first, second, number[:count], issue_node)


def lay_out(
    program: Sequence[Action],
    preds: Sequence[Sequence[int]],
    costs: Sequence[float],
    issue_of: Sequence[int] = (),
) -> tuple[list[float], list[int], list[int], list[int]]:
    """The nodes' durations, s, and two predecessors each, and at what node each of ``preds`` is.

    ``preds``: by action, and after them by issue (of the actions ``issue_of``), what ends before it
    starts; ``costs``: in s. Raises `ScheduleError` for a deadlock.
    """
    order = _topological(preds)
    if len(order) < len(preds):
        raise _deadlock(program, preds, issue_of, set(order))
    number = [0] * len(preds)
    seconds, first, second = [0.0], [0], [0]
    for node in order:
        before = preds[node]
        if len(before) > 2:
            before = list(before)
            while len(before) > 2:
                number.append(len(seconds))
                seconds.append(0.0)
                first.append(number[before.pop()])
                second.append(number[before.pop()])
                before.append(len(number) - 1)
        number[node] = len(seconds)
        seconds.append(costs[node])
        first.append(number[before[0]] if before else 0)
        second.append(number[before[-1]] if before else 0)
    return seconds, first, second, number[: len(preds)]


def pool_of(allocations: Iterable[Allocation], *, one_stream: bool) -> Pool:
    """A pool; ``one_stream``: all that takes from it and releases to it runs on one stream."""
    held = tuple(allocations)
    if not one_stream:
        return Pool(held, None)
    changes = [(taken, False, size) for size, taken, _ in held]
    changes += [(released, True, -size) for size, _, released in held if released is not None]
    return Pool(held, tuple(sorted(changes, key=itemgetter(0, 1))))


def _predecessors(program: tuple[Action, ...]) -> tuple[list[list[int]], list[int]]:
    """Nodes that end before each node starts: actions first, then the issues that matter."""
    count = len(program)
    slow = {action.host for action in program if action.issue or action.waits}
    preds: list[list[int]] = []
    issues: list[list[int]] = []
    issue_of: list[int] = []
    tail: dict[str, int] = {}
    host_tail: dict[str, int] = {}
    for index, action in enumerate(program):
        stream = action.stream
        before = []
        if stream in tail:
            before.append(tail[stream])
        for need in action.needs:
            if not 0 <= need < count:
                raise program_fault(
                    program, index, f"it needs action {need}, which nothing produces"
                )
            # What ran earlier on the same stream has ended before the stream's last action.
            if program[need].stream != stream or need >= index:
                before.append(need)
        tail[stream] = index
        if action.host in slow:
            issue = [host_tail[action.host]] if action.host in host_tail else []
            for wait in action.waits:
                if not 0 <= wait < count:
                    raise program_fault(
                        program, index, f"its host waits for action {wait}: there is none"
                    )
                issue.append(wait)
            host_tail[action.host] = count + len(issues)
            before.append(count + len(issues))
            issues.append(issue)
            issue_of.append(index)
        preds.append(before)
    return preds + issues, issue_of


def _topological(preds: Sequence[Sequence[int]]) -> Sequence[int]:
    for node, before in enumerate(preds):
        if before and max(before) >= node:
            break
    else:
        return range(len(preds))
    followers: list[list[int]] = [[] for _ in preds]
    missing = [len(before) for before in preds]
    for node, before in enumerate(preds):
        for earlier in before:
            followers[earlier].append(node)
    order = [node for node, left in enumerate(missing) if not left]
    for node in order:
        for later in followers[node]:
            missing[later] -= 1
            if not missing[later]:
                order.append(later)
    return order


def _pools(program: tuple[Action, ...]) -> dict[str, Pool]:
    live: dict[tuple[str, str], tuple[int, int]] = {}
    allocations: dict[str, list[Allocation]] = {}
    stream: dict[str, str] = {}
    shared: set[str] = set()
    for index, action in enumerate(program):
        for buffer in action.takes:
            pool = buffer.pool
            key = (pool, buffer.name)
            if key in live:
                raise program_fault(
                    program, index, f"it takes {buffer.name}, which is taken already"
                )
            live[key] = (index, buffer.size)
            if stream.setdefault(pool, action.stream) != action.stream:
                shared.add(pool)
        for buffer in action.releases:
            pool = buffer.pool
            key = (pool, buffer.name)
            if key not in live:
                raise program_fault(
                    program, index, f"it releases {buffer.name}, which is not taken"
                )
            taken, size = live.pop(key)
            allocations.setdefault(pool, []).append((size, taken, index))
            if stream[pool] != action.stream:
                shared.add(pool)
    for (pool, _), (taken, size) in live.items():
        allocations.setdefault(pool, []).append((size, taken, None))
    return {
        pool: pool_of(held, one_stream=pool not in shared) for pool, held in allocations.items()
    }


def _deadlock(
    program: Sequence[Action],
    preds: Sequence[Sequence[int]],
    issue_of: Sequence[int],
    done: set[int],
) -> ScheduleError:
    """The circle of waiting that stops the program, told from its first action on."""
    count = len(program)
    node = next(node for node in range(len(preds)) if node not in done)
    seen: dict[int, int] = {}
    path: list[int] = []
    while node not in seen:
        seen[node] = len(path)
        path.append(node)
        node = next(before for before in preds[node] if before not in done)
    circle = path[seen[node] :]
    at = circle.index(min(circle))
    circle = circle[at:] + circle[:at]
    names = [
        program[node].name if node < count else f"issue of {program[issue_of[node - count]].name}"
        for node in [*circle, circle[0]]
    ]
    if len(circle) > 8:
        names = [*names[:7], "…", names[-1]]
    return program_fault(program, circle[0], "deadlock: it waits for itself: " + " ← ".join(names))
