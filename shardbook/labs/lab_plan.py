"""Lab plan, choosing a layout: its tasks, and what each is graded for."""

from typing import Final

from shardbook.labs.tasks import Criterion, Lab, Task

_CARD: Final = Task(
    "plan.1",
    "What a card holds",
    "card_bytes",
    40,
    (
        Criterion(
            "weights of a card",
            1.0,
            "the card's part of its layers, and of the table if its pipeline rank has one",
            "Which of tensor, context, pipeline and data leave a card with fewer weights at stage 0?",
        ),
        Criterion(
            "sharded states",
            1.5,
            "each stage shards its categories over the cards that hold the same weights",
            "Two cards with the same tensor and pipeline rank: what do they have in common?",
        ),
        Criterion(
            "kept by a layer",
            1.0,
            "activations by recomputation, split over tensor and context",
            "Go through the table of the three kinds, term by term.",
        ),
        Criterion(
            "in flight",
            1.5,
            "each pipeline rank holds as many micro-batches as 1F1B lets run ahead",
            "Draw the first backward: what has each rank run forward until then?",
        ),
        Criterion(
            "temporary",
            1.0,
            "gathered layers, a layer's gradient, a recomputed layer and the logits, where they are",
            "For each of the four: on which cards, at which stage, with which recomputation?",
        ),
    ),
)

_RINGS: Final = Task(
    "plan.2",
    "Who is with whom, and over which link",
    "rings",
    30,
    (
        Criterion(
            "groups",
            1.5,
            "the ranks of the group that this rank is in, along each axis",
            "How far apart are two neighbours of a group, and where does the group of a rank start?",
        ),
        Criterion(
            "any order",
            1.0,
            "the axes come in any order, the fastest-varying one first",
            "Does your function look at names where it should look at places?",
        ),
        Criterion(
            "leaving the node",
            1.5,
            "the transfers of one round of the group's ring that go from node to node",
            "Go once around the ring, back to its first rank, and compare nodes at each transfer.",
        ),
    ),
)

_LIMIT: Final = Task(
    "plan.3",
    "Why a layout fails",
    "first_limit",
    20,
    (
        Criterion(
            "degrees",
            1.0,
            "the degrees make up the cards, and tensor parallelism stays in a node",
            "Multiply all four degrees; a node has fewer cards than the cluster.",
        ),
        Criterion(
            "what must divide",
            1.0,
            "heads, sequence, layers and batch are each divided by the right number",
            "Which ranks share the heads, the sequence, the layers, the batch?",
        ),
        Criterion(
            "micro-batches",
            0.5,
            "a pipeline has at least as many micro-batches as ranks",
            "How many micro-batches does each replica run in a step?",
        ),
        Criterion(
            "memory",
            0.5,
            "a card may be filled to its last byte",
            "What if it is exactly full?",
        ),
        Criterion(
            "the first of several",
            1.0,
            "of several limits, the first of the list",
            "In which order do you look?",
        ),
    ),
)

_DEAL: Final = Task(
    "plan.4",
    "The batch, dealt out",
    "deal",
    15,
    (
        Criterion(
            "replicas",
            1.0,
            "micro-batch × accumulation × replicas is the batch",
            "Which cards read the same sequences?",
        ),
        Criterion(
            "enough for the pipeline",
            1.0,
            "a pipeline gets at least as many micro-batches as it has ranks",
            "A larger micro-batch leaves fewer of them.",
        ),
        Criterion(
            "the largest",
            0.5,
            "the largest micro-batch that is allowed, whatever its factors",
            "Is it always a power of two, or a divisor of the limit?",
        ),
        Criterion(
            "nothing goes",
            0.5,
            "None if the batch can't be dealt out, and only then",
            "Try a batch that the replicas do not divide.",
        ),
    ),
)

_CHOOSE: Final = Task(
    "plan.5",
    "The planner",
    "choose",
    100,
    (
        Criterion(
            "can be set up",
            1.0,
            "the layout can be set up on clusters and models of any size",
            "Put your answer through plan.3.",
        ),
        Criterion(
            "fits",
            1.5,
            "the layout fits where there is little room",
            "Compare your bytes with those that `measure` prints. What takes most here?",
        ),
        Criterion(
            "half as fast",
            1.5,
            "the step takes at most twice as long as the best one known",
            "Where is the time lost: does it compute, wait for a link, or run empty?",
        ),
        Criterion(
            "one node",
            1.5,
            "cards with fast links: at most 5 % longer than the best step known",
            "How much of what data parallelism sends is hidden, at each stage?",
        ),
        Criterion(
            "several nodes",
            2.0,
            "slow links between the nodes: at most 5 % longer than the best step known",
            "Which groups reach over the slow link, and how many bytes do they send there?",
        ),
        Criterion(
            "short of memory",
            1.5,
            "little memory: at most 5 % longer than the best step known",
            "What does each way to save memory cost in time? Which one saves what is too large?",
        ),
    ),
)

_RENT: Final = Task(
    "plan.6",
    "The cheapest rent",
    "rent",
    35,
    (
        Criterion(
            "enough memory",
            1.0,
            "the states' part and what is kept fit the cards that are rented",
            "What is sharded over all cards, and what does each card hold for itself?",
        ),
        Criterion(
            "in time",
            1.0,
            "the training ends before the deadline",
            "A low price does not help if the training is late.",
        ),
        Criterion(
            "whole hours",
            1.0,
            "every begun hour is paid on every card",
            "An hour and a minute: what is on the bill?",
        ),
        Criterion(
            "the batch divides",
            0.5,
            "every card gets as many sequences as the others",
            "How many sequences of a step does one card run?",
        ),
        Criterion(
            "no offer",
            0.5,
            "None if no offer will do, and only then",
            "What does your function return when it has no candidate?",
        ),
    ),
)

PLAN: Final = Lab(
    "plan", "Choosing a layout", "plan_choose", (_CARD, _RINGS, _LIMIT, _DEAL, _CHOOSE, _RENT)
)
