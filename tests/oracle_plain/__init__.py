"""
A slow oracle in plain Python: section 5 of the design, one small function for each rule.

It shares no line with the product.
Where the text leaves a choice, a `Reading:` comment says which one was taken; a `Decision:`
comment marks what the project has decided since.
"""

from oracle_plain.judging import judge

__all__ = ["judge"]
