"""The arithmetic of docs/size.md is computed, and its rates are those of docs/benchmarks.md."""

import ast
import operator
import re
from collections.abc import Callable
from typing import Any

import pytest
from conftest import ROOT

PAGE = (ROOT / "docs" / "size.md").read_text()
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text()
LINE = re.compile(r"^(\w+) = (.+?)\s+# ([\d,.]+)(.*)$")
LINES = [
    LINE.fullmatch(line)
    for block in re.findall(r"^```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
    if line
]
OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def computed(node: ast.expr, known: dict[str, float]) -> float:
    """Compute numbers, names and the four operations."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Name(id=name):
            return known[name]
        case ast.BinOp(left=left, op=op, right=right):
            return float(OPERATORS[type(op)](computed(left, known), computed(right, known)))
    raise AssertionError(ast.unparse(node))


def values() -> dict[str, float]:
    """Compute every line, from the first to the last."""
    known: dict[str, float] = {}
    for line in LINES:
        assert line is not None, "a block of this page holds NAME = FORMULA  # RESULT"
        known[line[1]] = computed(ast.parse(line[2], mode="eval").body, known)
    return known


def test_every_result_is_that_of_its_formula() -> None:
    """As many digits as the page prints."""
    known = values()
    assert len(known) > 30
    for line in LINES:
        assert line is not None
        digits = len(line[3].partition(".")[2])
        assert f"{known[line[1]]:,.{digits}f}" == line[3], line[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("verify_rate", "| verify, nothing wrong | verify | 11.8 |"),
        ("gate_rate", "| gate of two equal runs | gate | 18.2 |"),
        ("lookup_rate", "| look-up of 15,360 ids | diff | 1.1 |"),
        ("text_rate", "| | verify, nothing wrong | verify | 47.8 |"),
        ("whole_open", "| 8 | no | ledger | 75 | 152 | 109.0 | 3.9 |"),
        ("packed_open", "| 8 | yes | ledger | 90 | 265 | 137.0 | 5.7 |"),
        ("files", "| opening, with the index | 45 | 3.3 |"),
        ("files", "| opening, no index | 40 | 44 |"),
        ("spark_record", "| Spark, 2 workers of one core | 110.3 | 201.7 |"),
        ("spark_record", "| Spark, 2 workers of one core | 43.5 | 52.9 |"),
    ],
)
def test_a_measured_figure_is_the_one_that_was_measured(name: str, text: str) -> None:
    """Who measures anew sees which lines of the page rest on it."""
    assert name in values()
    assert text in BENCHMARKS


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("{:,.0f} s for whole sequences, {:,.0f} s for packed documents", "diff_whole diff_packed"),
        (
            "{:,.0f} s for whole sequences, {:,.0f} minutes for packed documents, {:,.0f} minutes "
            "with ids of text",
            "verify_whole verify_packed verify_text",
        ),
        ("{:,.0f} minutes, {:,.0f} minutes", "gate_whole gate_packed"),
    ],
)
def test_the_table_of_commands_has_the_results(text: str, name: str) -> None:
    """What the table says is what the block below it computes."""
    known = values()
    assert text.format(*(known[one] for one in name.split())) in PAGE
