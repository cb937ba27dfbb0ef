"""generation_config.json: a recipe's search and constraints as transformers defines them."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from dialog.config.components import Component
from dialog.config.schema import GenerationConfig
from dialog.data.tokenizers.tokenizer import BOS, EOS, PAD
from dialog.export.format import lacking_limits, lacking_search, search_and_limits
from dialog.generation.build import BANNED_TOKENS, build_search
from dialog.generation.searches.beam import Beam
from dialog.generation.searches.sampling import Sampling

TOKENS = {
    "pad_token_id": PAD,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "decoder_start_token_id": BOS,
}
"""Ids of the special tokens, by transformers' names."""


class GenerationSettings(NamedTuple):
    """Arguments of transformers' `GenerationConfig`, and what of the recipe they lack."""

    values: dict[str, Any]
    lacking: list[str]  # for people


def generation_settings(generation: GenerationConfig) -> GenerationSettings:
    """Translate the section ``generation`` of a recipe, as far as the definitions are the same.

    A response of transformers has at most ``max_length`` tokens, end token included, so one of
    exactly ``max_length`` tokens ends without it.
    """
    search, limits = search_and_limits(generation)
    if search["name"] == "beam":
        chosen = beam(cast("Beam", build_search(generation.search, generation)))
    elif search["name"] == "sampling":
        chosen = sampling(cast("Sampling", build_search(generation.search, generation)))
    else:
        chosen = greedy(search)
    values = {
        **TOKENS,
        **chosen.values,
        "max_new_tokens": limits["max_length"],
        "suppress_tokens": sorted(BANNED_TOKENS),
    }
    if limits["min_length"]:
        values["min_new_tokens"] = limits["min_length"]
    if limits["no_repeat_ngram"]:
        values["no_repeat_ngram_size"] = limits["no_repeat_ngram"]
    # block_context_ngram is no `encoder_no_repeat_ngram_size`: with that, a response could not end
    # with the tokens that end its source
    supported = ["min_length", "max_length", "no_repeat_ngram"]
    if values["num_beams"] == 1:  # a beam search divides log-probabilities, not logits
        supported.append("repetition_penalty")
        if limits["repetition_penalty"] != 1:
            values["repetition_penalty"] = limits["repetition_penalty"]
    return GenerationSettings(values, [*chosen.lacking, *lacking_limits(limits, supported)])


def greedy(search: Component) -> GenerationSettings:
    """Greedy search, also in place of a search that transformers does not have."""
    return GenerationSettings({"do_sample": False, "num_beams": 1}, lacking_search(search))


def beam(search: Beam) -> GenerationSettings:
    """Beam search that ends once ``width`` hypotheses have ended, ranked by log p /
    length^alpha.
    """
    if search.width == 1:
        return greedy({"name": "greedy"})
    values = {
        "do_sample": False,
        "num_beams": search.width,
        "num_return_sequences": search.candidates,
        "early_stopping": True,
    }
    if search.penalty.normalisation == "average" or not search.penalty.alpha:
        return GenerationSettings({**values, "length_penalty": search.penalty.alpha}, [])
    return GenerationSettings(
        values, ["generation.search.normalisation gnmt, here average with length_penalty 1"]
    )


def sampling(search: Sampling) -> GenerationSettings:
    """Sampling; one truncation, or `min_p` after others, keeps the same tokens in transformers."""
    values: dict[str, Any] = {
        "do_sample": True,
        "num_beams": 1,
        "temperature": search.temperature,
        "top_k": search.top_k,
        "top_p": search.top_p,
    }
    values |= {"min_p": search.min_p} if search.min_p else {}
    values |= {"typical_p": search.typical_p} if search.typical_p < 1 else {}
    before_top_p = bool(search.top_k)
    before_typical_p = bool(search.top_k or search.top_p < 1 or search.min_p)
    lacking = []
    if (search.top_p < 1 and before_top_p) or (search.typical_p < 1 and before_typical_p):
        lacking.append(
            "generation.search: here each truncation renormalises what the one before has kept"
        )
    if search.candidates > 1:
        lacking.append(
            f"generation.search.candidates, the most probable of {search.candidates} draws, here"
            " one draw"
        )
    return GenerationSettings(values, lacking)
