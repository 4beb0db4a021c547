"""The interactive figures: one definition, shown by a notebook, the published page or a test."""

from shardbook.explorers.notebook import explore

__all__ = ["explore"]
