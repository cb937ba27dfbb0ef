"""Write model.safetensors: the weights of the best validation, in the same bytes wherever they are
equal.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dialog.atomic import run_lock
from dialog.build import build_model
from dialog.config.schema import Recipe, to_dict
from dialog.errors import UserError
from dialog.runs.folder import BEST, CHANGEABLE, LISTED, TOKENIZER, WEIGHTS, hash_of, weights_remedy
from dialog.training.checkpoints.manifest import (
    check_intact,
    is_intact,
    list_files,
    read_manifest,
    replacing_listed,
)

if TYPE_CHECKING:
    from torch import Tensor, nn

    from dialog.data.tokenizers.tokenizer import Tokenizer

log = logging.getLogger("dialog")

PREFIX = "model."
"""Prefix of the network's weights in a checkpoint."""
DTYPES = {
    "torch.float64": "F64", "torch.float32": "F32", "torch.float16": "F16",
    "torch.bfloat16": "BF16",
    "torch.int64": "I64", "torch.int32": "I32", "torch.uint8": "U8", "torch.bool": "BOOL",
}  # fmt: skip
"""Names of types in safetensors files."""


def weights_writer(
    folder: Path, recipe: Recipe, tokenizer: Tokenizer, model: nn.Module
) -> Callable[[Mapping[str, Any]], None]:
    """Return the function that writes model.safetensors of a run folder from the content of a
    checkpoint.

    A tied parameter is stored once. The metadata hold the step, the hash of the recipe (see
    `recipe_hash`), the fingerprint of the tokenizer, and for each other name of a tied parameter
    the name under which it is stored.
    """
    stored = stored_names(model)
    metadata = {"format": "pt", "recipe": recipe_hash(recipe), "tokenizer": tokenizer.fingerprint}
    tied = {alias: name for alias, name in stored.items() if alias != name}

    def write(checkpoint: Mapping[str, Any]) -> None:
        from dialog.training.checkpoints.checkpoint_io import saving

        state = checkpoint["state_dict"].items()
        network = {
            name.removeprefix(PREFIX): value for name, value in state if name.startswith(PREFIX)
        }
        weights = {name: value for name, value in network.items() if name not in tied}
        with saving(folder / WEIGHTS, folder), replacing_listed(folder / WEIGHTS) as new:
            write_safetensors(
                new, weights, {**metadata, **tied, "step": str(checkpoint["global_step"])}
            )

    return write


def stored_names(model: nn.Module) -> dict[str, str]:
    """Map each parameter's name to the first of all names that it has, in alphabetical order."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return {alias: min(aliases) for aliases in names.values() for alias in aliases}


def write_safetensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> None:
    """Write tensors and metadata in one order; the library writes metadata in random order, to a
    file of mode 0600.

    The format is the header's length in 8 bytes, the header as JSON, padded with spaces, and the
    tensors, those with the largest elements first, which aligns them.
    """
    import torch

    names = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
    header: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items()))}
    end = 0
    for name in names:
        start = end
        end = end + tensors[name].nbytes
        kind = DTYPES[str(tensors[name].dtype)]
        header[name] = {
            "dtype": kind,
            "shape": list(tensors[name].shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            file.write(
                tensors[name].detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
            )


def recipe_hash(recipe: Recipe) -> str:
    """Return the SHA-256 of a recipe without the keys that may change within a run."""
    values = to_dict(recipe)
    for key in CHANGEABLE:
        *sections, last = key.split(".")
        section = values
        for name in sections:
            section = section[name]
        del section[last]
    return hash_of(values)


def usable(weights: Path) -> bool:
    """Return whether a file exists and is not known to have changed, by the manifest of its
    folder.
    """
    return weights.is_file() and is_intact(weights) is not False


def rebuild_weights(folder: Path, recipe: Recipe, tokenizer: Tokenizer) -> None:
    """Write model.safetensors from best.ckpt if it is missing or has changed, and if there is a
    best.ckpt.

    Raises:
        UserError: best.ckpt has changed as well.
    """
    from dialog.training.checkpoints.checkpoint_io import SafeCheckpointIO

    weights = folder / WEIGHTS
    best = folder / BEST
    if best.is_file() and not usable(weights):
        import torch

        with torch.device("meta"):
            model = build_model(recipe.model, len(tokenizer))
        weights_writer(folder, recipe, tokenizer, model)(
            SafeCheckpointIO().load_checkpoint(best, map_location="cpu")
        )
        log.info("%s: rebuilt from %s", weights, best)


def complete_finished(folder: Path, recipe: Recipe) -> None:
    """Write what the folder of a finished run lacks: a manifest, or usable weights.

    Raises:
        UserError: there is nothing to rebuild the weights from.
    """
    from dialog.data.tokenizers.tokenizer import Tokenizer

    if read_manifest(folder) is not None and usable(folder / WEIGHTS):
        return
    with run_lock(folder):
        if read_manifest(folder) is None:
            list_files(folder, LISTED)
        check_intact(folder / TOKENIZER)
        rebuild_weights(folder, recipe, Tokenizer.load(folder / TOKENIZER))
    if not usable(folder / WEIGHTS):
        raise UserError(f"{folder / WEIGHTS}: missing or changed; {weights_remedy(folder)}")
