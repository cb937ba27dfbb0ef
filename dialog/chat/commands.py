"""Lines of a chat: text for the runs, and commands."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from dialog.chat.attention_text import attention_lines
from dialog.chat.search_settings import SearchSettings, parse_pairs
from dialog.chat.session import Session, Watch, ignore
from dialog.config.components import lookup
from dialog.errors import UserError, out_of_memory
from dialog.escaping import one_line

MOST_CANDIDATES = 100


@dataclass(frozen=True)
class Effect:
    """Effect of a line: lines to print, new replies, or the end."""

    lines: tuple[str, ...] = ()
    replies: tuple[str, ...] = ()
    quit: bool = False


class CommandCall(NamedTuple):
    """Input of a command: its argument, columns and lines of the terminal, and the receiver of
    reply pieces.
    """

    argument: str
    width: int
    height: int | None  # None: no terminal
    watch: Watch


class Command(NamedTuple):
    """A command with its usage and one line of help."""

    usage: str
    summary: str
    run: Callable[[Session, CommandCall], Effect]


def apply(
    session: Session,
    line: str,
    *,
    width: int = 80,
    height: int | None = None,
    watch: Watch = ignore,
) -> Effect:
    """Apply a line: a command begins with ``/``, and ``//`` begins a text that begins with ``/``.

    Raises:
        UserError: unknown command, one that cannot be applied, or out of memory; the session stays
            as it was.
    """
    text = line.strip()
    if not text:
        return Effect()
    with out_of_memory_explained():
        if not text.startswith("/") or text.startswith("//"):
            return Effect(replies=tuple(session.answer(text.removeprefix("/"), watch)))
        name, _, argument = text.partition(" ")
        command = lookup(COMMANDS, name, "command")
        if argument.strip() and command.usage == name:
            raise UserError(f"{name}: takes no argument")
        if "\0" in argument:
            raise UserError(f"{name}: the argument contains the character NUL; remove it")
        return command.run(session, CommandCall(argument.strip(), width, height, watch))


@contextmanager
def out_of_memory_explained() -> Iterator[None]:
    """Re-raise an error of memory as UserError."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        traceback.clear_frames(error.__traceback__)  # their variables hold the memory
        raise UserError(
            "out of memory; /set a smaller max_length, width or number of candidates"
        ) from error


def show_help(session: Session, request: CommandCall) -> Effect:
    """List the commands."""
    widest = max(len(command.usage) for command in COMMANDS.values())
    keys = ("Ctrl-C stops a reply, Ctrl-D ends the chat; // begins a text that begins with /.",)
    return Effect(
        (*(f"{command.usage:{widest}}  {command.summary}" for command in COMMANDS.values()), *keys)
    )


def set_values(session: Session, request: CommandCall) -> Effect:
    """Change settings, and show them."""
    if request.argument:
        pairs = parse_pairs(request.argument)
        session.change(lambda settings: settings.change(pairs))
    return show_settings(session)


def select_search(session: Session, request: CommandCall) -> Effect:
    """Select a search, and show the settings."""
    if request.argument:
        session.change(lambda settings: settings.select(request.argument))
    return show_settings(session)


def show_settings(session: Session) -> Effect:
    """Show the search of each run; once if they are equal."""
    searches = list(map(SearchSettings.describe, session.settings))
    if len(set(searches)) == 1:
        return Effect((one_line(searches[0]),))
    return Effect(tuple(named(session, number, search) for number, search in enumerate(searches)))


def show_candidates(session: Session, request: CommandCall) -> Effect:
    """Show the best candidates for the last reply."""
    if not is_number(request.argument) or not 1 <= int(request.argument) <= MOST_CANDIDATES:
        raise UserError(
            f"/nbest: give a number of candidates from 1 to {MOST_CANDIDATES}, such as /nbest 5"
        )
    lines: list[str] = []
    for number, (search, candidates) in enumerate(session.n_best(int(request.argument))):
        lines += [named(session, number, search), "   rank  log-probability  tokens  text"]
        lines += [
            f"{row.rank:7.2f}  {row.score:15.2f}  {row.tokens:6}  {one_line(row.text)}"
            for row in candidates
        ]
    return Effect(tuple(lines))


def show_attention(session: Session, request: CommandCall) -> Effect:
    """Show the attention of the last replies: the mean, or that of a layer, or of a layer and
    head.
    """
    place = request.argument.split()
    if len(place) > 2 or not all(map(is_number, place)):
        raise UserError(
            "/why: give nothing, a layer, or a layer and a head, counted from 0, such as /why 1 3"
        )
    lines: list[str] = []
    errors: list[str] = []
    height = None if request.height is None else request.height // len(session.runs)
    for number, maps in enumerate(session.attention()):
        lines += [named(session, number, "")] if len(session.runs) > 1 else []
        try:
            lines += attention_lines(maps, request.width, list(map(int, place)), height=height)
        except UserError as error:
            errors.append(str(error))
            lines.append(str(error))
    if len(errors) == len(session.runs):
        raise UserError("; ".join(dict.fromkeys(errors)))
    return Effect(tuple(lines))


def undo(session: Session, request: CommandCall) -> Effect:
    """Remove the last turn and its replies."""
    return Effect((f"removed: {one_line(session.undo())}",))


def retry(session: Session, request: CommandCall) -> Effect:
    """Replace the last replies."""
    before = session.exchanges[-1].replies if session.exchanges else []
    replies = session.retry(request.watch)
    same = replies == before and all(settings.repeatable for settings in session.settings)
    note = (
        ("this search draws nothing, so the reply is the same; try /search sampling",)
        if same
        else ()
    )
    return Effect(note, tuple(replies))


def reset(session: Session, request: CommandCall) -> Effect:
    """Start a new conversation."""
    session.reset()
    return Effect(("new conversation",))


def save(session: Session, request: CommandCall) -> Effect:
    """Write the conversation to a file."""
    if not request.argument:
        raise UserError("/save: give a new file, such as /save chat.jsonl")
    try:
        path = Path(request.argument).expanduser()
    except RuntimeError as error:  # an unknown user
        raise UserError(
            f"/save: {request.argument}: no such home folder; write its path"
        ) from error
    count = session.save(path)
    return Effect(
        (f"{count} {'reply' if count == 1 else 'replies'} saved to {one_line(str(path))}",)
    )


def leave(session: Session, request: CommandCall) -> Effect:
    """End the chat."""
    return Effect(quit=True)


def is_number(text: str) -> bool:
    """Return whether a text is a number of at most 9 digits."""
    return text.isdecimal() and len(text) <= 9


def named(session: Session, number: int, text: str) -> str:
    """Return a text for one run, after the run's name if there are two."""
    return one_line(text if len(session.runs) == 1 else f"{session.names[number]}: {text}")


COMMANDS: Mapping[str, Command] = {
    "/help": Command("/help", "list the commands", show_help),
    "/set": Command(
        "/set KEY=VALUE ...", "set arguments of the search and constraints: top_p=0.9", set_values
    ),
    "/search": Command(
        "/search NAME", "select a search or a file of configs/generation: beam5", select_search
    ),
    "/nbest": Command(
        "/nbest N",
        "show the N best candidates for the last reply, by the rank of the search",
        show_candidates,
    ),
    "/why": Command(
        "/why [LAYER [HEAD]]",
        "show the attention of the last reply; without numbers the mean",
        show_attention,
    ),
    "/undo": Command("/undo", "remove the last turn and its reply", undo),
    "/retry": Command(
        "/retry", "generate the last reply again; a search that draws uses another seed", retry
    ),
    "/reset": Command("/reset", "start a new conversation; settings stay", reset),
    "/save": Command(
        "/save FILE.jsonl", "write the conversation to a new file that `respond` reads", save
    ),
    "/quit": Command("/quit", "end the chat", leave),
}
"""Commands by name."""
