"""Lab tp, tensor parallelism: its tasks, and what each is graded for."""

from typing import Final

from shardbook.labs.tasks import Criterion, Lab, Task

_CUT: Final = Task(
    "tp.1",
    "Cut a linear",
    "cut_linear",
    25,
    (
        Criterion(
            "columns",
            1.0,
            "cut by columns, the united output is one device's",
            "Which of its columns can a rank compute, and from how much of x?",
        ),
        Criterion(
            "rows",
            1.0,
            "cut by rows, the united output is one device's, and no rank is given more of x than "
            "meets its rows",
            "How large is a rank's output, and what is missing in each of its numbers?",
        ),
        Criterion(
            "equal shares",
            0.5,
            "every number of the weight is on one rank, and all ranks have equally many",
            "Count the numbers that a rank holds.",
        ),
        Criterion(
            "side by side",
            1.0,
            "of matrices that lie side by side in one weight, a rank has the same columns",
            "Number the columns of each matrix from 0. Which of them has rank 0?",
        ),
        Criterion(
            "sizes that don't divide",
            0.5,
            "None where there are no equal shares, and only there",
            "Which of the numbers must the ranks divide, in each of the two cuts?",
        ),
    ),
)

_MLP: Final = Task(
    "tp.2",
    "An MLP with one sum each way",
    "mlp_program",
    60,
    (
        Criterion(
            "forward",
            1.0,
            "after the forward every rank has one device's y",
            "Which summands does every rank have in full? How often are they added?",
        ),
        Criterion(
            "backward",
            1.5,
            "after the backward every rank has one device's dx, and the gradients of its weights",
            "Write the backward of one device, in reverse. Then ask of each array: whole, a part, or "
            "a partial sum?",
        ),
        Criterion(
            "one sum forward",
            1.0,
            "y is right with one all-reduce for each block, and nothing else is sent",
            "What a rank has after the first product: what of the second needs just that?",
        ),
        Criterion(
            "one sum backward",
            1.0,
            "dx is right with one all-reduce for each block, and nothing else is sent",
            "Sums of partial sums are partial sums.",
        ),
        Criterion(
            "gate",
            0.5,
            "y, dx and the gate's gradient are right where there is a gate",
            "The derivative of a product of two functions.",
        ),
        Criterion(
            "stack",
            1.0,
            "y and dx are right for several blocks",
            "In which order does the backward meet the blocks, and which x does each of them need?",
        ),
    ),
)

_ATTENTION: Final = Task(
    "tp.3",
    "Attention by heads",
    "attention_program",
    55,
    (
        Criterion(
            "heads",
            1.0,
            "equally many query heads on each rank, and no key/value head that could be spared",
            "Which query heads use the same key/value head? They should be together.",
        ),
        Criterion(
            "forward",
            1.0,
            "after the forward every rank has one device's y",
            "Attention by heads is a pair of linears with something between.",
        ),
        Criterion(
            "backward",
            1.5,
            "after the backward every rank has one device's dx, and the gradients of its weights",
            "Go back through the forward line by line.",
        ),
        Criterion(
            "copied heads",
            1.0,
            "y, dx and the gradients of wk and wv are right where ranks have copies of a head",
            "A copy has seen only the queries of its own rank. What is still a part, and of what?",
        ),
        Criterion(
            "one sum each way",
            1.0,
            "one all-reduce forward and one backward; besides, only sums over copies, where there "
            "are any",
            "Which of the sums can wait until they are one?",
        ),
        Criterion(
            "heads that don't divide",
            0.5,
            "None where heads can't be dealt out equally, and only there",
            "There are two conditions; one of them is on key/value heads.",
        ),
    ),
)

_SEQUENCE: Final = Task(
    "tp.4",
    "Sequence parallelism",
    "sequence_program",
    45,
    (
        Criterion(
            "forward",
            1.0,
            "after the forward every rank has its tokens of one device's y",
            "What does a rank have after the second product, and what must it get of the others?",
        ),
        Criterion(
            "backward",
            1.0,
            "after the backward every rank has its tokens of dx, and the gradients of its weights",
            "Which weights are on every rank, and from how many tokens is each of their gradients?",
        ),
        Criterion(
            "same bytes",
            1.0,
            "without gathering again, a rank sends no more than all-reduces of y and dx would, and "
            "of what has one row",
            "An all-reduce has two halves. Which array arrives twice?",
        ),
        Criterion(
            "memory",
            1.0,
            "gathering again, each of T ranks keeps a T-th of what one rank alone keeps, with one "
            "more all-gather and no product twice",
            "Which of the arrays that your backward reads has the tokens of all ranks?",
        ),
        Criterion(
            "stack",
            1.0,
            "y and dx are right for several blocks",
            "In which order does the backward meet the blocks?",
        ),
    ),
)

_LOSS: Final = Task(
    "tp.5",
    "The loss, with as little sent as possible",
    "loss_program",
    55,
    (
        Criterion(
            "loss",
            1.0,
            "after the forward every rank has the sum of the losses",
            "Which parts of it does no rank have alone?",
        ),
        Criterion(
            "gradients",
            1.0,
            "after the backward every rank has dx, and its columns of the gradient of words",
            "A softmax less a one. Which numbers of it does a rank have, and what sums remain?",
        ),
        Criterion(
            "large logits",
            1.0,
            "dx is right where exp of a logit is too large a number",
            "What can you subtract before exp, and what does each rank know of it?",
        ),
        Criterion(
            "three numbers a token",
            0.5,
            "three ranks send no more than all-reduces of three numbers a token, and dx",
            "No rank needs a logit of another one.",
        ),
        Criterion(
            "two ranks",
            1.0,
            "two ranks send no more than the lower bound, and two single numbers",
            "What do two ranks have to tell each other of a token? Of the loss?",
        ),
        Criterion(
            "more ranks",
            1.5,
            "more ranks send no more than the lower bound, and two single numbers",
            "Who could put the ranks' numbers together, if nobody has to for all tokens?",
        ),
    ),
)

TP: Final = Lab("tp", "Tensor parallelism", "tp_tensor", (_CUT, _MLP, _ATTENTION, _SEQUENCE, _LOSS))
