"""Lines of a chat that fail and leave the conversation as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dialog.chat.commands import apply
from dialog.chat.session import Session
from dialog.errors import UserError
from dialog.generation.responder import Responder

HELLO = "I will have the soup ."


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
def test_out_of_memory_keeps_the_conversation(
    session: Callable[..., Session], error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = session("lstm")
    apply(chat, HELLO)
    before = list(chat.exchanges)

    def fail(*arguments: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Responder, "respond", fail)
        for line in (HELLO, "/retry", "/nbest 3"):
            with pytest.raises(UserError, match="out of memory; /set a smaller max_length"):
                apply(chat, line)
            assert chat.exchanges == before
    assert apply(chat, HELLO).replies


def test_a_file_that_cannot_be_saved_is_one_line(session: Callable[..., Session]) -> None:
    chat = session("lstm")
    apply(chat, HELLO)
    with pytest.raises(UserError, match="xxx: File name too long; choose another name"):
        apply(chat, f"/save {'x' * 300}")
