"""Weights that a network does not draw but takes from elsewhere, and those that it keeps as they are.

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

log = logging.getLogger("dialog")

SHOWN = 3
"""Parameters that are named in a line for the eye."""

WANTED = "model.init_from should name a run folder whose training has ended"


def check_initial(settings: ModelConfig) -> None:
    """Refuse what weights cannot be taken from.

    Raises:
        UserError: no such run, no such file, vectors of another size, or both.
    """
    init_from, vectors = settings.init_from, settings.vectors
    if init_from is not None and vectors is not None:
        raise UserError("model.init_from and model.vectors both say what embeddings begin with; take one out")
    if init_from is not None:
        for name in ("model.safetensors", "tokenizer.json"):
            require_file(Path(init_from) / name, WANTED)
    if vectors is not None:
        check_vectors(Path(vectors), settings.embedding_size)


def freeze(model: nn.Module, prefixes: Sequence[str]) -> None:
    """Keep the parameters whose names begin with one of the module paths, such as ``encoder.layers.0``, as they are.

    Raises:
        UserError: the network has nothing of that name.
    """
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for prefix in prefixes:
        inside = [name for name in parameters if name == prefix or name.startswith(f"{prefix}.")]
        if not inside:
            tops = dict.fromkeys(name.partition(".")[0] for name in parameters)
            raise UserError(f"frozen: the network has no {prefix!r}; it has {', '.join(tops)} and what is in them")
        for name in inside:
            parameters[name].requires_grad_(False)


# ------------------------------------------------------------------ another run


@torch.no_grad()
def take_weights(model: Seq2Seq, larger: nn.Module, tokenizer: Tokenizer, folder: Path) -> dict[str, Any]:
    """Fill a network with the weights of a run, by name; what was and what was not taken.

    What has a row for each token takes the rows of those tokens that the run's tokenizer has too, by their text. No
    code of the folder is run, and its recipe is not read: weights and tokenizer are all that is looked at.

    Args:
        model: The network.
        larger: The same, for a vocabulary of one token more (on the meta device, say): so one sees what has rows.
        tokenizer: The network's.
        folder: The run's.

    Raises:
        UserError: the run's files are not there or damaged, or nothing in them fits.
    """
    path = folder / "model.safetensors"
    there = _weights(path)
    pairs = _pairs(tokenizer, Tokenizer.load(folder / "tokenizer.json"))
    rows = _rows(model, larger)
    taken, unlike, missing = [], {}, []
    for name, parameter in model.named_parameters():
        named = next((each for each in _names(model, parameter) if each in there), None)
        if named is None:
            missing.append(name)
        elif _copied(parameter, there[named], rows.get(name), pairs):
            taken.append(name)
        else:
            unlike[name] = {"here": list(parameter.shape), "there": list(there[named].shape)}
    if not taken:
        raise UserError(f"{path}: no parameter has the name and the shape of one of the network's; is it of its kind?")
    unused = sorted(there.keys() - dict(model.named_parameters(remove_duplicate=False)).keys())
    left = [*missing, *unlike]
    more = f" and {len(left) - SHOWN} more, as initial.json lists them" if len(left) > SHOWN else ""
    log.info(
        "%s: %s of %s parameters taken, with %s of %s tokens%s",
        *(folder, len(taken), len(taken) + len(left), len(pairs), len(tokenizer)),
        f"; not taken: {', '.join(left[:SHOWN])}{more}" if left else "",
    )
    marks = {"folder": str(folder), "sha256": sha256(path), "tokens": len(pairs), "vocabulary": len(tokenizer)}
    return {**marks, "taken": taken, "missing": missing, "unlike": unlike, "unused": unused}


def _weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, under all of their names."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
            shared = {name: tensors[kept] for name, kept in (file.metadata() or {}).items() if kept in tensors}
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({' '.join(str(error).split())}); {WANTED}") from error
    return {**shared, **tensors}


def _names(model: nn.Module, wanted: nn.Parameter) -> list[str]:
    """All names of a parameter, which may be shared."""
    return [name for name, parameter in model.named_parameters(remove_duplicate=False) if parameter is wanted]


def _rows(model: nn.Module, larger: nn.Module) -> dict[str, int]:
    """The dimension of each parameter that grows with the vocabulary."""
    shapes = {name: parameter.shape for name, parameter in larger.named_parameters()}
    pairs = ((name, list(zip(each.shape, shapes[name], strict=True))) for name, each in model.named_parameters())
    return {name: at for name, sizes in pairs for at, (small, large) in enumerate(sizes) if small != large}


def _pairs(here: Tokenizer, there: Tokenizer) -> Tensor:
    """The ids of each token that both have, here and there [n, 2]."""
    if here.fingerprint == there.fingerprint:
        return torch.arange(len(here)).unsqueeze(1).expand(-1, 2)
    known = {there.label(token): token for token in reversed(range(len(there)))}
    labels = [here.label(token) for token in range(len(here))]
    return torch.tensor([(token, known[label]) for token, label in enumerate(labels) if label in known])


def _copied(parameter: Tensor, value: Tensor, dimension: int | None, pairs: Tensor) -> bool:
    """Whether a value fits a parameter, which then has it."""
    if dimension is not None and value.dim() == parameter.dim():
        value_rows = value.shape[dimension]
        if int(pairs[:, 1].max()) < value_rows and _elsewhere(parameter, dimension) == _elsewhere(value, dimension):
            taken = value.index_select(dimension, pairs[:, 1]).to(parameter)
            parameter.index_copy_(dimension, pairs[:, 0].to(parameter.device), taken)
            return True
        return False
    if value.shape != parameter.shape:
        return False
    parameter.copy_(value)
    return True


def _elsewhere(value: Tensor, dimension: int) -> list[int]:
    """A shape without one of its dimensions."""
    return [size for at, size in enumerate(value.shape) if at != dimension]


# ------------------------------------------------------------------ word vectors


@torch.no_grad()
def take_vectors(model: Seq2Seq, tokenizer: Tokenizer, path: Path) -> dict[str, Any]:
    """Fill the embeddings with a file's vectors, of those tokens whose text it has; how many these are.

    A token that begins a word has the vector of that word, also of its lower-case form. All are multiplied by one
    number, so that their mean square is 1 / E, that of embeddings which are drawn.

    Raises:
        UserError: there is no such file, its vectors have another size, or none is a token's.
    """
    size = model.source_embedding.table.embedding_dim
    texts = {token: tokenizer.label(token).strip("▁") for token in range(len(SPECIAL_TOKENS), len(tokenizer))}
    found = find_vectors(path, size, {form for text in texts.values() for form in (text, text.lower())})
    both = {token: found.vectors.get(text, found.vectors.get(text.lower())) for token, text in texts.items()}
    covered = {token: vector for token, vector in both.items() if vector is not None}
    if not covered:
        raise UserError(f"{path}: none of its {found.lines} lines is a token's ({found.malformed} are malformed)")
    rows = torch.stack([torch.from_numpy(vector) for vector in covered.values()])  # [n, E]
    rows *= 1 / (size * rows.square().mean()).sqrt()
    for embedding in (model.source_embedding, model.target_embedding):
        weight = embedding.table.weight  # [V, E]
        weight[list(covered)] = rows.to(weight)
    log.info(
        "%s: vectors of %s of %s tokens; %s of %s lines are malformed",
        *(path, len(covered), len(tokenizer), found.malformed, found.lines),
    )
    coverage = {"tokens": len(covered), "vocabulary": len(tokenizer)}
    return {"path": str(path), "sha256": sha256(path), **coverage, "lines": found.lines, "malformed": found.malformed}


def initialise(
    settings: ModelConfig, model: Seq2Seq, make: Callable[[ModelConfig, int], nn.Module], tokenizer: Tokenizer
) -> Mapping[str, Any]:
    """Take the weights that a recipe asks for; what was found, for the run folder.

    Args:
        settings: The recipe's section.
        model: The network.
        make: How one is made, of a vocabulary of so many tokens.
        tokenizer: The network's.
    """
    if settings.init_from is not None:
        with torch.device("meta"):
            larger = make(settings, len(tokenizer) + 1)
        return {"init_from": take_weights(model, larger, tokenizer, Path(settings.init_from))}
    if settings.vectors is not None:
        return {"vectors": take_vectors(model, tokenizer, Path(settings.vectors))}
    return {}
