"""Build a module from a checkpoint alone, without its recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from dialog.config.trust import Trust, check_importable
from dialog.data.tokenizers.tokenizer import Tokenizer
from dialog.errors import UserError
from dialog.models.seq2seq import Seq2Seq


def constructor_arguments(
    checkpoint: Mapping[str, Any], replacements: Mapping[str, Any], path: str, *, trust: Trust
) -> dict[str, Any]:
    """Return the arguments of a DialogModule: the replacements, and for all others those of a
    checkpoint.

    Raises:
        UserError: with the path; no hyperparameters, or dotted names, which would be imported,
            without ``trust``.
    """
    hyperparameters: Mapping[str, Any] = checkpoint.get("hyper_parameters", {})
    stored = {key: value for key, value in hyperparameters.items() if key not in replacements}
    if (
        {"model", "padding"}
        - replacements.keys()
        - {key for key, value in stored.items() if value is not None}
    ):
        raise UserError(
            f"{path}: has no hyperparameters of its network: an older version wrote it, or the"
            " network is not a Seq2Seq; pass model= and padding=, or load its run folder with"
            " dialog.load"
        )
    stored = trust.allow(stored)
    check_importable(stored, path)
    if "model" in stored:
        stored["model"] = Seq2Seq(**stored["model"])
    if "tokenizer" not in replacements and checkpoint.get("tokenizer") is not None:
        stored["tokenizer"] = Tokenizer(checkpoint["tokenizer"])
    return {**stored, **replacements}


def load_weights(
    module: nn.Module, network: nn.Module, checkpoint: Mapping[str, Any], *, strict: bool
) -> None:
    """Load the weights of a checkpoint in its data type and device, and freeze the parameters that
    it names as frozen.

    Args:
        module: The whole module.
        network: Its part that takes the data type of the weights.
        checkpoint: As `DialogModule.on_save_checkpoint` extends it.
        strict: Whether names of parameters must match.
    """
    weights = checkpoint["state_dict"]
    first = next(value for value in weights.values() if value.is_floating_point())
    network.to(first.dtype)
    module.to(first.device).load_state_dict(weights, strict=strict)
    for name, parameter in module.named_parameters():
        if name in checkpoint.get("frozen", ()):
            parameter.requires_grad_(False)
