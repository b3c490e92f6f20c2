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
    parts = [HEAD, _told(cli, "ledger-audit")]
    for name in COMMANDS:
        found = cli.get_command(click.Context(cli), name)
        assert found is not None
        parts += _all(found, f"ledger-audit {name}")
    return "\n".join(parts)


def _all(command: click.Command, path: str) -> Iterator[str]:
    yield _told(command, path)
    if isinstance(command, click.Group):
        for name, one in sorted(command.commands.items()):
            yield from _all(one, f"{path} {name}")


def _told(command: click.Command, path: str) -> str:
    context = click.Context(command, info_name=path, terminal_width=WIDTH, max_content_width=WIDTH)
    return f"## {path}\n\n```text\n{command.get_help(context)}\n```\n"
