"""Reference solutions of lab n48. For course staff: in no student package, on no page."""


def zero3_step(units, micro_batches):
    """n48.1"""
    program = []
    final = units - 1
    for _ in range(micro_batches):
        program.append("load")
        for unit in range(units):
            program += [f"unshard {unit}", f"forward {unit}"]
            if unit != final:
                program.append(f"reshard {unit}")
        program.append("loss")
        for unit in range(final, -1, -1):
            if unit != final:
                program.append(f"unshard {unit}")
            program += [f"backward {unit}", f"reduce-scatter {unit}"]
            program += [f"keep-shard {unit}", f"reshard {unit}"]
    program += [f"update {unit}" for unit in range(units)]
    return [*program, "clear"]


def reshard_copies(units, old, new):
    """n48.2"""
    copies = []
    for unit, size in enumerate(units):
        old_piece, new_piece = -(-size // old), -(-size // new)
        element = 0
        while element < size:
            source, start = divmod(element, old_piece)
            target, place = divmod(element, new_piece)
            length = min(old_piece - start, new_piece - place, size - element)
            copies.append((unit, source, start, target, place, length))
            element += length
    return copies


def first_fault(steps):
    """n48.3"""
    tolerated = 0.02
    for number, step in enumerate(steps):
        ranks = range(len(step["before"]))
        if number > 0:
            rested = steps[number - 1]["after"]
            for rank in ranks:
                if step["before"][rank] != rested[rank]:
                    return number, rank, "storage"
        readers = {}
        for rank in ranks:
            for batch in step["batches"][rank]:
                if readers.setdefault(batch, rank) != rank:
                    return number, rank, "data"
        copies = [tuple(checksums) for checksums in step["weights"]]
        accepted = max(copies, key=copies.count)
        for rank in ranks:
            if copies[rank] != accepted:
                return number, rank, "weights"
        if step["skipped"]:
            continue
        for rank in ranks:
            if step["distances"][rank] > tolerated * step["norm"]:
                return number, rank, "gradient"
    return None
