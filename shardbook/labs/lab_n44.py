"""Lab n44, one update: its tasks, and what each is graded for."""

from typing import Final

from shardbook.labs.tasks import Criterion, Lab, Task

_ROUND: Final = Task(
    "n44.1",
    "Round to nearest even",
    "round_to",
    60,
    (
        Criterion(
            "nearest",
            1.5,
            "a value becomes the nearest number of the format",
            "Is the value rounded once, from all of its digits?",
        ),
        Criterion(
            "ties",
            1.0,
            "a value halfway between two numbers becomes the one with the even mantissa",
            "Write the mantissas of both neighbours in binary.",
        ),
        Criterion(
            "subnormals",
            1.0,
            "below the smallest normal number the spacing stays the same down to zero",
            "Which exponent has the spacing of the smallest normal numbers?",
        ),
        Criterion(
            "overflow",
            1.0,
            "what rounds beyond the largest number becomes infinite, and nothing else does",
            "Where would the next number be, if there were one more exponent?",
        ),
        Criterion(
            "sign",
            0.5,
            "a negative value becomes the mirror image of the positive one, zero included",
            "Zero has a sign; what rounds to it from below keeps its own.",
        ),
    ),
)

_ADAM: Final = Task(
    "n44.2",
    "Adam with master weights",
    "adam_steps",
    45,
    (
        Criterion(
            "moments",
            1.0,
            "momentum and variance are the running means of gradient and square",
            "What is kept is what is not yet corrected for its start at zero.",
        ),
        Criterion(
            "bias correction",
            1.0,
            "both means are corrected for their start at zero",
            "After the first step, how much of the gradient is in the momentum?",
        ),
        Criterion(
            "small updates add up",
            1.5,
            "updates that a working weight can't hold are not lost",
            "Which copy of the weight does the next step begin with?",
        ),
        Criterion(
            "epsilon",
            0.5,
            "epsilon is added to the root",
            "Inside the root, a small epsilon would be a large one.",
        ),
        Criterion(
            "working weights",
            1.0,
            "the working weights are the master weights in FP16",
            "They are rounded to nearest, a tie to the even mantissa.",
        ),
    ),
)

_SCALING: Final = Task(
    "n44.3",
    "Dynamic loss scaling with patience",
    "scaled_steps",
    55,
    (
        Criterion(
            "gradients",
            1.0,
            "the gradient that is used went through FP16 with the scale, and lost it again",
            "In which order do rounding, multiplying and dividing come?",
        ),
        Criterion(
            "skipped steps",
            1.0,
            "a step with any overflow is skipped whole, and no other is",
            "One element is enough; and what is the first value that becomes infinite?",
        ),
        Criterion(
            "backoff",
            1.0,
            "with patience for one, every overflow lowers the scale by the factor given",
            "The scale of a step is the one with which its gradient was made.",
        ),
        Criterion(
            "patience",
            1.0,
            "overflows within the patience leave the scale alone, all after them lower it",
            "Lowering the scale gives no patience back.",
        ),
        Criterion(
            "growth",
            1.0,
            "enough good steps in a row raise the scale, and bring the patience back",
            "What does an overflow do to the count of good steps?",
        ),
    ),
)

N44: Final = Lab("n44", "One update", "n44_numbers", (_ROUND, _ADAM, _SCALING))
