"""The explorer of costs shows the engine's numbers (S73, S75)."""

from shardbook.explorers.controls import parse_all
from shardbook.explorers.training_cost import EXPLORER
from shardbook.explorers.view import View


def shown(**raw: str) -> View:
    return EXPLORER.draw(**parse_all(EXPLORER.controls, raw))


def test_the_default_is_llama_3_405b() -> None:
    # 6 · 405e9 · 15.6e12 ÷ (0.4 · 989.4e12) ÷ 3600
    assert "26.6M card-hours, 68 days on 16,384 cards" in shown().sentence
    assert shown().table.rows[0][1:3] == ("3.5", "$93.1M")


def test_cards_move_the_time_and_not_the_bill() -> None:
    one, other = shown(cards="8192"), shown(cards="16384")
    assert one.table.rows == other.table.rows
    assert "135 days" in one.sentence


def test_owning_pays_or_does_not() -> None:
    assert "never pays" in shown(price="0.05").sentence
    assert "cost less" in shown(busy="50").sentence
    assert "cost more" in shown(busy="20").sentence
