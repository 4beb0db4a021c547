"""Lab n47, units and overlap: its tasks, and what each is graded for."""

from typing import Final

from shardbook.labs.tasks import Criterion, Lab, Task

_LAYOUT: Final = Task(
    "n47.1",
    "The flat parameter",
    "flat_layout",
    40,
    (
        Criterion(
            "offsets",
            1.0,
            "each tensor begins where the one before it ends",
            "Lay the tensors end to end: where does the next one begin?",
        ),
        Criterion(
            "shard and padding",
            1.0,
            "all ranks store equally many elements, and the padding is as short as it can be",
            "How many elements must be added until the ranks divide them?",
        ),
        Criterion(
            "sizes that divide",
            1.0,
            "without padding, each rank has the right part of the right tensors",
            "A tensor may go over a border between ranks, or over several. When is no padding needed?",
        ),
        Criterion(
            "sizes that don't",
            1.0,
            "with padding, each rank has the right part of the right tensors",
            "Where is the border between two ranks, counted from the beginning of the flat parameter?",
        ),
        Criterion(
            "nothing to store",
            1.0,
            "a tensor without elements is on no rank, and a rank of padding only has no piece",
            "Try more ranks than elements, and a tensor of size 0.",
        ),
    ),
)

_BUCKETS: Final = Task(
    "n47.2",
    "Gradient buckets",
    "gradient_buckets",
    40,
    (
        Criterion(
            "order",
            1.0,
            "layers come in the order in which the backward makes their gradients",
            "Which layer's gradient is there first?",
        ),
        Criterion(
            "capacity",
            1.0,
            "a bucket is closed by the gradient that fills it",
            "Is the gradient that reaches the capacity in this bucket or in the next?",
        ),
        Criterion(
            "first bucket",
            0.5,
            "the first bucket has a capacity of its own",
            "Which capacity closes the first bucket, and which the others?",
        ),
        Criterion(
            "last bucket",
            0.5,
            "what is left at the end is a bucket, too",
            "What happens to gradients that fill no bucket?",
        ),
        Criterion(
            "end of the step",
            2.0,
            "the end that is reported is that of the buckets that are reported",
            "A bucket waits for its last gradient, and for the bucket before it.",
        ),
    ),
)

_PREFETCH: Final = Task(
    "n47.3",
    "A prefetch policy",
    "issue_order",
    50,
    (
        Criterion(
            "runs",
            1.0,
            "every unit goes forward and backward with its parameters, and its gradient is reduced",
            "Go through the first fault: what must have been issued before this action?",
        ),
        Criterion(
            "buffers",
            1.0,
            "no gather is issued without a free buffer, even if there is one only",
            "Count at each gather: which units are gathered and will still be used?",
        ),
        Criterion(
            "gathers",
            1.0,
            "no unit is gathered that could have been kept",
            "When the forward ends, which units does the backward need first?",
        ),
        Criterion(
            "two buffers",
            1.0,
            "with two buffers and quick gathers, the step is as short as any",
            "While a unit computes, the other buffer can be filled.",
        ),
        Criterion(
            "more buffers",
            1.0,
            "with more buffers and slow gathers, the step is as short as any",
            "A buffer is free again. What is the first thing to issue?",
        ),
    ),
)

_LIMITER: Final = Task(
    "n47.4",
    "A rate limiter",
    "rate_limit",
    45,
    (
        Criterion(
            "buffers",
            1.5,
            "at no time are more units allocated than the limit allows",
            "What is allocated when the host issues a gather, and what is surely free by then?",
        ),
        Criterion(
            "no longer than needed",
            1.5,
            "the step takes no longer than the limit makes it",
            "Of all ends that would free enough, which comes first?",
        ),
        Criterion(
            "enough memory",
            1.0,
            "where the limit is never reached, the program stays as it is",
            "Does your limiter wait although there is room?",
        ),
        Criterion(
            "too small a limit",
            1.0,
            "a limit that this program can't keep is told by None, and only such a limit",
            "A host can only wait for what it has issued.",
        ),
    ),
)

_PEAK: Final = Task(
    "n47.5",
    "Predict the peak",
    "memory_of_step",
    40,
    (
        Criterion(
            "steady",
            1.0,
            "the bytes that are there between steps, each unit padded on its own",
            "What does one rank keep of a unit whose size the ranks don't divide?",
        ),
        Criterion(
            "forward",
            1.0,
            "the bytes on top during each forward",
            "Which activations are there when a unit's forward ends?",
        ),
        Criterion(
            "backward",
            1.5,
            "the bytes on top during each backward",
            "List the gradients in it: being made, being reduced, already reduced.",
        ),
        Criterion(
            "prefetch",
            1.0,
            "with prefetch, the next unit's parameters are there, too",
            "Which unit comes next, in the forward and in the backward, and is there one?",
        ),
        Criterion(
            "peak",
            0.5,
            "the peak is the first action with the most bytes of those reported",
            "Compare your own numbers.",
        ),
    ),
)

N47: Final = Lab(
    "n47", "Units and overlap", "n47_units", (_LAYOUT, _BUCKETS, _PREFETCH, _LIMITER, _PEAK)
)
