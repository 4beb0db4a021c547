"""Collectives: who sends what to whom; plans made without data, counted, priced, proved, run."""
