"""Initial weights from another run or from word vectors, and frozen parameters.

Shapes: V vocabulary, E embedding size.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from dialog.config.schema import ModelConfig
from dialog.data.reading.files import require_file, sha256
from dialog.data.reading.word_vectors import check_vectors, find_vectors
from dialog.data.tokenizers.tokenizer import SPECIAL_TOKENS, Tokenizer
from dialog.errors import UserError
from dialog.models.seq2seq import Seq2Seq
from dialog.training.checkpoints.manifest import check_intact

log = logging.getLogger("dialog")

SHOWN = 3
"""Parameters named in a log line."""

WANTED = "model.init_from should name a run folder with model.safetensors"


def check_initial_weights(settings: ModelConfig) -> None:
    """Check the sources of initial weights without reading the weights.

    Raises:
        UserError: a file is missing, vectors have another size, or there are two sources.
    """
    init_from = settings.init_from
    vectors = settings.vectors
    if init_from is not None and vectors is not None:
        raise UserError(
            "model.init_from and model.vectors both initialise the embeddings; remove one"
        )
    if init_from is not None:
        for name in ("model.safetensors", "tokenizer.json"):
            require_file(Path(init_from) / name, WANTED)
    if vectors is not None:
        check_vectors(Path(vectors), settings.embedding_size)


def load_initial_weights(
    settings: ModelConfig,
    model: Seq2Seq,
    build: Callable[[ModelConfig, int], nn.Module],
    tokenizer: Tokenizer,
) -> Mapping[str, Any]:
    """Load the weights that a recipe names into a network; return what was loaded, for
    initial.json.

    Args:
        settings: The ``model`` section.
        model: The network.
        build: Builds the network for a vocabulary of a given size.
        tokenizer: The network's tokenizer.
    """
    if settings.init_from is not None:
        with torch.device("meta"):
            larger = build(settings, len(tokenizer) + 1)
        return {"init_from": load_from_run(model, larger, tokenizer, Path(settings.init_from))}
    if settings.vectors is not None:
        return {"vectors": load_vectors(model, tokenizer, Path(settings.vectors))}
    return {}


def freeze(model: nn.Module, prefixes: Sequence[str]) -> None:
    """Freeze the parameters in modules, given by paths such as ``encoder.layers.0``.

    Raises:
        UserError: the network has no such module.
    """
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for prefix in prefixes:
        inside = [name for name in parameters if name == prefix or name.startswith(f"{prefix}.")]
        if not inside:
            modules = dict.fromkeys(name.partition(".")[0] for name in parameters)
            raise UserError(
                f"frozen: the network has no module {prefix!r}; use one of {', '.join(modules)}, or"
                " inside"
            )
        for name in inside:
            parameters[name].requires_grad_(False)


# ------------------------------------------------------------------ another run


@torch.no_grad()
def load_from_run(
    model: Seq2Seq, larger: nn.Module, tokenizer: Tokenizer, folder: Path
) -> dict[str, Any]:
    """Load the weights of a run by name; return the names that were and were not loaded.

    Rows that belong to tokens are matched by the tokens' text. Only the run's weights and tokenizer
    are read: its recipe is not, and no code is run.

    Args:
        model: The network.
        larger: The same for a vocabulary with one more token, on the meta device: dimensions that
            differ have rows.
        tokenizer: The network's tokenizer.
        folder: The run's folder.

    Raises:
        UserError: a file is missing or damaged, or no parameter matches.
    """
    path = folder / "model.safetensors"
    vocabulary = folder / "tokenizer.json"
    for file in (path, vocabulary):
        check_intact(file)
    source = _read_weights(path)
    pairs = _shared_tokens(tokenizer, Tokenizer.load(vocabulary))
    row_dimensions = _row_dimensions(model, larger)
    taken = []
    unlike = {}
    missing = []
    for name, parameter in model.named_parameters():
        key = next((alias for alias in _aliases(model, parameter) if alias in source), None)
        if key is None:
            missing.append(name)
        elif _copy(parameter, source[key], row_dimensions.get(name), pairs):
            taken.append(name)
        else:
            unlike[name] = {"here": list(parameter.shape), "there": list(source[key].shape)}
    if not taken:
        raise UserError(
            f"{path}: no parameter matches this network by name and shape; "
            "was it trained with a different architecture?"
        )
    unused = sorted(source.keys() - dict(model.named_parameters(remove_duplicate=False)).keys())
    left = [*missing, *unlike]
    more = f" and {len(left) - SHOWN} more, listed in initial.json" if len(left) > SHOWN else ""
    log.info(
        "%s: %s of %s parameters loaded, with %s of %s tokens%s",
        *(folder, len(taken), len(taken) + len(left), len(pairs), len(tokenizer)),
        f"; not loaded: {', '.join(left[:SHOWN])}{more}" if left else "",
    )
    marks = {
        "folder": str(folder),
        "sha256": sha256(path),
        "tokens": len(pairs),
        "vocabulary": len(tokenizer),
    }
    return {**marks, "taken": taken, "missing": missing, "unlike": unlike, "unused": unused}


def _read_weights(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file, tied ones under all of their names."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
            tied = {
                name: tensors[kept]
                for name, kept in (file.metadata() or {}).items()
                if kept in tensors
            }
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(
            f"{path}: cannot be read ({' '.join(str(error).split())}); {WANTED}"
        ) from error
    return {**tied, **tensors}


def _aliases(model: nn.Module, parameter: nn.Parameter) -> list[str]:
    """Return all names of a parameter, several if it is tied."""
    return [
        name for name, other in model.named_parameters(remove_duplicate=False) if other is parameter
    ]


def _row_dimensions(model: nn.Module, larger: nn.Module) -> dict[str, int]:
    """Return the dimension of each parameter that grows with the vocabulary."""
    shapes = {name: parameter.shape for name, parameter in larger.named_parameters()}
    growing = {}
    for name, parameter in model.named_parameters():
        sizes = zip(parameter.shape, shapes[name], strict=True)
        for dimension, (small, large) in enumerate(sizes):
            if small != large:
                growing[name] = dimension
    return growing


def _shared_tokens(here: Tokenizer, there: Tokenizer) -> Tensor:
    """Return the ids, here and there, of each token that both tokenizers have [n, 2]."""
    if here.fingerprint == there.fingerprint:
        return torch.arange(len(here)).unsqueeze(1).expand(-1, 2)
    ids = {there.label(token): token for token in reversed(range(len(there)))}
    labels = [here.label(token) for token in range(len(here))]
    return torch.tensor([(token, ids[label]) for token, label in enumerate(labels) if label in ids])


def _copy(parameter: Tensor, value: Tensor, dimension: int | None, pairs: Tensor) -> bool:
    """Copy a value, or its rows of shared tokens along ``dimension``; return whether the shapes
    match.
    """
    if dimension is None:
        if value.shape != parameter.shape:
            return False
        parameter.copy_(value)
        return True
    here, there = pairs.unbind(1)
    if value.dim() != parameter.dim() or _without(value, dimension) != _without(
        parameter, dimension
    ):
        return False
    if int(there.max()) >= value.size(dimension):
        return False
    parameter.index_copy_(
        dimension, here.to(parameter.device), value.index_select(dimension, there).to(parameter)
    )
    return True


def _without(value: Tensor, dimension: int) -> list[int]:
    """Return a shape without one of its dimensions."""
    return [size for place, size in enumerate(value.shape) if place != dimension]


# ------------------------------------------------------------------ word vectors


@torch.no_grad()
def load_vectors(model: Seq2Seq, tokenizer: Tokenizer, path: Path) -> dict[str, Any]:
    """Load a file's vectors into the embeddings of tokens with the same text; return how many.

    A token at the beginning of a word takes the vector of that word, or of its lower-case form. All
    vectors are scaled by one factor to mean square 1 / E, that of initialised embeddings.

    Raises:
        UserError: the file is missing, its vectors have another size, or no line is a token's.
    """
    size = model.source_embedding.table.embedding_dim
    texts = {
        token: tokenizer.label(token).strip("▁")
        for token in range(len(SPECIAL_TOKENS), len(tokenizer))
    }
    file = find_vectors(
        path, size, {form for text in texts.values() for form in (text, text.lower())}
    )
    vectors = {
        token: file.vectors.get(text, file.vectors.get(text.lower()))
        for token, text in texts.items()
    }
    covered = {token: vector for token, vector in vectors.items() if vector is not None}
    if not covered:
        raise UserError(
            f"{path}: none of its {file.lines} lines is a token's ({file.malformed} are malformed)"
        )
    rows = torch.stack([torch.from_numpy(vector) for vector in covered.values()])  # [n, E]
    rows *= 1 / (size * rows.square().mean()).sqrt()
    for embedding in (model.source_embedding, model.target_embedding):
        weight = embedding.table.weight  # [V, E]
        weight[list(covered)] = rows.to(weight)
    log.info(
        "%s: vectors of %s of %s tokens; %s of %s lines are malformed",
        *(path, len(covered), len(tokenizer), file.malformed, file.lines),
    )
    coverage = {"tokens": len(covered), "vocabulary": len(tokenizer)}
    return {
        "path": str(path),
        "sha256": sha256(path),
        **coverage,
        "lines": file.lines,
        "malformed": file.malformed,
    }
