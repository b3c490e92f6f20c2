"""Writes the page of all commands as the program itself tells them."""

from collections.abc import Iterator

import click

from ledger_audit.cli import COMMANDS, cli

WIDTH = 100
HEAD = """# Commands

Every command and every option, as `--help` tells them.
This page is generated from the program, and a test holds it.
What a verdict is, and what each page is for, stands in the [README](../README.md).
"""


def page() -> str:
    """Give the page, in the order in which the program lists its commands."""
    size = {"terminal_width": WIDTH, "max_content_width": WIDTH}
    top = click.Context(cli, info_name="ledger-audit", **{**cli.context_settings, **size})
    parts = [HEAD, _told(top)]
    for name in COMMANDS:
        found = cli.get_command(top, name)
        assert found is not None
        parts += _all(click.Context(found, parent=top, info_name=name))
    return "\n".join(parts)


def _all(context: click.Context) -> Iterator[str]:
    yield _told(context)
    if isinstance(context.command, click.Group):
        for name, one in sorted(context.command.commands.items()):
            yield from _all(click.Context(one, parent=context, info_name=name))


def _told(context: click.Context) -> str:
    return f"## {context.command_path}\n\n```text\n{context.get_help()}\n```\n"
