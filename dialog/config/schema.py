"""The typed sections of a recipe."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from omegaconf import MISSING, OmegaConf

from dialog.config.components import Component


@dataclass
class About:
    """What a reader wants to know before running a recipe."""

    summary: str = ""
    cost: str = ""
    parameters: int | None = None
    measured: str = ""


@dataclass
class Data:
    """Which dialogues, and how they become examples and batches.

    The keys of ``dialog.data.examples.ExampleRules`` are explained there. ``filters`` are for the training split.
    ``max_source`` and ``max_target`` count tokens: a longer context loses its beginning, a longer training response its
    end. ``max_dropped`` is the share of a split that may be malformed or empty. ``batch_tokens`` bounds the padded
    tokens of a batch, source and target together; ``bpe_dropout`` is the chance that a merge of byte_bpe is left out
    in training (Provilkov et al. 2020), where batches then grow.
    """

    corpus: Component = MISSING
    path: str | None = None
    tokenizer: Component = MISSING
    filters: list[Component] = field(default_factory=list)
    context_turns: int | None = 3
    first_turns: bool = False
    responder: str | None = None
    merge_turns: bool = False
    reverse: bool = False
    max_turn_characters: int = 10_000
    malformed: str = "refuse"
    max_dropped: float = 0.01
    max_source: int = 128
    max_target: int = 64
    batch_tokens: int = 8192
    bpe_dropout: float = 0.0


@dataclass
class Model:
    """The network, and how it is taught.

    ``teacher_forcing`` is the share of gold tokens that the decoder reads in training, by the optimizer step; the rest
    are its own words, drawn if ``sampled`` is set. ``objectives`` are learnt besides to respond, each with a ``weight``
    and a ``schedule`` of it. Training begins with the weights of the run folder ``init_from``, as far as names, shapes
    and tokens agree, or with embeddings from the text ``vectors`` (word2vec's or GloVe's); a run folder does not need
    these again. What is inside the modules ``frozen``, such as encoder or decoder.layers.0, stays as it is.
    ``activation_checkpointing`` lets a Transformer train in less memory and more time: each layer is computed twice.
    """

    embedding_size: int = MISSING
    encoder: Component = MISSING
    decoder: Component = MISSING
    head: Component = field(default_factory=lambda: {"name": "vocabulary"})
    tie_embeddings: bool | str = True
    dropout: float = 0.1
    activation_checkpointing: bool = False
    loss: Component = field(default_factory=lambda: {"name": "cross_entropy"})
    teacher_forcing: Component = field(default_factory=lambda: {"name": "constant"})
    objectives: list[Component] = field(default_factory=list)
    init_from: str | None = None
    vectors: str | None = None
    frozen: list[str] = field(default_factory=list)


@dataclass
class Trainer:
    """Arguments of ``lightning.Trainer``, under its own names.

    ``precision`` may also be auto: bf16-mixed where the hardware computes in bfloat16, else 32-true; the run's own
    recipe says which it was. ``profiler`` (simple, advanced or pytorch) writes to the run's folder ``profile``.
    ``max_time`` is DD:HH:MM:SS, or {hours: 8, minutes: 30}; a run that it ends is validated like any other. To validate
    every n batches across epochs, ``val_check_interval`` is n and ``check_val_every_n_epoch`` null. ``deterministic``
    may also be warn.
    """

    accelerator: str = "auto"
    devices: Any = 1
    num_nodes: int = 1
    strategy: str = "auto"
    precision: str = "32-true"
    max_epochs: int | None = None
    max_steps: int = -1
    max_time: Any = None
    limit_train_batches: int | float | None = None
    limit_val_batches: int | float | None = None
    overfit_batches: int | float = 0.0
    val_check_interval: int | float | None = None
    check_val_every_n_epoch: int | None = 1
    num_sanity_val_steps: int = 0
    log_every_n_steps: int = 10
    enable_progress_bar: bool = True
    accumulate_grad_batches: int = 1
    gradient_clip_val: float | None = 1.0
    deterministic: bool | str = False
    detect_anomaly: bool = False
    profiler: str | None = None


@dataclass
class Checkpoint:
    """When weights are saved, and when training stops for want of progress.

    The best weights are those of the validation at which ``monitor`` (validation/loss, perplexity, bits_per_byte or
    token_accuracy) was best; ``patience`` counts validations in which it is not better, null never stops early. With
    ``averaging``, what is validated, and so what best.ckpt and model.safetensors hold, is an average of the weights:
    {name: ema} of all steps, {name: last} of the last validations.
    """

    every_n_steps: int | None = None
    monitor: str = "validation/loss"
    patience: int | None = 5
    averaging: Component | None = None


@dataclass
class Generation:
    """How a response is searched for; lengths in tokens, without the end token."""

    search: Component = field(default_factory=lambda: {"name": "greedy"})
    min_length: int = 1
    max_length: int = 60


@dataclass
class Recipe:
    """A run, whole: what is in it decides every number that comes out.

    ``preflight`` runs the heaviest batches before the first epoch and says what they take.
    """

    about: About = field(default_factory=About)
    seed: int = 1
    data: Data = field(default_factory=Data)
    model: Model = field(default_factory=Model)
    optimizer: Component = MISSING
    trainer: Trainer = field(default_factory=Trainer)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    preflight: bool = True
    generation: Generation = field(default_factory=Generation)
    logger: Component = field(default_factory=lambda: {"name": "none"})
    expect: list[dict[str, Any]] = field(default_factory=list)
    smoke: list[str] = field(default_factory=list)


SECTIONS = tuple(section.name for section in fields(Recipe))
"""The groups whose choices fill one section each."""


LEAST = {
    "data.batch_tokens": 1,
    "data.bpe_dropout": 0,
    "trainer.log_every_n_steps": 1,
    "trainer.accumulate_grad_batches": 1,
    "trainer.gradient_clip_val": 0,
    "checkpoint.every_n_steps": 1,
    "checkpoint.patience": 0,
}
"""The smallest numbers that mean something."""


NOT_ZERO = ("trainer.max_steps", "trainer.max_epochs", "trainer.limit_train_batches", "trainer.limit_val_batches")
"""Without any, nothing would be trained, or no weights would be the best."""


def to_yaml(recipe: Recipe) -> str:
    """A recipe as YAML that composes to the same recipe."""
    return OmegaConf.to_yaml(OmegaConf.structured(recipe))


def to_dict(recipe: Recipe) -> dict[str, Any]:
    """A recipe as plain containers."""
    plain = OmegaConf.to_container(OmegaConf.structured(recipe), resolve=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}
