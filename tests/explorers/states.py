"""Random states of an explorer: raw control texts, valid ones mostly and some that must be refused."""

import random

from shardbook.explorers.controls import Choice, Control, Number, Steps, Text
from shardbook.explorers.explorer import Explorer

REFUSED = ["", "-1", "0", "nan", "inf", "1e400", "1.5", "many", "9" * 400, "<b>", "1e-9"]


def random_states(explorer: Explorer, count: int, seed: int = 0) -> list[dict[str, str]]:
    """Return ``count`` states; about one in eight has a text some control refuses."""
    chance = random.Random(f"{explorer.id} {seed}")
    states = [{}]
    for _ in range(count - 1):
        state = {control.name: _text(control, chance) for control in explorer.controls}
        if chance.random() < 0.125:
            state[chance.choice(list(state))] = chance.choice(REFUSED)
        states.append(state)
    return states


def _text(control: Control, chance: random.Random) -> str:
    if isinstance(control, Number):
        return chance.choice(control.stops)
    if isinstance(control, Choice):
        return chance.choice(control.options)[0]
    if isinstance(control, Text):
        return chance.choice(control.presets)[1]
    if isinstance(control, Steps):
        return str(chance.randint(0, control.last))
    return chance.choice(["on", "off"])
