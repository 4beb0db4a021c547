"""The training ledger over many devices: the engine behind pages, labs and commands."""

__version__ = "0.1.0"
