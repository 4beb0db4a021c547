"""Lab n46, replicas: its tasks, and what each is graded for."""

from typing import Final

from shardbook.labs.tasks import Criterion, Lab, Task

_SCATTER: Final = Task(
    "n46.1",
    "A ring reduce-scatter as a plan",
    "reduce_scatter_plan",
    50,
    (
        Criterion(
            "whole sums",
            1.5,
            "each chunk ends at its owner with every rank's contribution exactly once",
            "Follow one chunk: where must it start so that it comes to its owner last?",
        ),
        Criterion(
            "rounds",
            1.0,
            "all ranks send at once, so that it takes as few rounds as a ring can",
            "How many hops does a chunk make? All chunks may make theirs at the same time.",
        ),
        Criterion(
            "neighbours",
            0.5,
            "every transfer goes to the next rank of the ring",
            "A ring's rank knows one rank to send to and one to receive from.",
        ),
        Criterion(
            "traffic",
            1.0,
            "each rank sends the bytes that the result needs, and no more",
            "Which chunk does a rank never have to send on?",
        ),
        Criterion(
            "any ring",
            0.5,
            "the ring has the ranks it is given, in their order",
            "The list names the ranks; their places in it are another thing.",
        ),
        Criterion(
            "one rank",
            0.5,
            "a rank that is alone has nothing to send",
            "Put a ring of one rank into your loops.",
        ),
    ),
)

_GATHER: Final = Task(
    "n46.2",
    "A ring all-gather as a plan",
    "all_gather_plan",
    25,
    (
        Criterion(
            "whole copies",
            1.0,
            "every rank ends with every chunk",
            "In each round a rank can only pass on what it held when the round began.",
        ),
        Criterion(
            "rounds",
            0.5,
            "all ranks send at once, so that it takes as few rounds as a ring can",
            "How far is the farthest rank from a chunk's owner?",
        ),
        Criterion(
            "neighbours",
            0.5,
            "every transfer goes to the next rank of the ring",
            "A ring's rank knows one rank to send to and one to receive from.",
        ),
        Criterion(
            "traffic",
            0.5,
            "each rank receives the bytes that it lacks once, and no others",
            "Which chunk need nobody send to a rank?",
        ),
        Criterion(
            "any ring",
            0.25,
            "the ring has the ranks it is given, in their order",
            "The list names the ranks; their places in it are another thing.",
        ),
        Criterion(
            "one rank",
            0.25,
            "a rank that is alone has nothing to send",
            "Put a ring of one rank into your loops.",
        ),
    ),
)

_FACTORS: Final = Task(
    "n46.3",
    "Token-weighted averaging",
    "loss_factors",
    40,
    (
        Criterion(
            "unequal ranks",
            1.5,
            "with unequal tokens on the ranks the result is the mean over all tokens",
            "What does the averaging over the ranks divide by, and what should it be?",
        ),
        Criterion(
            "accumulation",
            1.0,
            "with unequal micro-batches on a rank the result is the mean over all tokens",
            "Two micro-batches of one rank need not weigh the same.",
        ),
        Criterion(
            "no tokens",
            0.5,
            "a micro-batch without tokens counts for nothing, even if no rank has any",
            "What does your function do when all counts are zero?",
        ),
    ),
)

_COST: Final = Task(
    "n46.4",
    "What a ring costs",
    "ring_cost",
    40,
    (
        Criterion(
            "rounds",
            0.5,
            "the number of rounds of each collective",
            "An all-reduce is the two others, one after the other.",
        ),
        Criterion(
            "bytes sent",
            1.5,
            "the bytes each rank sends, whatever the sizes of the chunks",
            "List for one rank which chunks it sends; which one is not among them?",
        ),
        Criterion(
            "seconds",
            1.0,
            "a round lasts as long as its slowest transfer",
            "All chunks are on their way in every round. Which one does the round wait for?",
        ),
        Criterion(
            "bus bandwidth",
            0.5,
            "the bus bandwidth as nccl-tests reports it",
            "A ring on links without latency shows the bandwidth of a link.",
        ),
        Criterion(
            "one rank",
            0.5,
            "a rank that is alone sends nothing in no time, and has no bandwidth",
            "Put one chunk into your formulas.",
        ),
    ),
)

_PIECES: Final = Task(
    "n46.5",
    "A broadcast in pieces",
    "best_pieces",
    45,
    (
        Criterion(
            "time",
            1.0,
            "the seconds that are reported are those of the pieces that are reported",
            "When has the first piece come to the last rank? And the last piece?",
        ),
        Criterion(
            "fastest",
            1.0,
            "no other number of pieces is faster",
            "Try the whole numbers on either side of what your formula says.",
        ),
        Criterion(
            "limit",
            0.5,
            "there are no more pieces than allowed",
            "The best number may lie beyond the limit.",
        ),
        Criterion(
            "no latency",
            0.5,
            "rounds that cost no latency are as many as allowed",
            "Put a latency of zero into your formula.",
        ),
        Criterion(
            "many pieces",
            1.0,
            "a search among very many numbers of pieces ends in time",
            "The time falls, then rises: which search may use that?",
        ),
    ),
)

N46: Final = Lab("n46", "Replicas", "n46_replicas", (_SCATTER, _GATHER, _FACTORS, _COST, _PIECES))
