"""Compiles a program: checks it and lays it out in topological order.

See [Note: two predecessors] in `shardbook.schedules.core`.
"""

from collections.abc import Iterable, Sequence

from shardbook.schedules.core import Action, Allocation, Plan, Pool, checked_seconds, program_fault
from shardbook.schedules.faults import ScheduleError


def compile_plan(actions: Iterable[Action]) -> Plan:
    """Check a program and lay it out for `simulate`; linear in actions and dependencies.

    Raises `ScheduleError` for a missing producer, a deadlock, or memory taken or released twice.
    """
    program = tuple(actions)
    count = len(program)
    preds, issue_of = _predecessors(program)
    order = _topological(preds)
    if len(order) < len(preds):
        raise _deadlock(program, preds, set(order))
    costs = [checked_seconds("seconds", action.seconds) for action in program]
    costs += [checked_seconds("issue", program[action_index].issue) for action_index in issue_of]
    number = [0] * len(preds)
    seconds, first, second = [0.0], [0], [0]
    for node in order:
        earlier = [number[before] for before in preds[node]] or [0]
        while len(earlier) > 2:
            seconds.append(0.0)
            first.append(earlier.pop())
            second.append(earlier.pop())
            earlier.append(len(seconds) - 1)
        number[node] = len(seconds)
        seconds.append(costs[node])
        first.append(earlier[0])
        second.append(earlier[-1])
    issue_node = [0] * count
    for at, action_index in enumerate(issue_of):
        issue_node[action_index] = number[count + at]
    return Plan(program, _pools(program), seconds, first, second, number[:count], issue_node)


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


def _topological(preds: list[list[int]]) -> Sequence[int]:
    if all(not before or max(before) < node for node, before in enumerate(preds)):
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
    deltas: dict[str, list[int]] = {}
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
            deltas.setdefault(pool, []).append(buffer.size)
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
            held = Allocation(buffer.name, size, taken, index)
            allocations.setdefault(pool, []).append(held)
            deltas[pool].append(-size)
            if stream[pool] != action.stream:
                shared.add(pool)
    for (pool, name), (taken, size) in live.items():
        allocations.setdefault(pool, []).append(Allocation(name, size, taken, None))
    return {
        pool: Pool(tuple(held), None if pool in shared else tuple(deltas[pool]))
        for pool, held in allocations.items()
    }


def _deadlock(program: tuple[Action, ...], preds: list[list[int]], done: set[int]) -> ScheduleError:
    """The circle of waiting that stops the program, told from its first action on."""
    count = len(program)
    node = next(node for node in range(len(preds)) if node not in done)
    seen: dict[int, int] = {}
    path: list[int] = []
    while node not in seen:
        seen[node] = len(path)
        path.append(node)
        node = next(before for before in preds[node] if before not in done)
    circle = [node for node in path[seen[node] :] if node < count]
    at = circle.index(min(circle))
    circle = circle[at:] + circle[:at]
    names = [program[node].name for node in [*circle, circle[0]]]
    if len(circle) > 8:
        names = [*names[:7], "…", names[-1]]
    return program_fault(program, circle[0], "deadlock: it waits for itself: " + " ← ".join(names))
