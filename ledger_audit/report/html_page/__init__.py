"""
The page of a post-mortem: one file without network, complete without scripts, fit for paper.

Everything that it says was decided before; here it is only set and drawn.
"""

import hashlib
import json
import shlex
from base64 import b64encode
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from ledger_audit import __version__
from ledger_audit.model.postmortem import Postmortem
from ledger_audit.printable import printable, quoted, ranges_of
from ledger_audit.report import phrases
from ledger_audit.report.beside import against, examples_of, hits_of
from ledger_audit.report.html_page import drawing
from ledger_audit.report.html_page.lanes import draw_lanes
from ledger_audit.report.html_page.parts import parts_of, untold
from ledger_audit.report.html_page.rungs import RUNGS, ahead_of
from ledger_audit.report.html_page.uses import told_of, uses_of
from ledger_audit.report.marks import LETTERS
from ledger_audit.report.opening import opening

LONGEST = 1200
"""Characters of a text; the rest is counted. Nobody reads a name of 10 kB."""
MOST_UNTOLD = 200


def to_html(post: Postmortem) -> str:
    """Give the page; the same report gives the same bytes."""
    report = post.report
    parts = parts_of(post)
    left = untold(report, parts)
    css, script = _text("page.css"), _text("page.js")
    page = _environment().get_template("page.html")
    return page.render(
        css=Markup(css),  # our own text
        script=Markup(script),  # our own text
        policy=_policy(css, script),
        version=__version__,
        post=post,
        report=report,
        head=opening(report),
        outside=phrases.not_in_weights(report),
        parts=parts,
        untold=left[:MOST_UNTOLD],
        untold_left=max(0, len(left) - MOST_UNTOLD),
        lanes=draw_lanes(post.timeline) if post.timeline.lanes else None,
        uses=None if post.exposure is None else told_of(post.exposure),
        command=shlex.join(post.recipe.command),
    )


def _policy(css: str, script: str) -> str:
    """Give the policy by which a browser runs our own script, uses our own style, and no more."""
    style_hash, script_hash = (
        b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (css, script)
    )
    return (
        f"default-src 'none'; style-src 'sha256-{style_hash}'; script-src 'sha256-{script_hash}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )


def _text(name: str) -> str:
    text = resources.files(__name__).joinpath("templates", name).read_text(encoding="utf-8")
    return f"\n{text}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__name__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters |= {
        "amount": lambda value: "-" if value is None else f"{value:,}",
        "isolated": _isolated,
        "pixels": drawing.number,
        "ranges": ranges_of,
        "whole": escape,
        "capitalize_first": lambda text: text[:1].upper() + text[1:],
        "json": _json,
    }
    environment.globals |= {
        "cuts": drawing.CUTS,
        "hatches": drawing.HATCHES,
        "source_hatches": drawing.SOURCE_HATCHES,
        "letters_of": {str(name): letter for name, letter in LETTERS.items()},
        "rungs": RUNGS,
        "ahead_of": ahead_of,
        "uses_of": uses_of,
        "against": against,
        "hits_of": hits_of,
        "examples_of": examples_of,
    }
    return environment


def _shown(value: Any) -> Any:
    """
    Make whatever is set on the page fit to be shown: no character of it steers anything.

    What comes from a log is escaped as markup after this, like any other text.
    """
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    left = len(value) - LONGEST
    return printable(value[:LONGEST]) + (f"...(+{left:,})" if left > 0 else "")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)


def _isolated(name: str) -> Markup:
    """Give a name that comes from a log, cut and kept from turning the text around it."""
    return Markup("<bdi>{}</bdi>").format(quoted(name))
