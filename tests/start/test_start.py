"""From a file to a trained run; data that cannot be learned from, and limits of time."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import Request, urlopen

import pytest

from dialog.config.compose import compose
from dialog.data.corpora.jsonl import JsonLines
from dialog.data.dialogue import SPLITS, Dialogue
from dialog.errors import UserError
from dialog.start.outcome import quality_sentence
from dialog.start.pseudonyms import Replacement, pseudonyms, write_pseudonymous
from dialog.start.recipe_text import data_name, with_overrides
from dialog.start.responder import clear_responder
from dialog.start.sizes import FEWEST_EPOCHS, MODELS, MOST_EPOCHS, choose_sizes
from dialog.start.start import StartRequest, next_commands, start
from dialog.start.survey import Survey
from dialog.start.timing import EpochTime, check_limit
from dialog.training.callbacks.stopping import Clock, Ending, Patience

TINY = [
    "model.embedding_size=8",
    "model.encoder.size=8",
    "model.decoder.size=8",
    "model.decoder.attention.size=8",
    "trainer.max_epochs=1",
    "trainer.accelerator=cpu",
    "trainer.enable_progress_bar=false",
]
DRINKS = ("tea", "coffee", "water", "milk")


def write_chats(
    path: Path, count: int = 60, *, speakers: Sequence[str] = "AB", same: bool = False
) -> Path:
    draw = random.Random(3)
    lines = []
    for number in range(count):
        drink = "tea" if same else draw.choice(DRINKS)
        said = [f"Hello {number} .", "What will you have ?", f"Some {drink} .", f"One {drink} !"]
        texts = ["ok"] * 4 if same else said
        turns = [
            {"speaker": speakers[turn % len(speakers)], "text": text}
            for turn, text in enumerate([f"Hello {number} .", *texts])
        ]
        lines.append(json.dumps({"turns": turns}))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def begin(path: Path, *, confirm: Callable[[str], bool] = lambda _: True, **more: Any) -> object:
    return start(StartRequest(path, **{"overrides": TINY, **more}), lambda _: None, confirm)


def test_a_file_becomes_a_recipe_and_a_run_of_its_name(here: Path) -> None:
    said: list[str] = []
    path = write_chats(here / "my chats.v2.jsonl")
    started = start(StartRequest(path, TINY), said.append, lambda _: True)
    assert started.recipe == Path("my_chats.yaml")
    assert started.run.parent == Path("runs/my_chats")
    assert 0 <= started.metrics["f1"] <= 100
    text = "\n".join(said)
    assert "Hello 0 ." in text  # a dialogue to check
    assert text.count("  model") == 5  # replies on held-out dialogues
    assert "60 of 60" in text
    composed = compose(str(started.recipe))
    assert " 2.16 M parameters each" in "\n".join(next_commands(started))
    assert composed.name == "my_chats"
    assert composed.recipe.data.corpus == {"name": "jsonl"}
    assert composed.recipe.trainer.max_time == {"minutes": 30.0}
    assert composed.recipe.model.decoder["size"] == 8
    assert any(str(started.run) in line for line in next_commands(started))
    (compare,) = (line.split() for line in next_commands(started) if " compare " in line)
    assert str(started.recipe) in compare
    key, _, models = compare[compare.index("--vary") + 1].partition("=")
    for model in models.split(","):
        composed = compose(str(started.recipe), [f"{key}={model}", *compare[-2:]])
        contender = composed.recipe
        assert contender.model.dropout == 0.3
        assert not any("dropout" in line for line in composed.dropped)
        assert (contender.trainer.max_time, contender.trainer.max_epochs) == (None, 1)
        assert contender.checkpoint.patience
    order = [text.index(part) for part in ("data.responder=", "Trained: ", "  model")]
    assert order == sorted(order)
    with pytest.raises(UserError, match=r"my_chats\.yaml exists.*chat " + str(started.run)):
        begin(path)


def test_start_serves_in_the_end(here: Path) -> None:
    command = [sys.executable, "-m", "dialog", "start", "chats.jsonl", "--yes", "--serve", *TINY]
    write_chats(here / "chats.jsonl")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        address = next(
            (line.partition(" serves ")[0] for line in process.stdout if " serves chats" in line),
            "",
        )
        body = json.dumps({"messages": [{"role": "user", "content": "Hello ."}]}).encode()
        asked = Request(
            f"{address}/v1/chat/completions", body, {"Content-Type": "application/json"}
        )
        with urlopen(asked, timeout=60) as response:
            (choice,) = json.load(response)["choices"]
        with urlopen(f"{address}/runs", timeout=60) as response:
            (run,) = json.load(response)["runs"]
        process.terminate()
        assert process.wait(timeout=60) == 143
    assert choice["message"]["role"] == "assistant"
    assert dict(run["facts"])["trained on"] == "chats.jsonl (jsonl)"


def test_nothing_is_written_without_consent(here: Path) -> None:
    path = write_chats(here / "chats.jsonl")
    with pytest.raises(UserError, match=r"data\.corpus"):
        begin(path, confirm=lambda _: False)
    assert [entry.name for entry in here.iterdir()] == ["chats.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"speakers": "A"}, "all messages are by 'A'"),
        ({"count": 1}, "too little"),
        ({"same": True}, "all replies are 'ok'"),
    ],
)
def test_what_cannot_be_learned_is_an_error(
    here: Path, arguments: dict[str, Any], message: str
) -> None:
    path = write_chats(here / "chats.jsonl", **arguments)
    with pytest.raises(UserError, match=message) as caught:
        begin(path)
    assert "\n" not in str(caught.value)
    assert len(list(here.iterdir())) == 1


def test_a_column_that_a_recipe_would_resolve_is_an_error(here: Path) -> None:
    path = here / "chats.csv"
    path.write_text("dialogue,speaker,text ${\n" + "1,A,Hello you\n1,B,Hello too\n" * 9)
    with pytest.raises(UserError, match=r"text \$\{"):
        begin(path)


def test_a_time_limit_below_one_epoch_is_an_error(here: Path) -> None:
    path = write_chats(here / "chats.jsonl")
    with pytest.raises(UserError, match=r"--minutes 1e-06.*at least --minutes 1"):
        begin(path, minutes=1e-6)
    with pytest.raises(UserError, match="more than 0"):
        begin(path, minutes=0)
    assert len(list(here.iterdir())) == 1
    check_limit(EpochTime(60.0, 1, 1), 1.0)
    with pytest.raises(UserError, match="about 1 minute on"):
        check_limit(EpochTime(50.0, 1, 1), 0.5)


def test_why_training_ended_is_kept() -> None:
    reasons = []
    for callback in (Patience("loss", patience=3), Clock(timedelta(hours=1)), Clock(timedelta(0))):
        ending = Ending()
        callback.wait_count = 3
        ending.on_train_end(SimpleNamespace(callbacks=[callback]), None)
        reasons.append(ending.reason)
    assert "3" in reasons[0]
    assert reasons[1] == ""
    assert "time" in reasons[2]


def test_malformed_records_are_counted_and_too_many_an_error(here: Path) -> None:
    path = write_chats(here / "chats.jsonl")
    whole = path.read_text()
    path.write_text(whole + '{"turns": 3}\n')
    said: list[str] = []
    with pytest.raises(UserError, match="stopped"):
        start(StartRequest(path, TINY), said.append, lambda _: False)
    assert any("1 dialogue, malformed" in line and "chats.jsonl:61" in line for line in said)
    path.write_text(whole + '{"turns": 3}\n' * 30)
    with pytest.raises(UserError, match=r"30 of 90 .*chats\.jsonl:61"):
        begin(path)


def test_counts_are_those_of_the_responder(here: Path) -> None:
    path = write_chats(here / "chats.jsonl")
    kept = []
    for settings in ([], ["data.responder=B"]):
        said: list[str] = []
        with pytest.raises(UserError, match="stopped"):
            start(StartRequest(path, [*TINY, *settings]), said.append, lambda _: False)
        (line,) = (line for line in said if line.startswith("Kept: "))
        kept.append(int(line.partition("Replies: ")[2].partition(" ")[0]))
    assert kept[0] == 2 * kept[1]


def asked(path: Path, *settings: str, **more: Any) -> str:
    """Return what is said up to the question."""
    said: list[str] = []
    request = StartRequest(path, [*TINY, *settings], **more)
    with pytest.raises(UserError, match="stopped"):
        start(request, said.append, lambda _: False)
    return "\n".join(said)


@pytest.mark.parametrize(
    ("speakers", "expected"),
    [
        (["user", "assistant"], "assistant"),
        (["Kunde", "Agent"], "Agent"),
        (["system", "user", "assistant"], "assistant"),
        (["user", "system"], "system"),
        (["Customer", "Support Agent 2"], "Support Agent 2"),
        (["A", "B"], None),
        (["agent", "bot"], None),
        (["Agent Smith", "Neo"], None),
        (["Anna", "Bo", "agent"], None),
    ],
)
def test_a_clear_responder_is_the_assistant(speakers: list[str], expected: str | None) -> None:
    assert clear_responder(speakers) == expected


def test_clear_roles_restrict_what_is_learned(here: Path) -> None:
    path = write_chats(here / "chats.jsonl", speakers=["user", "agent"])
    text = asked(path)
    assert "the replies of agent;" in text
    assert "data.responder=agent | user" in text
    assert "the replies of all speakers;" in asked(path, "data.responder=null")
    assert "the replies of user;" in asked(path, "data.responder=user")
    # 60 dialogues have 120 replies of the agent, these too few
    assert "the replies of all speakers;" in asked(
        write_chats(here / "few.jsonl", 40, speakers=["user", "agent"])
    )


def test_an_unknown_responder_is_named_with_those_that_exist(here: Path) -> None:
    names = [f"Person {number}" for number in range(20)]
    path = write_chats(here / "chats.jsonl", speakers=["Kunde", "Agent"])
    with pytest.raises(UserError, match=r"data\.responder=agent\b.*: Agent, Kunde$"):
        begin(path, overrides=[*TINY, "data.responder=agent"])
    lines = [
        {"turns": [{"speaker": name, "text": "Hi"}, {"speaker": "Me", "text": "Hi"}]}
        for name in names
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(
        UserError, match=r"data\.responder=person7: .*speakers: Person 7, "
    ) as caught:
        begin(path, overrides=["data.responder=person7"])
    assert str(caught.value).count("Person ") == 10


def test_shorter_pauses_are_advised_for_exports_only(here: Path) -> None:
    turns = [{"speaker": "AB"[number % 2], "text": f"Hi {number}"} for number in range(400)]
    (here / "a.jsonl").write_text(json.dumps({"turns": turns}))
    (here / "b.txt").write_text(
        "".join(f"1.1.24, 10:00 - {turn['speaker']}nna: {turn['text']}\n" for turn in turns)
    )
    with pytest.raises(UserError, match=r"data\.corpus\.gap_hours=1"):
        begin(here / "b.txt")
    with pytest.raises(UserError, match="1 dialogue") as caught:
        begin(here / "a.jsonl")
    assert "gap_hours" not in str(caught.value)
    found = Survey(Counter(dialogues=1), Counter(train=1))
    with pytest.raises(UserError, match=r"1 training reply;"):
        found.check_learnable("a.jsonl", has_pauses=False)


def test_a_chat_without_columns_is_not_asked_for_them() -> None:
    for found in (
        Survey(speakers=Counter(Anna=3)),
        Survey(Counter({"dropped dialogues: single turn": 3}), speakers=Counter(Anna=3, Bo=3)),
    ):
        for has_pauses in (False, True):
            with pytest.raises(UserError, match="two speakers") as caught:
                found.check_learnable("a.txt", has_pauses=has_pauses)
            assert ("column" in str(caught.value)) is not has_pauses


def test_system_prompts_are_counted(here: Path) -> None:
    path = write_chats(here / "chats.jsonl")
    rows = [json.loads(line)["turns"] for line in path.read_text().splitlines()]
    chats = [
        {
            "messages": [
                {"role": "system", "content": "Sell drinks."},
                *(
                    {"role": ("user", "assistant")[t["speaker"] == "B"], "content": t["text"]}
                    for t in row
                ),
            ]
        }
        for row in rows
    ]
    assert "system prompt" not in asked(path)
    path.write_text("\n".join(map(json.dumps, chats)))
    assert "  60 system prompts: " in asked(path)


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ("model.droput=0.3", "model.droput"),
        ("trainer.max_epochs=many", "trainer.max_epochs"),
        ("model.encoder.sise=8", "sise"),
        ("~model.dropout", "~model.dropout"),
        ("optimizer=adamm", "adamm"),
    ],
)
def test_settings_are_checked_before_the_data(here: Path, setting: str, key: str) -> None:
    said: list[str] = []
    with pytest.raises(UserError, match=key) as caught:
        start(StartRequest(write_chats(here / "a.jsonl"), [setting]), said.append, lambda _: True)
    assert said == []
    assert "data.yaml" not in str(caught.value)
    assert ".yaml:" not in str(caught.value)


def test_a_swapped_model_drops_the_sizes_of_the_rules() -> None:
    values = {"defaults": {"model": "lstm"}, "model": {"encoder": {"name": "lstm", "size": 8}}}
    assert with_overrides(values, ["model=other"]) == {"defaults": {"model": "other"}}
    changed = with_overrides(values, ["model.encoder.name=transformer"])["model"]
    assert changed == {"encoder": {"name": "transformer"}}


def test_a_failed_start_leaves_no_copy(here: Path) -> None:
    path = write_chats(here / "chats.jsonl", speakers=["Support", "Anna"])
    for _ in range(2):
        with pytest.raises(UserError, match="at least --minutes 1"):
            begin(path, minutes=1e-6, pseudonyms=True)
        assert [entry.name for entry in here.iterdir()] == ["chats.jsonl"]
    started: Any = begin(
        path,
        pseudonyms=True,
        overrides=[*TINY, "data.corpus.speaker=speaker", "data.responder=Anna"],
    )
    data = compose(str(started.recipe)).recipe.data
    assert data.responder == "Person 1"
    assert data.corpus == {"name": "jsonl"}


def test_sizes_grow_with_the_corpus() -> None:
    words = (1_000, 50_000, 400_000, 5_000_000)
    chosen = [choose_sizes(number, number * 5) for number in words]
    for smaller, larger in pairwise(chosen):
        assert smaller.vocabulary <= larger.vocabulary
        assert smaller.model.hidden <= larger.model.hidden
        assert smaller.batch_tokens <= larger.batch_tokens
        assert smaller.epochs >= larger.epochs
    assert chosen[0].epochs == MOST_EPOCHS
    assert chosen[-1].epochs == FEWEST_EPOCHS
    assert chosen[-1].model is MODELS[-1]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("WhatsApp Chat with Änna.txt", "WhatsApp_Chat_with_Änna"),
        ("a=b,c.csv.gz", "a_b_c"),
        (".hidden", "chats"),
    ],
)
def test_names_of_recipes(path: str, name: str) -> None:
    assert data_name(Path(path)) == name


def test_the_sentence_says_if_the_model_is_not_better() -> None:
    rows = {"most_frequent": {"f1": 12.0}, "random": {"f1": 8.0}}
    metrics = {"examples": 9, "baselines": rows}
    assert "better than both" in quality_sentence({**metrics, "f1": 30.0})
    assert "not better than the most frequent reply:" in quality_sentence({**metrics, "f1": 10.0})
    assert "frequent reply and a random" in quality_sentence({**metrics, "f1": 1.0})
    assert "better" not in quality_sentence({"examples": 9, "f1": 1.0})


def test_pseudonyms(here: Path) -> None:
    names = pseudonyms(["Anna Smith", "user", "Bo", "Anna Smith"])
    assert names == {"Anna Smith": "Person 1", "user": "user", "Bo": "Person 2"}
    text = Replacement(names).text(
        "anna, call +49 170 123456 or 12 ! SMITH: a.b@mail.org https://x.org/?n=Anna Annabel"
    )
    assert text == (
        "Person 1, call +00 000 000000 or 12 ! Person 1: name@example.org https://example.org"
        " Annabel"
    )
    assert Replacement({"Groß": "Person 1"}).text("Groß and GROSS") == "Person 1 and Person 1"
    assert Replacement({"irem": "Person 100"}).text("\u0131rem 12 345") == "Person 100 00 000"
    lines = (
        '{"turns": [{"speaker": "Anna", "text": "Hi Bob"}, {"speaker": "Bob", "text": "12345"}]}'
    )
    (here / "a.jsonl").write_text(lines + "\n")
    assert write_pseudonymous(JsonLines(here / "a.jsonl"), here / "b.jsonl") == (
        1, {"Anna": "Person 1", "Bob": "Person 2"}
    )  # fmt: skip
    (dialogue,) = [e for split in SPLITS for e in JsonLines(here / "b.jsonl").dialogues(split)]
    assert isinstance(dialogue, Dialogue)
    assert [(turn.speaker, turn.text) for turn in dialogue.turns] == [
        ("Person 1", "Hi Person 2"),
        ("Person 2", "00000"),
    ]
    with pytest.raises(UserError, match="exists"):
        write_pseudonymous(JsonLines(here / "a.jsonl"), here / "b.jsonl")
