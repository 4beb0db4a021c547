"""What a page of the book says and shows beside its explorers: numbers, questions, figures."""

from shardbook.explorers import explore
from shardbook.pages.figures import figure
from shardbook.pages.questions import ask, right, wrong
from shardbook.pages.say import say
from shardbook.pages.tables import table

__all__ = ["ask", "explore", "figure", "right", "say", "table", "wrong"]
