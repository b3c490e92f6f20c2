"""Reads what reporters write by other people's parsers, and by the rules of GitHub's runner."""

import io
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import xmlschema
from junitparser import Failure, JUnitXml, Skipped
from markdown_it import MarkdownIt
from markdown_it.token import Token

HERE = Path(__file__).parent
Command = tuple[str, dict[str, str], str]
"""Its name, its properties, its text."""


def shape_of(text: str) -> list[str]:
    """Give the kinds of everything in a Markdown document, in order, without its words."""
    return [token.type for token in _tokens(text) if token.type not in ("text", "code_inline")]


def words_of(text: str) -> str:
    """Give what is neither code nor markup: where a code host looks for mentions and addresses."""
    return "\n".join(token.content for token in _tokens(text) if token.type == "text")


def code_of(text: str) -> list[str]:
    """Give what stands as code within lines."""
    return [token.content for token in _tokens(text) if token.type == "code_inline"]


def _tokens(text: str) -> Iterator[Token]:
    for token in MarkdownIt("commonmark", {"html": True}).enable("table").parse(text):
        yield token
        yield from token.children or ()


@cache
def _schema() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(HERE / "junit.xsd")


def cases_of(text: str) -> list[tuple[str, str, str]]:
    """Give suite, name and outcome of every test case of a JUnit file that fits its schema."""
    _schema().validate(io.StringIO(text))
    found = []
    document = JUnitXml.fromstring(text.encode())
    for suite in document:
        for case in suite:
            results = {Failure: "failure", Skipped: "skipped"}
            outcome = results[type(case.result[0])] if case.result else "passed"
            found.append((str(suite.name), str(case.name), outcome))
    counts = (document.tests, document.failures, document.skipped)
    outcomes = [one[2] for one in found]
    assert counts == (len(found), outcomes.count("failure"), outcomes.count("skipped"))
    return found


def texts_of(text: str) -> list[str]:
    """Give every text and every attribute of an XML document."""
    root = ET.fromstring(text)
    return [told for one in root.iter() for told in (one.text or "", *one.attrib.values())]


def commands_of(text: str) -> list[Command]:
    """Read workflow commands as GitHub's runner does: every line must be one."""
    found = []
    for line in text.removesuffix("\n").split("\n"):
        assert line.startswith("::")
        head, data = line[2:].split("::", 1)
        name, _, listed = head.partition(" ")
        properties = dict(one.split("=", 1) for one in listed.split(","))
        told = {key: _decoded(value, {"%3A": ":", "%2C": ","}) for key, value in properties.items()}
        found.append((name, told, _decoded(data, {})))
    return found


def _decoded(text: str, more: dict[str, str]) -> str:
    for escape, sign in {"%0D": "\r", "%0A": "\n", **more, "%25": "%"}.items():
        text = text.replace(escape, sign)
    return text


def obeyed_in(text: str) -> list[str]:
    """List the lines that GitHub's runner takes for a command, of the new kind or the old."""
    return [line for line in text.splitlines() if line.lstrip().startswith("::") or "##[" in line]


def strings_in(value: Any) -> Iterator[str]:
    """Give every string in what JSON holds, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from strings_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings_in(each)
