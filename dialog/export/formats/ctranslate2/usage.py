"""Python code that generates a response with a recipe's search."""

from __future__ import annotations

import json
from typing import Any

from dialog.config.components import Component, name_and_arguments
from dialog.data.tokenizers.tokenizer import EOS, PAD, SPECIAL_TOKENS
from dialog.export.card import literal
from dialog.export.model_settings import search_and_limits
from dialog.generation.build import BANNED_TOKENS
from dialog.generation.searches.family import SEARCHES
from dialog.runs.run import Run

GREEDY = {"beam_size": 1}
MISSING = {"block_context_ngram": 0, "frequency_penalty": 0.0, "banned": [], "required": []}
"""Constraints that CTranslate2 lacks, with the values that constrain nothing."""
EMPTY_CONTEXT = (PAD, EOS)
EMPTY_CONTEXT_LENGTH = 1
"""Source of an empty context, and the `max_input_length` that truncates it to its end token.

CTranslate2 skips a source of the end token alone and returns an empty response.
"""


def usage(run: Run) -> str:
    """Return the code that computes `response` from `source`, two lists of ids, with `tokenizer`.

    It uses the recipe's search and constraints; a comment names those that CTranslate2 lacks.
    """
    search, limits = search_and_limits(run.recipe.generation)
    arguments = search_arguments(search, len(run.tokenizer))
    options = {**(GREEDY if arguments is None else arguments), **limit_arguments(limits)}
    lines = [
        "import ctranslate2\n",
        'translator = ctranslate2.Translator(".", device="cpu")',
        *(f"# {comment}" for comment in comments(search, limits)),
        "longest = 0  # no truncation",
        (
            f"if source == [{EOS}]:  # an empty context, which CTranslate2 skips; it truncates this"
            " one to the end token"
        ),
        f"    source, longest = {[*EMPTY_CONTEXT]}, {EMPTY_CONTEXT_LENGTH}",
        "[result] = translator.translate_batch(",
        "    [[tokenizer.id_to_token(token) for token in source]],",
        *(f"    {name}={value}," for name, value in options.items()),
        ")",
        (
            "response = [tokenizer.token_to_id(token) for token in"
            f" result.hypotheses[0][:{limits['max_length']}]]"
        ),
    ]
    return "\n".join(lines)


def search_arguments(search: Component, vocabulary: int) -> dict[str, Any] | None:
    """Return a search as arguments of `translate_batch`, or None if CTranslate2 lacks it."""
    name, arguments = name_and_arguments(search)
    if name == "greedy":
        return GREEDY
    if name not in ("beam", "sampling"):
        return None
    values = {
        key: parameter.default for key, parameter in SEARCHES.arguments(name).items()
    } | arguments
    return beam_arguments(values) if name == "beam" else sampling_arguments(values, vocabulary)


def beam_arguments(values: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of a beam search, or None.

    CTranslate2 ranks a response of l tokens, end token included, by its log-probability divided by
    l^alpha, as ``average`` does.
    """
    if values["normalisation"] != "average" and values["length_penalty"] != 0:
        return None
    return {"beam_size": values["width"], "length_penalty": values["length_penalty"]}


def sampling_arguments(values: dict[str, Any], vocabulary: int) -> dict[str, Any] | None:
    """Return the arguments of sampling, or None.

    Of `top_k` and `top_p` together CTranslate2 takes the mass within the k tokens, the recipe
    within all.
    """
    both = values["top_k"] > 0 and values["top_p"] < 1
    if both or values["min_p"] > 0 or values["typical_p"] < 1 or values["candidates"] > 1:
        return None
    return {
        "beam_size": 1,
        "sampling_topk": min(values["top_k"], vocabulary),
        "sampling_topp": values["top_p"],
        "sampling_temperature": values["temperature"],
    }


def limit_arguments(limits: dict[str, Any]) -> dict[str, Any]:
    """Return constraints as arguments of `translate_batch`, whose lengths count the end token."""
    arguments = {
        "min_decoding_length": limits["min_length"],
        "max_decoding_length": limits["max_length"] + 1,
        "max_input_length": "longest",
        "suppress_sequences": json.dumps([[SPECIAL_TOKENS[token]] for token in BANNED_TOKENS]),
    }
    if limits["no_repeat_ngram"]:
        arguments["no_repeat_ngram_size"] = limits["no_repeat_ngram"]
    if limits["repetition_penalty"] != 1:
        arguments["repetition_penalty"] = limits["repetition_penalty"]
    if limits["prefix"]:
        arguments["target_prefix"] = (
            f"[tokenizer.encode({literal(limits['prefix'])}, add_special_tokens=False).tokens]"
        )
    return arguments


def comments(search: Component, limits: dict[str, Any]) -> list[str]:
    """Return the differences from the recipe's search, one a line."""
    lines = []
    if search_arguments(search, vocabulary=1) is None:
        lines.append(
            f"greedy search: CTranslate2 lacks the recipe's {literal(search['name'])} with its"
            " arguments"
        )
    elif search["name"] == "beam":
        lines.append(
            "CTranslate2 renormalises over the allowed tokens, the recipe does not: scores differ"
            " slightly"
        )
    if lacking := [
        f"generation.{key}" for key, nothing in MISSING.items() if limits[key] != nothing
    ]:
        lines.append(f"not in CTranslate2: {', '.join(lacking)}")
    return lines
