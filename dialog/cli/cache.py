"""``dialog cache``, and its subcommands list and prune."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from dialog.errors import UserError
from dialog.escaping import one_line, to_json
from dialog.paths import cache as cache_folder

if TYPE_CHECKING:
    from dialog.runs.cached import CacheEntry


@click.group()
def cache() -> None:
    """List or remove the copies of data that this program keeps: prepared data, reference rows,
    downloads, and lines typed in chats.

    They are in ~/.cache/dialog; DIALOG_CACHE or XDG_CACHE_HOME moves the folder. Removed
    data are prepared or downloaded again when they are needed; typed lines are lost. Runs,
    comparisons and recipes are elsewhere: remove their folders yourself.

    \b
    Example: python -m dialog cache list
    Remove prepared data:  python -m dialog cache prune
    Downloads too:         python -m dialog cache prune --downloads
    """  # noqa: D301 - click reads the character \b


@cache.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def list_entries(as_json: bool) -> None:
    """List the copies, with their sizes.

    Example: python -m dialog cache list
    """
    from dialog.runs.cached import cache_entries

    entries = cache_entries(cache_folder())
    if as_json:
        rows = [entry._asdict() for entry in entries]
        click.echo(to_json({"folder": str(cache_folder()), "entries": rows}, indent=1))
        return
    click.echo(f"{cache_folder()}: {size(sum(entry.bytes for entry in entries))}")
    for line in table(entries):
        click.echo(line)


@cache.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--downloads", is_flag=True, help="Remove downloaded corpora too.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print the removed entries as JSON.")
def prune(names: tuple[str, ...], downloads: bool, yes: bool, as_json: bool) -> None:
    """Remove the copies with these NAMES, as list prints them, or all but downloads.

    Example: python -m dialog cache prune --yes
    """
    from dialog.runs.cached import DOWNLOAD, cache_entries, remove

    root = cache_folder()
    entries = cache_entries(root)
    if unknown := sorted(set(names) - {entry.name for entry in entries}):
        raise UserError(f"{root}: no entry {unknown[0]!r}; python -m dialog cache list shows all")
    chosen = [
        entry
        for entry in entries
        if (entry.name in names if names else downloads or entry.kind != DOWNLOAD)
    ]
    if chosen and not yes:
        if not sys.stdin.isatty():
            raise UserError("there is no terminal to ask; give --yes to remove them")
        for line in table(chosen):
            click.echo(line, err=True)
        if not click.confirm("Remove these?", default=False, err=True):
            return
    for entry in chosen:
        remove(root, entry)
    if as_json:
        click.echo(to_json([entry._asdict() for entry in chosen], indent=1))
        return
    click.echo(f"removed {len(chosen):,} entries, {size(sum(entry.bytes for entry in chosen))}")


def table(entries: Sequence[CacheEntry]) -> list[str]:
    """Return a line for each entry: size, kind, name, source."""
    rows = [(size(entry.bytes), entry.kind, entry.name, entry.source) for entry in entries]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    return [
        one_line(
            "  ".join(
                [row[0].rjust(widths[0])]
                + [text.ljust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
            ).rstrip()
        )
        for row in rows
    ]


def size(count: int) -> str:
    """Format bytes: 1.2 MB."""
    from dialog.report.formats.numbers import magnitude

    return magnitude(count, "B") if count else "0 B"
