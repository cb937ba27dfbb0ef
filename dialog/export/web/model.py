"""One model of the page: two ONNX files, their weights, and a description of all that its scripts
need.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from dialog.config.components import Component
from dialog.config.schema import GenerationConfig
from dialog.data.tokenizers.tokenizer import Tokenizer
from dialog.errors import RunError, UserError
from dialog.export.export import check_run
from dialog.export.format import lacking_limits, search_and_limits
from dialog.export.formats.onnx import Onnx
from dialog.export.formats.onnx.writing import DESCRIPTION, ENCODER, STEP, write_networks
from dialog.export.parity import Parity, measure_parity
from dialog.export.web.weights import EXPANDED, compressed, pack_files, rounded
from dialog.generation.build import BANNED_TOKENS
from dialog.generation.searches.family import SEARCHES
from dialog.json_files import read_json
from dialog.paths import display_name
from dialog.runs.facts import run_facts
from dialog.runs.run import Run

LIMITS = (
    "min_length",
    "max_length",
    "no_repeat_ngram",
    "block_context_ngram",
    "repetition_penalty",
    "frequency_penalty",
    "prefix",
)
"""Constraints that `search.js` has."""
SEARCH_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "greedy": (),
    "sampling": ("temperature", "top_k", "top_p", "min_p", "seed"),
    "beam": ("width", "candidates", "length_penalty", "normalisation"),
}
"""Searches that `search.js` has, with their arguments; its draws have no seed."""
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
"""The pre-tokenizer that `tokenizer.js` has."""


class WebModel(NamedTuple):
    """A model of the page."""

    name: str
    files: dict[str, bytes]
    parity: Parity
    facts: dict[str, Any]


def web_model(run: Run, name: str, kind: str) -> WebModel:
    """Translate a run, round its weights, and compare what the page will compute with the run with
    the same rounded weights.

    Raises:
        UserError: the page lacks a part, a constraint, the search or the tokenizer of the run.
        RunError: the translated network differs from the run.
    """
    check_page(run)
    model = rounded(run.model, kind)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_networks(model, folder)
        paths = [folder / ENCODER, folder / STEP]
        weights = pack_files(paths, kind)
        (folder / EXPANDED).write_bytes(weights.expanded())
        parity = measure_parity(model, Onnx().load(folder), max_source=run.recipe.data.max_source)
        if not parity.holds:
            raise RunError(f"{name}: ONNX Runtime does not compute what the run does: {parity}")
        networks = read_json(folder / DESCRIPTION)
        graphs = [path.read_bytes() for path in paths]
    facts = {
        "run": display_name(run.folder),
        **run_facts(run),
        "weights": kind,
    }
    description = {
        "name": name,
        "networks": networks,
        "weights": weights.kinds,
        "tokenizer": tokenizer_tables(run.tokenizer),
        "reading": reading(run),
        **generation(run.recipe.generation, run.tokenizer),
    }
    files = {
        "json.gz": json.dumps(description, ensure_ascii=False, separators=(",", ":")).encode(),
        f"{ENCODER}.gz": graphs[0],
        f"{STEP}.gz": graphs[1],
        "weights.gz": weights.data,
    }
    packed = {ending: compressed(content) for ending, content in files.items()}
    return WebModel(name, packed, parity, facts)


def check_page(run: Run) -> None:
    """Check that a page can hold a run, before anything is computed.

    Raises:
        UserError: it cannot; the message names the key of the recipe and what to do.
    """
    check_run(run)
    Onnx().check(run.model)
    if not is_byte_level(json.loads(run.tokenizer.json)):
        kind = run.recipe.data.tokenizer.get("name")
        raise UserError(
            f"data.tokenizer: a page has byte-level BPE only, not {kind!r}; use --format onnx or"
            " train with the tokenizer byte_bpe"
        )
    search, limits = search_and_limits(run.recipe.generation)
    if lacking := lacking_limits(limits, LIMITS):
        raise UserError(
            f"{lacking[0]}: a page cannot ensure it; leave it out for the page:"
            f" {lacking[0]}={json.dumps(getattr(GenerationConfig(), lacking[0].split('.')[1]))}"
        )
    check_search(search)


def check_search(search: Component) -> None:
    """Check that `search.js` has a search with these arguments.

    Raises:
        UserError: it has not.
    """
    name = search["name"]
    choices = "generation=greedy, generation=beam5 or generation=sampling"
    if name not in SEARCH_ARGUMENTS:
        raise UserError(f"generation.search: a page has no search {name!r}; choose {choices}")
    defaults = SEARCHES.arguments(name)
    for key, value in search.items():
        if key not in (*SEARCH_ARGUMENTS[name], "name") and value != defaults[key].default:
            raise UserError(f"generation.search.{key}: a page has no {key}; choose {choices}")


def is_byte_level(tokenizer: Mapping[str, Any]) -> bool:
    """Return whether a `tokenizer.json` is what `tokenizer.js` computes."""
    model = tokenizer["model"]
    splits = tokenizer["pre_tokenizer"] or {}
    plain = ("unk_token", "continuing_subword_prefix", "end_of_word_suffix", "dropout")
    return (
        model["type"] == "BPE"
        and all(not model.get(key) for key in (*plain, "byte_fallback", "ignore_merges"))
        and all(splits.get(key) == value for key, value in BYTE_LEVEL.items())
        and (tokenizer["decoder"] or {}).get("type") == "ByteLevel"
        and tokenizer["normalizer"] == {"type": "NFC"}
    )


def tokenizer_tables(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the tokens in the order of their ids, and the merges, of a byte-level BPE."""
    model = json.loads(tokenizer.json)["model"]
    names = sorted(model["vocab"], key=model["vocab"].__getitem__)
    pairs = (pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"])
    return {"tokens": names, "merges": [list(pair) for pair in pairs]}


def reading(run: Run) -> dict[str, Any]:
    """Return how a context becomes a source; see `Responder`."""
    data = run.recipe.data
    return {
        "maxSource": data.max_source,
        "contextTurns": data.context_turns,
        "normalise": data.normalise,
        "layout": data.layout,
        "silence": None if data.silence is None else run.tokenizer.encode(data.silence),
    }


def generation(config: GenerationConfig, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the search of a recipe with all arguments, and its constraints."""
    search, limits = search_and_limits(config)
    name = search["name"]
    defaults = SEARCHES.arguments(name)
    values = {
        key: search.get(key, defaults[key].default)
        for key in SEARCH_ARGUMENTS[name]
        if key != "seed"
    }
    kept = {key: limits[key] for key in LIMITS}
    kept["prefix"] = tokenizer.encode(limits["prefix"])
    return {"search": {"name": name, **values}, "limits": {**kept, "special": [*BANNED_TOKENS]}}
