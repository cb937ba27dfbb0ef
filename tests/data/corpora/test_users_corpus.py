"""A user's own corpus that breaks the contract: one line that names the method and what to
return.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import dialog
from dialog.config.compose import Composed
from dialog.config.trust import trusted
from dialog.runs.prepare import prepare_data

CORPUS = """
from dialog import Dialogue, Turn

class Forum:
    def dialogues(self, split):
        yield {dialogue}

    def fingerprint(self):
        return {fingerprint}
"""
DIALOGUE = "Dialogue(split, (Turn('a', 'Hi !'), Turn('b', 'Hello .')))"


@pytest.fixture
def prepare(
    tiny: Callable[..., Composed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str, str], Path]:
    """``prepare(module, dialogue, fingerprint)``: prepare a corpus with these two expressions."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("DIALOG_CACHE", str(tmp_path / "cache"))

    def prepared(module: str, dialogue: str, fingerprint: str) -> Path:
        (tmp_path / f"{module}.py").write_text(
            CORPUS.format(dialogue=dialogue, fingerprint=fingerprint)
        )
        return prepare_data(
            trusted(tiny("lstm", f"data.corpus={{name: {module}.Forum}}").recipe), quiet=True
        )

    return prepared


def test_users_corpus_is_prepared(prepare: Callable[[str, str, str], Path]) -> None:
    data = dialog.DialogDataModule(
        prepare("forum_valid", DIALOGUE, "{'version': '1'}"), batch_tokens=100
    )
    assert [len(batch.rows) for batch in data.train_dataloader()] == [1]


@pytest.mark.parametrize(
    ("dialogue", "fingerprint", "message"),
    [
        (
            "{'id': '1', 'turns': ['Hi !']}",
            "{}",
            r"dialogues\(\) yields a dict; yield dialog\.Dialogue",
        ),
        (
            "Dialogue('7', ('Hi !', 'Hello .'))",
            "{}",
            r"dialogues\(\) yields dialogue '7' with a str among its turns",
        ),
        (DIALOGUE, "'version 1'", r"fingerprint\(\) returns a str; return a dict"),
    ],
)
def test_users_corpus_with_wrong_types(
    prepare: Callable[[str, str, str], Path],
    request: pytest.FixtureRequest,
    dialogue: str,
    fingerprint: str,
    message: str,
) -> None:
    module = f"forum_{abs(hash(request.node.name))}"
    with pytest.raises(dialog.UserError, match=rf"^{module}\.Forum\.{message}") as raised:
        prepare(module, dialogue, fingerprint)
    assert "\n" not in str(raised.value)
