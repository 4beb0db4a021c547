"""Reference solutions of lab pp. For course staff: in no student package, on no page."""


def one_f_one_b(stages, micro_batches):
    """pp.1"""
    order = []
    for stage in range(stages):
        ahead = min(stages - 1 - stage, micro_batches)
        actions = [f"{stage}F{number}" for number in range(ahead)]
        for number in range(micro_batches):
            if ahead + number < micro_batches:
                actions.append(f"{stage}F{ahead + number}")
            actions.append(f"{stage}B{number}")
        order.append(actions)
    return order


def interleaved(ranks, micro_batches, chunks):
    """pp.2"""
    rounds = -(-micro_batches // ranks)
    turns = [
        (chunk, cycle * ranks + offset)
        for cycle in range(rounds)
        for chunk in range(chunks)
        for offset in range(ranks)
    ]
    order = []
    for place in range(ranks):
        forwards = [("F", chunk, number) for chunk, number in turns]
        backwards = [("B", chunks - 1 - chunk, number) for chunk, number in turns]
        ahead = min((chunks - 1) * ranks + 2 * (ranks - 1 - place), len(turns))
        actions = forwards[:ahead]
        for forward, backward in zip(forwards[ahead:], backwards, strict=False):
            actions += [forward, backward]
        actions += backwards[len(turns) - ahead :]
        order.append(
            [
                f"{place + chunk * ranks}{kind}{number}"
                for kind, chunk, number in actions
                if number < micro_batches
            ]
        )
    return order


def shortest_order(stages, micro_batches, times, limit):
    """pp.3"""

    def greedy(ahead_of):
        """Each stage does what it can: I before F before W, F only so far ahead of I."""
        done = [{"F": [], "I": [], "W": []} for _ in range(stages)]
        order = [[] for _ in range(stages)]
        free_at, clock = [0] * stages, {0}

        def ready(stage, kind, now):
            mine, number = done[stage], len(done[stage][kind])
            if number == micro_batches:
                return False
            if kind == "F":
                if number - len(mine["W"]) >= limit or number - len(mine["I"]) >= ahead_of(stage):
                    return False
                sources = [done[stage - 1]["F"]] if stage else []
            elif kind == "I":
                sources = [mine["F"], *([done[stage + 1]["I"]] if stage + 1 < stages else [])]
            else:
                sources = [mine["I"]]
            return all(len(ends) > number and ends[number] <= now for ends in sources)

        while clock:
            now = min(clock)
            clock.remove(now)
            for stage in range(stages):
                if free_at[stage] > now:
                    continue
                for kind, seconds in sorted(zip("FIW", times, strict=True), key=urgency):
                    if ready(stage, kind, now):
                        order[stage].append(f"{stage}{kind}{len(done[stage][kind])}")
                        free_at[stage] = now + seconds
                        done[stage][kind].append(free_at[stage])
                        clock.add(free_at[stage])
                        break
        return max(free_at), order

    def urgency(item):
        return "IFW".index(item[0])

    depths = [
        lambda stage: limit,
        lambda stage: stages - stage,
        lambda stage: stages - stage + 1,
        lambda stage: 2 * (stages - stage) - 1,
    ]
    return min((greedy(depth) for depth in depths), key=lambda made: made[0])[1]
