"""Lab pp, pipelines: its tasks, and what each is graded for."""

from typing import Final

from shardbook.labs.tasks import Criterion, Lab, Task

_PLAIN: Final = Task(
    "pp.1",
    "1F1B orders",
    "one_f_one_b",
    45,
    (
        Criterion(
            "complete and runnable",
            1.0,
            "every micro-batch goes forward and backward through every stage, and nothing waits for "
            "itself",
            "Go through the first fault: which action does it wait for, and where does that stand?",
        ),
        Criterion(
            "makespan",
            1.5,
            "no longer than one pass of the micro-batches and one filling of the pipeline",
            "When does the first backward of a stage come to it, and has it enough to do until then?",
        ),
        Criterion(
            "live micro-batches",
            1.5,
            "a stage holds no more micro-batches than there are stages from it to the end, in at most "
            "twice the shortest time",
            "How many forwards does a stage need before its first backward? The others can wait.",
        ),
        Criterion(
            "few micro-batches",
            0.5,
            "there may be fewer micro-batches than stages",
            "Which of your loops counts further than there are micro-batches?",
        ),
        Criterion(
            "one stage",
            0.5,
            "one stage is a pipeline, too",
            "Put one stage into your loops.",
        ),
    ),
)

_INTERLEAVED: Final = Task(
    "pp.2",
    "Interleaved orders",
    "interleaved",
    75,
    (
        Criterion(
            "complete and runnable",
            1.0,
            "every micro-batch goes forward and backward through every stage, each on its rank",
            "Go through the first fault: which action does it wait for, and where does that stand?",
        ),
        Criterion(
            "makespan",
            2.0,
            "no longer than one pass of the stage-chunks and one filling of the pipeline",
            "In which order do the chunks of a rank take turns, forward and backward?",
        ),
        Criterion(
            "live stage-chunks",
            1.5,
            "a rank holds no more than the text allows it, in at most twice the shortest time",
            "Count the forwards of a rank before its first backward.",
        ),
        Criterion(
            "any micro-batches",
            1.0,
            "the micro-batches need not fill the last round",
            "Think of a full last round: which of its actions does nobody need?",
        ),
        Criterion(
            "one chunk",
            0.5,
            "ranks with one stage each work, too",
            "Put one chunk into your formulas.",
        ),
    ),
)

_BEAT: Final = Task(
    "pp.3",
    "Beat 1F1B under a memory limit",
    "shortest_order",
    90,
    (
        Criterion(
            "within the limit",
            1.0,
            "every action runs, and no stage ever holds more micro-batches than allowed",
            "What must have happened before a full stage may take another forward?",
        ),
        Criterion(
            "beats 1F1B",
            1.5,
            "with as much memory as 1F1B takes, the step is shorter than 1F1B's in two parts",
            "No other stage waits for W. What is it worth doing before it, and when is a stage idle?",
        ),
        Criterion(
            "memory to spare",
            1.5,
            "with twice the memory of 1F1B, within 1 % of the lower bound",
            "What can a stage do instead of waiting, now that it may hold more?",
        ),
        Criterion(
            "memory of 1F1B",
            1.0,
            "with as much memory as 1F1B takes, within 3 % of the lower bound",
            "A forward that comes too early takes a place, and the time of something more urgent.",
        ),
        Criterion(
            "short of memory",
            1.0,
            "with less memory than 1F1B takes, within 6 % of the lower bound",
            "Which action frees memory, and what is lost while a stage waits for a free place?",
        ),
    ),
)

PP: Final = Lab("pp", "Pipelines", "pp_pipeline", (_PLAIN, _INTERLEAVED, _BEAT))
