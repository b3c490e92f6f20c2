"""The expectation: which samples are to come, in which order, and who is to use them."""
