"""
Puts a ledger into trainers, with a few lines of theirs: the guests.

Each framework has a file of its own, which needs that framework and no other: `loop` (none),
`torch`, `accelerate`, `transformers`, `lightning`, `megatron`. What they share is `stepping`, which
counts steps and slots, and `carrying`, which brings sample ids from a data set to where they are
used.
"""
