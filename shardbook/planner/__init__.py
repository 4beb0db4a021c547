"""Which layout for this model on this cluster: placements, bandwidth, and what they cost."""
