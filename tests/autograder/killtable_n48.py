"""Wrong and right answers to lab n48."""

from collections import Counter

from shardgrade.checkout import reference

from shardbook.labs.registry import TASKS
from shardbook.training.checks import distinct_data
from shardbook.training.programs import Options, program
from shardbook.training.strategies import strategy

_STEP, _RESHARD, _DETECT = (reference(TASKS[f"n48.{i}"]) for i in (1, 2, 3))


def edited(change):
    """The reference's program, changed action by action: a list takes an action's place."""

    def answer(units, micro_batches):
        actions = []
        for action in _STEP(units, micro_batches):
            kind, _, unit = action.partition(" ")
            actions += change(action, kind, int(unit) if unit else None, units)
        return actions

    return answer


def without(kind):
    return edited(lambda action, k, unit, units: [] if k == kind else [action])


def replaced(kind, *actions):
    return edited(
        lambda action, k, unit, units: (
            [a.format(unit=unit) for a in actions] if k == kind else [action]
        )
    )


def last_gathered_twice(units, micro_batches):
    actions = []
    for action in _STEP(units, micro_batches):
        if action == "loss":
            action_before = [f"reshard {units - 1}", "loss", f"unshard {units - 1}"]
            actions += action_before
        else:
            actions.append(action)
    return actions


def gathers_once(units, micro_batches):
    """Frees a unit's full weights only after backward."""
    gathered, used, actions = set(), set(), []
    for action in _STEP(units, micro_batches):
        kind, _, unit = action.partition(" ")
        if kind == "backward":
            used.add(unit)
        if (kind == "unshard" and unit in gathered) or (kind == "reshard" and unit not in used):
            continue
        if kind == "unshard":
            gathered.add(unit)
        if kind == "reshard":
            gathered.remove(unit)
            used.remove(unit)
        actions.append(action)
    return actions


def reduces_once(units, micro_batches):
    """Keeps whole gradients until the last micro-batch."""
    seen, actions = Counter(), []
    for action in _STEP(units, micro_batches):
        if action.startswith(("reduce-scatter", "keep-shard")):
            seen[action] += 1
            if seen[action] < micro_batches:
                continue
        actions.append(action)
    return actions


def updates_each(units, micro_batches):
    one = _STEP(units, 1)
    return one * micro_batches


def first_micro_batch_only(units, micro_batches):
    return _STEP(units, 1)


def one_program(units, micro_batches):
    return _STEP(2, 1)


def engine_program(units, micro_batches):
    options = Options(micro_batches, reduce_each=True, regather_last=False)
    return [str(action) for action in program(strategy("zero3"), units, options)]


def frees_first(units, micro_batches):
    """Reduces after the full weights are freed, updates in reverse, clears at the end."""
    actions = []
    for _ in range(micro_batches):
        actions.append("load")
        for u in range(units - 1):
            actions += [f"unshard {u}", f"forward {u}", f"reshard {u}"]
        actions += [f"unshard {units - 1}", f"forward {units - 1}", "loss"]
        for u in reversed(range(units)):
            if u < units - 1:
                actions.append(f"unshard {u}")
            actions += [f"backward {u}", f"reshard {u}", f"reduce-scatter {u}", f"keep-shard {u}"]
    actions += [f"update {u}" for u in reversed(range(units))]
    actions.append("clear")
    return tuple(actions)


def copies(
    units,
    old,
    new,
    *,
    piece=lambda size, n: -(-size // n),
    real=True,
    most=None,
    most_new=None,
    full=False,
):
    """Intersects every old shard with every new one."""
    found = []
    for unit, size in enumerate(units):
        p, q = piece(size, old), piece(size, new)
        if not p or not q:
            continue
        end = size if real else min(p * old, q * new)
        end = size // q * q if full else end
        served = Counter()
        for target in range(new):
            taken = 0
            for source in range(old):
                low = max(source * p, target * q)
                high = min((source + 1) * p, (target + 1) * q, end)
                if low >= high or (most and taken == most):
                    continue
                if most_new and served[source] == most_new:
                    continue
                taken += 1
                served[source] += 1
                found.append((unit, source, low - source * p, target, low - target * q, high - low))
    return found


def copies_with(**mistakes):
    return lambda *arguments: copies(*arguments, **mistakes)


def element_by_element(units, old, new):
    return [
        (unit, source, start + i, target, place + i, 1)
        for unit, source, start, target, place, length in _RESHARD(units, old, new)
        for i in range(length)
    ]


def first_copy_twice(units, old, new):
    made = _RESHARD(units, old, new)
    return [(*made[0][:5], 1), *made]


def whole_shards_stay(units, old, new):
    """Rank r keeps what it had."""
    made = []
    for unit, size in enumerate(units):
        length = min(-(-size // old), -(-size // new))
        made += [(unit, rank, 0, rank, 0, length) for rank in range(min(old, new))]
    return made


def all_units_as_one(units, old, new):
    return [copy for copy in _RESHARD([sum(units)], old, new) if copy[-1] > 0]


def absolute_places(units, old, new):
    made = []
    for unit, source, start, target, place, length in _RESHARD(units, old, new):
        first = source * -(-units[unit] // old) + start
        made.append((unit, source, first, target, place, length))
    return made


def by_runs(units, old, new):
    """Walks over elements and closes a run where either shard ends."""
    made = []
    for unit, size in enumerate(units):
        p, q = -(-size // old), -(-size // new)
        run = None
        for element in range(size):
            here = [unit, element // p, element % p, element // q, element % q, 1]
            if run and (run[1], run[3]) == (here[1], here[3]):
                run[5] += 1
            else:
                run = here
                made.append(run)
    return made


def detect(
    steps,
    *,
    order=("storage", "data", "weights", "gradient"),
    by_kind=False,
    skip=(),
    tolerance=0.02,
    first_rank_only=False,
    honours_skipped=True,
    only_rank_0_data=False,
    same_place=False,
    against_rank_0=False,
    earlier=False,
):
    def storage(n, step):
        if n:
            for rank, was in enumerate(steps[n - 1]["after"]):
                if step["before"][rank] != was:
                    return (n - 1 if earlier else n), rank, "storage"
        return None

    def data(n, step):
        for rank, own in enumerate(step["batches"]):
            for other in range(1 if only_rank_0_data else rank):
                if rank == other:
                    continue
                theirs = step["batches"][other]
                equal = any(a == b for a, b in zip(own, theirs, strict=True))
                if equal if same_place else set(own) & set(theirs):
                    return n, rank, "data"
        return None

    def weights(n, step):
        used = step["weights"]
        right = used[0] if against_rank_0 else max(used, key=used.count)
        bad = [rank for rank, own in enumerate(used) if own != right]
        return (n, bad[0], "weights") if bad else None

    def gradient(n, step):
        if step["skipped"] and honours_skipped:
            return None
        seen = step["distances"][:1] if first_rank_only else step["distances"]
        bad = [r for r, distance in enumerate(seen) if distance > tolerance * step["norm"]]
        return (n, bad[0], "gradient") if bad else None

    rules = {"storage": storage, "data": data, "weights": weights, "gradient": gradient}
    kept = [rules[name] for name in order if name not in skip]
    numbered = list(enumerate(steps))
    if by_kind:
        found = (rule(n, step) for rule in kept for n, step in numbered)
    else:
        found = (rule(n, step) for n, step in numbered for rule in kept)
    return next((finding for finding in found if finding), None)


def detect_with(**mistakes):
    return lambda steps: detect(steps, **mistakes)


def engine_detect(steps):
    distinct_data([])
    return detect(steps)


def detect_backwards(steps):
    """Looks for the smallest of all findings, wherever they are."""
    found = []
    for n in reversed(range(len(steps))):
        step = steps[n]
        if n:
            pairs = zip(step["before"], steps[n - 1]["after"], strict=True)
            found += [(n, 0, r, "storage") for r, (now, was) in enumerate(pairs) if now != was]
        for r, own in enumerate(step["batches"]):
            before = {batch for other in step["batches"][:r] for batch in other}
            found += [(n, 1, r, "data")] * bool(before.intersection(own))
        counts = Counter(map(tuple, step["weights"]))
        right = counts.most_common(1)[0][0]
        found += [(n, 2, r, "weights") for r, w in enumerate(step["weights"]) if tuple(w) != right]
        if not step["skipped"]:
            far = enumerate(distance / step["norm"] for distance in step["distances"])
            found += [(n, 3, r, "gradient") for r, distance in far if distance > 0.02]
    if not found:
        return None
    n, _, r, rule = min(found)
    return [n, r, rule]


WRONG = {
    "n48.1": {
        "does nothing": lambda units, micro_batches: None,
        "an empty program": lambda units, micro_batches: [],
        "answers the visible example": one_program,
        "missing all-gather": without("unshard"),
        "missing reduce-scatter": without("reduce-scatter"),
        "missing update": without("update"),
        "the last unit is not updated": edited(
            lambda action, kind, unit, units: (
                [] if kind == "update" and unit == units - 1 else [action]
            )
        ),
        "updates twice": replaced("update", "update {unit}", "update {unit}"),
        "updates after each micro-batch": updates_each,
        "the first micro-batch only": first_micro_batch_only,
        "parameter for gradient": replaced("reduce-scatter", "reduce-scatter-weights {unit}"),
        "takes part but keeps its own gradient": replaced(
            "reduce-scatter", "reduce-scatter-unused {unit}"
        ),
        "all-reduce for reduce-scatter": replaced("reduce-scatter", "all-reduce {unit}"),
        "keeps the whole gradient": without("keep-shard"),
        "keeps all full weights for backward": gathers_once,
        "reduces once a step": reduces_once,
        "gathers the last unit twice": last_gathered_twice,
        "gathers before each update": replaced(
            "update", "unshard {unit}", "update {unit}", "reshard {unit}"
        ),
        "gradients are not freed": without("clear"),
        "the first unit stays gathered": edited(
            lambda action, kind, unit, units: [
                *([] if (kind, unit) == ("reshard", 0) else [action])
            ]
        ),
        "asks the engine": engine_program,
    },
    "n48.2": {
        "does nothing": lambda *arguments: None,
        "no copies": lambda *arguments: [],
        "answers the visible example": lambda *arguments: _RESHARD([10], 4, 2),
        "rank 0 only": lambda *arguments: [c for c in _RESHARD(*arguments) if c[3] == 0],
        "ranks keep what they have": whole_shards_stay,
        "places counted from the unit's start": absolute_places,
        "all units as one": all_units_as_one,
        "at most two old shards a new one": copies_with(most=2),
        "at most two new shards an old one": copies_with(most_new=2),
        "padding dropped": copies_with(piece=lambda size, n: size // n),
        "a short last shard is left out": copies_with(full=True),
        "padding copied": copies_with(real=False),
        "one element twice": first_copy_twice,
        "element by element": element_by_element,
    },
    "n48.3": {
        "does nothing": lambda steps: None,
        "answers the visible example": lambda steps: (1, 2, "data"),
        "always an alarm": lambda steps: (0, 0, "gradient"),
        "looks at no data": detect_with(skip=("data",)),
        "data against rank 0 only": detect_with(only_rank_0_data=True),
        "micro-batches in pairs only": detect_with(same_place=True),
        "looks at no weights": detect_with(skip=("weights",)),
        "weights against rank 0": detect_with(against_rank_0=True),
        "looks at no storage": detect_with(skip=("storage",)),
        "blames the step before": detect_with(earlier=True),
        "looks at no gradient": detect_with(skip=("gradient",)),
        "the gradient of rank 0 only": detect_with(first_rank_only=True),
        "the gradient first": detect_with(order=("gradient", "storage", "data", "weights")),
        "kind by kind": detect_with(by_kind=True),
        "no rounding allowed": detect_with(tolerance=0.0, by_kind=True),
        "no rounding allowed, step by step": detect_with(tolerance=0.0),
        "skipped steps too": detect_with(honours_skipped=False),
        "only half a gradient is wrong": detect_with(tolerance=0.9),
        "asks the engine": engine_detect,
    },
}

RIGHT = {
    "n48.1": {
        "frees the weights first": frees_first,
        "the reference": _STEP,
    },
    "n48.2": {
        "every old shard with every new one": copies,
        "by runs": by_runs,
        "the reference": _RESHARD,
    },
    "n48.3": {
        "rule by rule, step by step": detect,
        "the smallest of all findings": detect_backwards,
        "the reference": _DETECT,
    },
}
