"""Tokenizer files of an exported folder, with a chat template that lays messages out as in
training.

A chat template writes special tokens as text, so `apply_chat_template` cannot tell them from the
same characters in a message. Their names in the folder therefore begin with a noncharacter of
Unicode, which the template removes from messages: no message becomes a special token.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dialog.atomic import write_json, write_text
from dialog.config.schema import DataConfig
from dialog.data.store.layout import ROLES
from dialog.data.tokenizers.tokenizer import (
    EOS,
    OTHER,
    SELF,
    SPECIAL_TOKENS,
    TRANSFORMERS_CONFIG,
    UNK,
)
from dialog.export.card import literal
from dialog.runs.folder import TOKENIZER
from dialog.runs.run import Run

MARK = "\ufdd0"
NAMES = {token: MARK + token for token in SPECIAL_TOKENS}
"""Names of the special tokens in the folder."""
TEMPLATE = "chat_template.jinja"


def write_tokenizer(run: Run, folder: Path) -> None:
    """Write `tokenizer.json`, `tokenizer_config.json` and `chat_template.jinja`."""
    write_text(
        folder / TOKENIZER, json.dumps(renamed(json.loads(run.tokenizer.json)), ensure_ascii=False)
    )
    config = {key: _renamed_names(value) for key, value in TRANSFORMERS_CONFIG.items()}
    sources = {
        "split_special_tokens": False,
        "model_max_length": run.recipe.data.max_source,
        "truncation_side": "left",
        "model_input_names": ["input_ids", "attention_mask"],
    }
    write_json(folder / "tokenizer_config.json", {**config, **sources})
    write_text(folder / TEMPLATE, chat_template(run.recipe.data))


def renamed(tokenizer: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a `tokenizer.json` with the new names of the special tokens; all ids
    stay.
    """
    model = dict(tokenizer["model"])
    if isinstance(model["vocab"], dict):
        model["vocab"] = {
            NAMES.get(token, token): number for token, number in model["vocab"].items()
        }
    else:
        model["vocab"] = [[NAMES.get(token, token), *score] for token, *score in model["vocab"]]
    if "unk_token" in model:
        model["unk_token"] = _renamed_names(model["unk_token"])
    added = [
        {**token, "content": NAMES.get(token["content"], token["content"])}
        for token in tokenizer["added_tokens"]
    ]
    return {**tokenizer, "model": model, "added_tokens": added}


def chat_template(data: DataConfig) -> str:
    """Return the Jinja template that lays out a chat: the user's messages are the other speaker's
    turns.

    It has the recipe's `layout`, `context_turns`, `normalise` and `silence`, but not `max_source`:
    a template cannot count tokens.
    """
    return "".join(f"{line}\n" for line in _template_lines(data))


def _template_lines(data: DataConfig) -> Iterator[str]:
    other, own, end, unknown = (_name(token) for token in (OTHER, SELF, EOS, UNK))
    roles = data.layout == ROLES
    turns = {None: "messages", 0: "[]"}.get(
        data.context_turns, f"messages[-{data.context_turns} :]"
    )
    text = f"message['content'] | replace({literal(MARK)}, '')" + (
        " | trim" if data.normalise else ""
    )
    yield "{%- set source = namespace(text='', separator='') -%}"
    if data.silence is not None:
        silence = f"{own} + {literal(data.silence)}" if roles else literal(data.silence)
        separator = "''" if roles else unknown
        yield "{%- if messages | length % 2 == 0 -%}"
        yield f"{{%- set source.text = {silence} -%}}{{%- set source.separator = {separator} -%}}"
        yield "{%- endif -%}"
    yield f"{{%- for message in {turns} -%}}"
    yield "{%- if message['role'] not in ('user', 'assistant') -%}"
    yield "{{- raise_exception('the roles are user and assistant, not ' + message['role']) -}}"
    yield "{%- endif -%}"
    role = (
        f"({own} if message['role'] == 'assistant' else {other})" if roles else "source.separator"
    )
    yield f"{{%- set source.text = source.text + {role} + ({text}) -%}}"
    if not roles:
        yield f"{{%- set source.separator = {unknown} -%}}"
    yield "{%- endfor -%}"
    yield f"{{{{- source.text + {end} -}}}}" if roles else f"{{{{- source.text or {unknown} -}}}}"


def _name(token: int) -> str:
    return literal(NAMES[SPECIAL_TOKENS[token]])


def _renamed_names(value: Any) -> Any:
    if isinstance(value, list):
        return [_renamed_names(part) for part in value]
    return NAMES.get(value, value) if isinstance(value, str) else value
