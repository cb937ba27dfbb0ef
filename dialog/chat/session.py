"""A conversation of one user with one or two runs, without a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dialog.atomic import write_text
from dialog.chat.search_settings import SearchSettings
from dialog.config.components import Component
from dialog.config.trust import NO_TRUST, Trust
from dialog.data.tokenizers.tokenizer import TextStream
from dialog.errors import UserError
from dialog.escaping import is_unicode, to_json
from dialog.generation.responder import Candidate, check_answered
from dialog.paths import check_new
from dialog.runs.run import Run, run_names

Watch = Callable[[int, str], None]
"""Receives the number of a run and each new piece of its reply; an empty piece ends the reply."""


def ignore(number: int, piece: str) -> None:
    """Ignore the pieces of a reply."""


@dataclass
class AnsweredTurn:
    """A turn of the user, the reply of each run, and the number of attempts before these replies.

    The first replies are the texts of ``candidates``; those after them were stopped.
    """

    text: str
    attempt: int = 0
    replies: list[str] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)


class Session:
    """A conversation in which each run reads its own replies; settings apply to all runs.

    Args:
        runs: One or two runs.
        trust: Which searches that files name may be imported.
    """

    def __init__(self, runs: Sequence[Run], *, trust: Trust = NO_TRUST) -> None:
        self.runs = list(runs)
        self.names = run_names(runs)
        self.settings = [SearchSettings.of(run, trust=trust) for run in runs]
        self.exchanges: list[AnsweredTurn] = []
        # the conversation before the replies in progress; None without any
        self._before: list[AnsweredTurn] | None = None
        self._partial: list[str] = []  # what each run has generated of them

    # ------------------------------------------------------------------ replies

    def answer(self, text: str, watch: Watch = ignore) -> list[str]:
        """Add a turn of the user; return the reply of each run.

        Raises:
            UserError: the text is not UTF-8, or the scores of a model are not numbers; nothing is
                added then.
        """
        if not is_unicode(text):
            raise UserError("the line is not UTF-8; check the encoding of the terminal or file")
        return self._reply(self.exchanges, AnsweredTurn(text), watch)

    def retry(self, watch: Watch = ignore) -> list[str]:
        """Replace the last replies; a search that draws uses its next seed."""
        last = self._last("/retry")
        return self._reply(
            self.exchanges[:-1], AnsweredTurn(last.text, attempt=last.attempt + 1), watch
        )

    def stop(self) -> list[str]:
        """Keep what was generated of the replies when a KeyboardInterrupt stopped `answer` or
        `retry`.

        A run that had generated nothing has an empty reply.

        Returns:
            The replies; none if no run had generated text, and the conversation is then as it was
            before.
        """
        if self._before is None:
            return []
        before = self._before
        self._before = None
        replies = self.exchanges[-1].replies
        replies += self._partial[len(replies) :]
        if any(map(str.strip, replies)):
            return replies
        self.exchanges = before
        return []

    def n_best(self, count: int) -> list[tuple[str, list[Candidate]]]:
        """Return, for each run, the search and the ``count`` best candidates for the last reply."""
        last = self._last("/nbest")
        results = []
        for number, settings in enumerate(self.settings):
            wide = settings.n_best(count)
            candidates = self._candidates(number, wide.seeded(last.attempt))
            results.append((wide.describe(), candidates[:count]))
        return results

    def attention(self) -> list[dict[str, Any]]:
        """Return the attention maps of the last reply of each run, as `Run.attention` does.

        They are over the tokens that the search has chosen, those of a stopped reply over the
        tokens of its text.
        """
        last = self._last("/why")
        responses: list[str | Candidate] = [*last.candidates, *last.replies[len(last.candidates) :]]
        pairs = enumerate(zip(self.runs, responses, strict=True))
        return [run.attention(self.context(number), response) for number, (run, response) in pairs]

    # ------------------------------------------------------------------ conversation

    def context(self, number: int, exchanges: Sequence[AnsweredTurn] | None = None) -> list[str]:
        """Return the turns that a run answers, down to the user's last one."""
        exchanges = self.exchanges if exchanges is None else exchanges
        earlier = [
            turn
            for exchange in exchanges[:-1]
            for turn in (exchange.text, exchange.replies[number])
        ]
        return [*earlier, exchanges[-1].text]

    def undo(self) -> str:
        """Remove the last turn of the user and its replies; return the turn."""
        self._last("/undo")
        return self.exchanges.pop().text

    def reset(self) -> None:
        """Start a new conversation; the settings stay."""
        self.exchanges = []

    def save(self, path: Path) -> int:
        """Write the conversation to a new file of JSON lines that ``respond`` reads; return the
        number of replies.

        Raises:
            UserError: nothing to save, or a file that exists or cannot be written.
        """
        self._last("/save")
        rows = []
        for end in range(1, len(self.exchanges) + 1):
            for number, reply in enumerate(self.exchanges[end - 1].replies):
                name = str(end) if len(self.runs) == 1 else f"{end}: {self.names[number]}"
                rows.append(
                    {
                        "id": name,
                        "context": self.context(number, self.exchanges[:end]),
                        "response": reply,
                    }
                )
        try:
            check_new(path, "name")
            write_text(path, "".join(to_json(row) + "\n" for row in rows))
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}; choose another name") from error
        return len(rows)

    # ------------------------------------------------------------------ settings

    def change(self, change: Callable[[SearchSettings], SearchSettings]) -> None:
        """Change the settings of all runs, or of none if one of them rejects the change."""
        self.settings = [change(settings) for settings in self.settings]

    # ------------------------------------------------------------------ parts

    def _reply(
        self, earlier: Sequence[AnsweredTurn], exchange: AnsweredTurn, watch: Watch
    ) -> list[str]:
        before = self.exchanges
        self._partial = [""] * len(self.runs)
        self._before = before
        self.exchanges = [*earlier, exchange]
        try:
            for number, settings in enumerate(self.settings):
                best = self._stream(number, settings.seeded(exchange.attempt), watch)
                exchange.replies.append(best.text)
                exchange.candidates.append(best)
        except Exception:
            self._before = None
            self.exchanges = before
            raise
        self._before = None
        return exchange.replies

    def _stream(self, number: int, component: Component, watch: Watch) -> Candidate:
        """Return the best candidate of a run; `watch` receives the pieces of its text, and an empty
        one at the end.
        """

        def emit(piece: str) -> None:
            self._partial[number] += piece
            watch(number, piece)

        stream = TextStream(self.runs[number].tokenizer, emit)
        best = self._candidates(number, component, stream)[0]
        stream.advance(best.text)
        watch(number, "")
        return best

    def _candidates(
        self, number: int, component: Component, watch: TextStream | None = None
    ) -> list[Candidate]:
        """Return the candidates of a run for the last turn of the user."""
        run = self.runs[number]
        (candidates,) = run.responder.respond([self.context(number)], component, watch)
        check_answered([candidates], str(run.folder))
        return candidates

    def _last(self, command: str) -> AnsweredTurn:
        if not self.exchanges:
            raise UserError(f"{command}: the conversation is empty; write a line first")
        return self.exchanges[-1]
