"""The chat template lays messages out as in training, and no message becomes a special token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jinja2.exceptions import TemplateError
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer

from dialog.data.store.layout import LAYOUTS
from dialog.data.tokenizers import byte_bpe, characters, file, word
from dialog.data.tokenizers.tokenizer import EOS, OTHER, SELF, UNK, Tokenizer
from dialog.export.formats.huggingface.chat import MARK, chat_template, write_tokenizer
from dialog.export.formats.huggingface.pipeline import truncated
from dialog.runs.run import Run

TEXTS = [
    "hello there , how are you ?",
    "Fine . And you ?",
    "what is the first word ?",
    "</s> <other> <unk>",
] * 20


def unigram_file(folder: Path) -> Tokenizer:
    """A unigram LM that a user trained with `tokenizers`."""
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.normalizer, tokenizer.decoder = normalizers.NFC(), decoders.ByteLevel()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.UnigramTrainer(
        vocab_size=300, initial_alphabet=alphabet, unk_token="?", show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.save(str(folder / "given.json"))
    return file(path=str(folder / "given.json"))


TOKENIZERS: dict[str, Callable[[Path], Tokenizer]] = {
    "byte_bpe": lambda folder: byte_bpe(TEXTS, vocabulary=300),
    "file": unigram_file,
    "word": lambda folder: word(TEXTS, lower=True),
    "characters": lambda folder: characters(TEXTS),
}
CONTEXTS = st.lists(
    st.text("a e.?\n \u00e9</s>", max_size=12) | st.sampled_from(TEXTS), min_size=1, max_size=5
)
Opened = tuple[Run, Any]


@pytest.fixture(scope="module", params=TOKENIZERS)
def opened(
    request: pytest.FixtureRequest,
    trained_run: Callable[[str], Run],
    tmp_path_factory: pytest.TempPathFactory,
) -> Opened:
    """A run with a tokenizer, and what transformers opens."""
    folder = tmp_path_factory.mktemp(request.param)
    run = replace(trained_run("lstm"), tokenizer=TOKENIZERS[request.param](folder))
    write_tokenizer(run, folder)
    return run, AutoTokenizer.from_pretrained(str(folder))


def with_data(run: Run, **data: object) -> Run:
    return replace(run, recipe=replace(run.recipe, data=replace(run.recipe.data, **data)))


def chat(context: Sequence[str]) -> list[dict[str, str]]:
    roles = ("assistant" if place % 2 == 0 else "user" for place in range(len(context), 0, -1))
    return [{"role": role, "content": text} for role, text in zip(roles, context, strict=True)]


@settings(max_examples=30)
@example(context=[" "], layout="separated", context_turns=None, normalise=False, silence=None)
@given(
    context=CONTEXTS,
    layout=st.sampled_from(LAYOUTS),
    context_turns=st.sampled_from([None, 0, 1, 2, 3]),
    normalise=st.booleans(),
    silence=st.sampled_from([None, "__SILENCE__ `\\'", " a "]),
)
def test_messages_are_laid_out_as_in_training(
    opened: Opened, context: list[str], **data: object
) -> None:
    run, tokenizer = opened
    run = with_data(run, max_source=2000, **data)
    ids = tokenizer.apply_chat_template(
        chat(context), chat_template=chat_template(run.recipe.data)
    )["input_ids"]
    assert truncated(ids, 2000) == run.responder.encode(run.responder.example(context))[0]


@settings(max_examples=30)
@given(context=CONTEXTS, longest=st.integers(1, 20), context_turns=st.sampled_from([None, 2]))
def test_the_pipeline_truncates_as_in_training(
    opened: Opened, context: list[str], longest: int, **data: object
) -> None:
    run, tokenizer = opened
    run = with_data(run, max_source=longest, **data)
    ids = tokenizer.apply_chat_template(
        chat(context), chat_template=chat_template(run.recipe.data)
    )["input_ids"]
    assert truncated(ids, longest) == run.responder.encode(run.responder.example(context))[0]


def test_no_text_becomes_a_special_token(opened: Opened) -> None:
    _, tokenizer = opened
    names = tokenizer.convert_ids_to_tokens([EOS, OTHER, SELF, UNK])
    hostile = "".join(name.removeprefix(MARK) for name in names)
    assert not {EOS, OTHER, SELF} & set(tokenizer(hostile)["input_ids"])
    ids = tokenizer.apply_chat_template(chat([hostile + "".join(names)]))["input_ids"]
    assert (ids[0], ids[-1]) == (OTHER, EOS)
    assert not {EOS, OTHER, SELF} & set(ids[1:-1])


def test_an_unknown_role_is_an_error(opened: Opened) -> None:
    with pytest.raises(TemplateError, match="system"):
        opened[1].apply_chat_template([{"role": "system", "content": "be kind"}])
