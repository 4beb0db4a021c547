"""Lab offload, slower tiers: its tasks, and what each is graded for."""

from typing import Final

from shardbook.labs.tasks import Criterion, Lab, Task

_COST: Final = Task(
    "offload.1",
    "What crosses, what stays",
    "cost",
    25,
    (
        Criterion(
            "downward",
            1.0,
            "the bytes that leave the GPU in a step",
            "Which two things must hold of an edge that goes down? A pinned node is on the GPU, too.",
        ),
        Criterion(
            "upward",
            1.0,
            "the bytes that come to the GPU in a step",
            "Which two things must hold of an edge that goes up? A pinned node is on the GPU, too.",
        ),
        Criterion(
            "stored",
            1.0,
            "the bytes that the GPU stores, those of pinned nodes among them",
            "Which nodes are on the GPU although nobody chose them?",
        ),
        Criterion(
            "several edges",
            1.0,
            "there may be several edges between two nodes, and each of them counts",
            "What happens in your code when the same pair of nodes comes again?",
        ),
    ),
)

_BEST: Final = Task(
    "offload.2",
    "The best placement",
    "best_placement",
    45,
    (
        Criterion(
            "like states",
            1.0,
            "the least traffic where all states are equally large, and memory is filled to the last byte",
            "May the GPU store exactly as much as the limit says?",
        ),
        Criterion(
            "unlike states",
            1.0,
            "the least traffic where states are of different sizes",
            "The state that moves most for its size need not be in the best set.",
        ),
        Criterion(
            "linked nodes",
            1.5,
            "the least traffic where nodes exchange bytes with each other, computations among them",
            "Sometimes only several nodes together are worth their place.",
        ),
        Criterion(
            "least memory",
            0.5,
            "of the placements with the least traffic, one that stores least",
            "How do you compare two placements that cross equally much?",
        ),
        Criterion(
            "what is pinned",
            1.0,
            "pinned nodes take memory, too, and where they do not fit there is no placement",
            "What is on the GPU before you choose anything?",
        ),
    ),
)

_PROOF: Final = Task(
    "offload.3",
    "Prove it",
    "proof",
    80,
    (
        Criterion(
            "a proof",
            1.0,
            "a proof that holds, of at least one byte, also where states are far from the GPU's nodes",
            "Read which rule of a proof your flow breaks, and at which node.",
        ),
        Criterion(
            "all that flows",
            2.0,
            "as much as can flow to each state",
            "A path that was taken early may stand in the way: a later one may send its bytes back.",
        ),
        Criterion(
            "which states",
            1.5,
            "states for which the proof is as strong as possible",
            "The weakest of the states decides. Which ones can you leave out, and when no more?",
        ),
        Criterion(
            "several pinned nodes",
            1.0,
            "a flow may begin at any of the pinned nodes, and at several of them",
            "From where does your search start?",
        ),
        Criterion(
            "nothing to prove",
            0.5,
            "where everything fits, there is no proof",
            "What does the proof say if there is no set of states that does not fit?",
        ),
    ),
)

_LINKS: Final = Task(
    "offload.4",
    "How much bandwidth",
    "through_links",
    30,
    (
        Criterion(
            "one after the other",
            1.0,
            "the efficiency where compute and every link wait for each other",
            "Write down the time of the step as a sum, first.",
        ),
        Criterion(
            "side by side",
            1.0,
            "the efficiency where compute and all links go on at the same time",
            "How long does a step take if nothing waits but for the slowest?",
        ),
        Criterion(
            "the slowest",
            1.0,
            "what takes longest, be it a link or the compute",
            "A link of little bandwidth may have little to carry.",
        ),
        Criterion(
            "bandwidth needed",
            1.5,
            "the bandwidth that each link would need, the others being as they are",
            "How long may the step take at this efficiency, and what of it is left for this link?",
        ),
        Criterion(
            "never enough",
            0.5,
            "where no bandwidth of this link would do, None says so",
            "What if the other links alone take too long?",
        ),
    ),
)

_STREAM: Final = Task(
    "offload.5",
    "What to keep, and how far to read ahead",
    "stream",
    60,
    (
        Criterion(
            "runs and fits",
            1.0,
            "a plan that runs and stays within both memories, however few layers there are",
            "Read at which action which memory was too small, and what was in it.",
        ),
        Criterion(
            "as early as memory allows",
            1.5,
            "where nothing can be kept, the shortest pass there is",
            "Which layers fit into host memory beside the one to be read? For whose copy must it wait?",
        ),
        Criterion(
            "what to keep",
            2.0,
            "with up to seven layers, the shortest pass there is",
            "What does it save to keep a layer, and what does its place cost the others?",
        ),
        Criterion(
            "many layers",
            1.5,
            "with up to twenty layers, at most 3 % longer than the shortest plan that we know",
            "You can't try all sets. From a set that you have, which others are near?",
        ),
    ),
)

OFFLOAD: Final = Lab(
    "offload", "Slower tiers", "offload_tiers", (_COST, _BEST, _PROOF, _LINKS, _STREAM)
)
