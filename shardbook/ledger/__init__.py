"""What is stored where, in bytes: exact integers, from a recipe, a sharding stage and a world size.

`recipes` says what a training recipe keeps for each parameter, `stages` spreads it over ranks,
`fits` turns the question round (how many ranks, how large a model). What is stored beside the
states is in `activations`, `checkpointing`, `buffers`, `fragmentation` and `working`; the papers'
tables are in `published`, and the mistakes of the source lectures in `reconciliation`.
"""
