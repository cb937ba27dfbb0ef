"""A chat in a terminal, with line editing and streamed replies, or line by line in a pipe."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from typing import TYPE_CHECKING

import click

from dialog.chat.commands import COMMANDS, Effect, apply, named
from dialog.chat.session import Session
from dialog.errors import UserError
from dialog.escaping import one_line
from dialog.paths import cache
from dialog.report.terminal import display_width, fitting_length

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

WIDE = 100
"""Columns from which two replies stand side by side."""
GAP = 4
LONGEST_WORD = 40
"""Columns after which a streamed word is shown before its end."""


def chat_in_pipe(session: Session, lines: Iterable[bytes]) -> None:
    """Print one line for each reply, or for the output of a command, whose lines are joined by
    tabs.

    Notes on replies and errors of lines go to standard error.

    Raises:
        UserError: at the end, if a line could not be applied.
    """
    errors: list[str] = []
    for number, line in enumerate(lines, start=1):
        try:
            effect = apply(session, line.decode("utf-8", errors="surrogateescape"))
        except UserError as error:
            errors.append(f"standard input:{number}: {error}")
            click.echo(one_line(errors[-1]), err=True)
            continue
        for place, reply in enumerate(effect.replies):
            click.echo(named(session, place, reply))
        if effect.lines:
            click.echo("\t".join(effect.lines), err=bool(effect.replies))
        if effect.quit:
            break
    if errors:
        raise UserError(f"{len(errors)} of the lines could not be applied")


def chat_in_terminal(session: Session) -> None:
    """Read lines with an editor until Ctrl-D or /quit; Ctrl-C stops a reply, or clears the line."""
    editor = line_editor()
    welcome = (
        f"{' and '.join(map(one_line, session.names))}. /help lists the commands, Ctrl-D ends."
    )
    click.echo("\n".join(fold(welcome, shutil.get_terminal_size().columns)))
    with no_echo():
        while True:
            with suppress(KeyboardInterrupt):
                try:
                    line = editor.prompt("> ")
                except EOFError:
                    return
                if Screen(session).show(line).quit:
                    return


@contextmanager
def no_echo() -> Iterator[None]:
    """Turn the echo of the terminal off, so that text typed during a reply waits for the line
    editor.

    The editor shows what is typed at its prompt. Ctrl-C discards the waiting text.
    """
    try:
        import termios
        import tty
    except ImportError:  # Windows: typed text is not echoed
        yield
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal, termios.TCSADRAIN)
        yield
    finally:
        with suppress(termios.error):  # the terminal was closed
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)


class Screen:
    """Output of one line: its replies piece by piece, or side by side once all of them are
    complete.

    Args:
        session: The conversation.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.width, self.height = shutil.get_terminal_size()
        self.streamed = [""] * len(session.runs)
        self.words: WordStream | None = None  # of the reply whose line is open

    @property
    def columns(self) -> bool:
        """True if the replies stand side by side."""
        return len(self.session.runs) > 1 and self.width >= WIDE

    def show(self, line: str) -> Effect:
        """Apply a line and show its effect; of an interrupted line, the replies that are kept."""
        effect = Effect()
        try:
            effect = apply(
                self.session, line, width=self.width, height=self.height, watch=self.watch
            )
        except KeyboardInterrupt:
            replies = self.session.stop()
            self._end_line()
            effect = Effect((self._stopped(replies),), tuple(replies))
        except UserError as error:
            self._end_line()
            effect = Effect((one_line(str(error)),))
        for line in (*self._rows(effect.replies), *effect.lines):
            click.echo("\n".join(fold(line, self.width)))
        return effect

    def watch(self, number: int, piece: str) -> None:
        """Show a piece of a reply; an empty one ends the line."""
        if self.columns:
            return
        if self.words is None:
            self.words = WordStream(self.width)
            click.echo(self.words.add(named(self.session, number, "")), nl=False)
        self.streamed[number] += piece
        click.echo(self.words.add(one_line(piece)), nl=False)
        if not piece:
            self._end_line()

    def _end_line(self) -> None:
        """End the line of a reply."""
        if self.words is not None:
            click.echo(self.words.end())
        self.words = None

    def _stopped(self, replies: Sequence[str]) -> str:
        """Return a note on what is kept of stopped replies."""
        if not replies:
            return "(stopped; the conversation has not changed)"
        empty = [name for name, reply in zip(self.session.names, replies, strict=True) if not reply]
        return (
            one_line(f"(stopped; the reply of {' and '.join(empty)} is empty)")
            if empty
            else "(stopped)"
        )

    def _rows(self, replies: Sequence[str]) -> list[str]:
        """Return what remains to be shown of replies that are complete or stopped."""
        names = self.session.names
        if replies and self.columns:
            texts = [f"{name}: {reply}" for name, reply in zip(names, replies, strict=True)]
            return side_by_side(list(map(one_line, texts)), self.width)
        rewritten = [
            number for number, reply in enumerate(replies) if reply != self.streamed[number]
        ]
        return [named(self.session, number, replies[number]) for number in rewritten]


def line_editor() -> PromptSession[str]:
    """Return a line editor that completes commands and keeps its history in the user's cache."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.keys import Keys

    class LineHistory(FileHistory):
        """History that a full disk, an unreadable file or an unusual encoding does not
        interrupt.
        """

        def load_history_strings(self) -> Iterable[str]:
            try:
                return super().load_history_strings()
            except OSError:
                return ()

        def store_string(self, string: str) -> None:
            with suppress(OSError, UnicodeError):
                super().store_string(string)

    with suppress(OSError):
        cache().mkdir(parents=True, exist_ok=True)
    keys = KeyBindings()
    # of typed or pasted colour codes, which are no mouse events
    keys.add(Keys.Vt100MouseEvent)(lambda _: None)
    return PromptSession(
        history=LineHistory(cache() / "chat_history"),
        completer=WordCompleter(list(COMMANDS), sentence=True),
        complete_while_typing=False,
        key_bindings=keys,
    )


# ------------------------------------------------------------------ text in columns


def side_by_side(texts: Sequence[str], width: int) -> list[str]:
    """Return the lines of texts in columns of equal width, `width` columns together."""
    column = (width - GAP * (len(texts) - 1)) // len(texts)
    rows = zip_longest(*(wrap(text, column) for text in texts), fillvalue="")
    return [
        (" " * GAP).join(line + " " * (column - display_width(line)) for line in row).rstrip()
        for row in rows
    ]


def fold(line: str, width: int) -> list[str]:
    """Break a line at white space into lines of at most `width` columns, below the last column of a
    table row.
    """
    if display_width(line) <= width:
        return [line]
    indent = max((match.end() for match in re.finditer(r"\s{2,}", line[: width // 2])), default=0)
    first, *others = wrap(line[indent:], width - indent)
    return [line[:indent] + first, *(" " * indent + other for other in others)]


class WordStream:
    """Breaks text that arrives in pieces at spaces into lines of at most `width` columns.

    A word is returned when it is complete, wide characters at once.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.column = 0
        self.gap = self.word = ""

    def add(self, piece: str) -> str:
        """Return the text that can be shown after another piece."""
        shown = ""
        for char in piece:
            if char == " ":
                shown += self.end()
                self.gap += char
            else:
                self.word += char
            if display_width(char) > 1 or len(self.word) > LONGEST_WORD:
                shown += self.end()
        return shown

    def end(self) -> str:
        """Return the last word, complete or not."""
        gap = self.gap
        word = self.word
        self.gap = "" if self.word else self.gap
        self.word = ""
        size = display_width(word)
        if not word:
            return ""
        if gap and self.column + len(gap) + size > self.width:
            gap = "\n"
            self.column = -1
        self.column += len(gap) + size
        while self.column > self.width:  # the terminal breaks what has no space
            self.column -= self.width
        return gap + word


def wrap(text: str, width: int) -> list[str]:
    """Break a text at white space into lines of at most `width` columns; a longer word is split."""
    lines = [""]
    for word in text.split():
        rest = word
        if display_width(lines[-1]) + display_width(rest) + 1 <= width and lines[-1]:
            lines[-1] += f" {rest}"
            continue
        lines += [""] if lines[-1] else []
        while display_width(rest) > width:
            length = max(1, fitting_length(rest, width))
            lines[-1:] = [rest[:length], ""]
            rest = rest[length:]
        lines[-1] = rest
    return lines
