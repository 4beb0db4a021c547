"""Lab n48, shards: its tasks, and what each is graded for."""

from typing import Final

from shardbook.labs.tasks import Criterion, Lab, Task

_STEP: Final = Task(
    "n48.1",
    "One ZeRO-3 step as a program",
    "zero3_step",
    80,
    (
        Criterion(
            "result",
            2.0,
            "the step updates every unit once, by the joint batch's mean gradient",
            "Which actions come once a micro-batch, and which once a step?",
        ),
        Criterion(
            "peak",
            1.5,
            "a rank never holds more bytes than the step needs",
            "Follow the bytes action by action: what could have been freed before the peak?",
        ),
        Criterion(
            "bytes sent",
            1.5,
            "a rank sends no more bytes than the step needs with this peak",
            "Which unit's full weights are there already when backward needs them?",
        ),
        Criterion(
            "nothing left",
            1.0,
            "after the step a rank holds what it held before it, and nothing else",
            "The next step runs the same program. What would be in its way?",
        ),
    ),
)

_RESHARD: Final = Task(
    "n48.2",
    "Reshard a checkpoint",
    "reshard_copies",
    60,
    (
        Criterion(
            "more ranks",
            1.0,
            "every element gets to its place when the ranks become more",
            "One old shard may serve many new ones.",
        ),
        Criterion(
            "fewer ranks",
            1.0,
            "every element gets to its place when the ranks become fewer",
            "One new shard may need many old ones.",
        ),
        Criterion(
            "uneven units",
            1.0,
            "a unit that the ranks don't divide keeps all its elements",
            "Old and new shards have paddings of their own; where does the unit really end?",
        ),
        Criterion(
            "each element once",
            1.0,
            "every element is copied once, and padding not at all",
            "Padding means nothing: it has no place in the new shards.",
        ),
        Criterion(
            "few copies",
            1.0,
            "elements that stay side by side travel in one copy",
            "A copy ends where an old shard ends or a new one does.",
        ),
    ),
)

_DETECT: Final = Task(
    "n48.3",
    "A detector for silent faults",
    "first_fault",
    75,
    (
        Criterion(
            "data",
            1.0,
            "a batch that two ranks have read is found, and who read it again",
            "Compare all ranks of a step with one another, all their micro-batches.",
        ),
        Criterion(
            "weights",
            1.0,
            "a rank whose weights are not those of most ranks is found",
            "Rank 0 may be the one that is wrong.",
        ),
        Criterion(
            "storage",
            1.0,
            "states that changed between two steps are found",
            "Which two checksums must be equal, and in which step is the change first seen?",
        ),
        Criterion(
            "gradient",
            1.0,
            "a gradient that is not the joint batch's is found, on whatever rank",
            "How far from the joint gradient is too far, and does it go for one rank only?",
        ),
        Criterion(
            "first",
            1.0,
            "of several broken rules the first one is told",
            "What breaks later may be a consequence. Go through the steps in their order.",
        ),
        Criterion(
            "no false alarm",
            1.0,
            "nothing is found in a healthy run",
            "Rounding is no fault, and a skipped step uses no gradient.",
        ),
    ),
)

N48: Final = Lab("n48", "Shards", "n48_shards", (_STEP, _RESHARD, _DETECT))
