"""Schema of a recipe: its sections, with the type, default and meaning of every key."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from omegaconf import MISSING, OmegaConf

from dialog.config.components import Component
from dialog.config.trust import without_trust


@dataclass
class AboutConfig:
    """Description of a recipe; no key here changes a run.

    Attributes:
        summary: One line for the list of recipes.
        cost: Time that the training takes, and on which hardware.
        parameters: Number of parameters of the model.
        measured: Measured result.
        trials: Number of trials that this recipe is the best of, in a sweep or with ``compare
            --tune``; a comparison checks that they are equal.
    """

    summary: str = ""
    cost: str = ""
    parameters: int | None = None
    measured: str = ""
    trials: int | None = None


@dataclass
class DataConfig:
    """The dialogues, and how they become examples and batches.

    Attributes:
        corpus: Component of the family ``corpora``.
        path: Folder or file of the corpus; null means $DIALOG_DATA/<corpus>, else the corpus is
            downloaded.
        tokenizer: Component of the family ``tokenizers``; it is trained on the training split.
        filters: Components of the family ``filters``; they drop responses or dialogues of the
            training split only.
        context_turns: Number of turns before the response that the model reads; null reads all of
            them.
        first_turns: Whether the first turn of a dialogue is a response too, to an empty context.
        silence: Text that the model reads before the context of every response of a dialogue's
            first speaker, such as ParlAI's ``__SILENCE__``; null reads nothing.
        layout: ``roles`` begins every turn of a context with the role of its speaker and ends the
            context with an end token; ``separated`` only puts ``<unk>`` between turns, as ParlAI
            with a vocabulary without line feed.
        responder: The speaker whose turns are responses; null makes every turn a response.
        normalise: Whether white space at the edges of turns and facts is removed.
        merge_turns: Whether consecutive turns of one speaker are joined into one turn.
        reverse: Whether every dialogue is read backwards, last turn first; with context_turns=1
            this trains the reverse model of the search mmi.
        max_turn_characters: Number of characters to which a turn is truncated.
        malformed: ``refuse`` stops at the first malformed record, ``drop`` counts and skips
            malformed records.
        max_dropped: Fraction of a split's dialogues, and of its turns, that may be malformed or
            empty.
        max_source: Largest number of tokens of a context; a longer one loses its beginning. A turn
            that loses its beginning keeps its role token, at the cost of one more token of its
            text.
        max_target: Largest number of tokens of a training response; a longer one loses its end.
        batch_tokens: Limit of the padded tokens of a batch, source and target together.
        batch_examples: Number of examples of a training batch, in place of ``batch_tokens``;
            validation and evaluation keep ``batch_tokens``, which changes no result of theirs.
        grouping: Examples of a training batch with ``batch_examples``: of similar source and target
            lengths (``both``), of similar source lengths (``source``), or drawn from all
            (``none``).
        bpe_dropout: Probability of skipping a merge of byte_bpe in training (Provilkov
            et al. 2020); larger values give more tokens a batch.
        static_shapes: true pads the sources and targets of training batches to few lengths, each
            with its own number of examples, so that batches repeat their shapes, as
            ``trainer.graphs`` needs; false pads them to the longest of a batch; auto is true on
            CUDA. The run folder records the one that was used.
    """

    corpus: Component = MISSING
    path: str | None = None
    tokenizer: Component = MISSING
    filters: list[Component] = field(default_factory=list)
    context_turns: int | None = 3
    first_turns: bool = False
    silence: str | None = None
    responder: str | None = None
    layout: str = "roles"
    normalise: bool = True
    merge_turns: bool = False
    reverse: bool = False
    max_turn_characters: int = 10_000
    malformed: str = "refuse"
    max_dropped: float = 0.01
    max_source: int = 128
    max_target: int = 64
    batch_tokens: int = 8192
    batch_examples: int | None = None
    grouping: str = "both"
    bpe_dropout: float = 0.0
    static_shapes: bool | str = "auto"


@dataclass
class ModelConfig:
    """The network and its training objective.

    Attributes:
        embedding_size: Size of the token embeddings.
        encoder: Component of the family ``encoders``.
        decoder: Component of the family ``decoders``.
        head: Component of the family ``heads``: from decoder outputs to logits.
        tie_embeddings: Layers that share one table of embeddings: ``all`` (or true: source, target
            and output layer), ``output`` (target and output layer), ``source`` (source and target),
            ``none`` (or false).
        scale_embeddings: Whether embeddings start as N(0, 1 / size) and are multiplied by
            sqrt(size) (Vaswani et al. 2017, 3.4); false starts them as N(0, 1) and uses them as
            they are.
        dropout: Dropout probability: in a Transformer, of the sums of embedding and position and of
            sublayer outputs (Vaswani et al. 2017, 5.4), and of attention weights and inside the
            feed-forward network if the component does not set its own; in a recurrent network, of
            embeddings, between layers, of the input of the decoder's readout or attentional layer,
            and before the output layer.
        activation_checkpointing: Whether a Transformer recomputes each layer in the backward pass,
            to save memory.
        loss: Component of the family ``losses``.
        teacher_forcing: Component of the family ``teacher_forcings``: the fraction of gold tokens
            that are fed in training, by optimizer step; the others are predictions, sampled if
            ``sampled`` is set.
        objectives: Components of the family ``objectives``, trained besides responding; each has a
            ``weight`` and a ``schedule`` of that weight.
        init_from: Run folder whose weights initialise the model where names, shapes and tokens
            agree.
        vectors: Text file of word vectors (word2vec, GloVe) that initialise the embeddings.
        frozen: Names of modules that are not trained, such as encoder or decoder.layers.0.
    """

    embedding_size: int = MISSING
    encoder: Component = MISSING
    decoder: Component = MISSING
    head: Component = field(default_factory=lambda: {"name": "vocabulary"})
    tie_embeddings: bool | str = True
    scale_embeddings: bool = True
    dropout: float = 0.1
    activation_checkpointing: bool = False
    loss: Component = field(default_factory=lambda: {"name": "cross_entropy"})
    teacher_forcing: Component = field(default_factory=lambda: {"name": "constant"})
    objectives: list[Component] = field(default_factory=list)
    init_from: str | None = None
    vectors: str | None = None
    frozen: list[str] = field(default_factory=list)


@dataclass
class TrainerConfig:
    """Arguments of ``lightning.Trainer`` under its own names; keys that are not listed below mean
    what Lightning says.

    Attributes:
        precision: A precision of Lightning, or auto: the faster of bf16-mixed and 32-true on this
            hardware.
            The run folder records the one that was used.
        max_time: DD:HH:MM:SS, or a mapping such as {hours: 8, minutes: 30}; the run is then
            validated and ends.
        val_check_interval: Batches (int) or fraction of an epoch (float) between validations; to
            count batches across epochs, set check_val_every_n_epoch to null.
        num_sanity_val_steps: Validation batches before training.
        deterministic: true, false or warn.
        float32_matmul_precision: highest, high or medium, as in
            ``torch.set_float32_matmul_precision``; high allows TensorFloat-32 in matrix products of
            32-true on GPUs that have it.
        profiler: simple, advanced or pytorch; writes to ``profile`` in the run folder.
        graphs: true records forward and backward of a step as a CUDA graph for each shape of a
            batch, and replays it, with the same results up to rounding; false runs every operation
            by itself; auto is true if ``data.static_shapes`` is. Without CUDA it has no effect.
        compile: Whether the step is compiled with ``torch.compile``, in place of graphs.
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
    float32_matmul_precision: str = "highest"
    profiler: str | None = None
    graphs: bool | str = "auto"
    compile: bool = False


@dataclass
class CheckpointConfig:
    """Checkpoints and early stopping.

    Attributes:
        every_n_steps: Optimizer steps between checkpoints; null saves at validations only.
        monitor: Validation value that selects the best weights: validation/loss,
            validation/perplexity, validation/bits_per_byte or validation/token_accuracy.
        patience: Number of validations without improvement after which training stops; null never
            stops early.
        averaging: {name: ema} averages the weights of all steps, {name: last} those of the last
            validations; validation, best.ckpt and model.safetensors then use the averaged weights.
    """

    every_n_steps: int | None = None
    monitor: str = "validation/loss"
    patience: int | None = 5
    averaging: Component | None = None


@dataclass
class GenerationConfig:
    """Decoding of responses.

    Attributes:
        search: Component of the family ``searches``. The other keys are constraints that every
            search accepts.
        min_length: Smallest length of a response in tokens, without the end token.
        max_length: Largest length of a response in tokens, without the end token.
        no_repeat_ngram: n: no sequence of n tokens occurs twice in a response; 0 for no limit.
        block_context_ngram: n: no sequence of n tokens of the source occurs in a response; 0 for no
            limit.
        banned: Words that no response contains, however they are split into tokens; upper and lower
            case are equal.
        required: Words that every response contains.
        prefix: Text that every response begins with.
        repetition_penalty: Divides positive logits of tokens that have occurred, multiplies
            negative ones; 1 for none.
        frequency_penalty: Subtracted from a token's logit for each time it has occurred; 0 for
            none.
    """

    search: Component = field(default_factory=lambda: {"name": "greedy"})
    min_length: int = 1
    max_length: int = 60
    no_repeat_ngram: int = 0
    block_context_ngram: int = 0
    banned: list[str] = field(default_factory=list)
    required: list[str] = field(default_factory=list)
    prefix: str = ""
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0


@dataclass
class Recipe:
    """Everything that determines the numbers of a run.

    Attributes:
        about: Description.
        seed: Seeds initialisation, data order and dropout.
        data: Corpus, examples and batches.
        model: Network and training objective.
        optimizer: Component of the family ``optimizers``, with its learning rate ``lr`` and its
            ``schedule``.
        trainer: Arguments of lightning.Trainer.
        checkpoint: Checkpoints and early stopping.
        preflight: Whether the largest batches are tried before the first epoch; their memory is
            reported.
        generation: Decoding of responses.
        metrics: Components of the family ``metrics``, measured by an evaluation besides the
            standard metrics; a name with a dot is any torchmetrics.Metric.
        logger: Component of the family ``loggers``.
        expect: Expected results: a list of {metric, value, tolerance}; a value that this project
            has measured also has its seeds, date and commit.
        smoke: Overrides that shorten the run to about a minute.
    """

    about: AboutConfig = field(default_factory=AboutConfig)
    seed: int = 1
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: Component = MISSING
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    preflight: bool = True
    generation: GenerationConfig = field(default_factory=GenerationConfig)
    metrics: list[Component] = field(default_factory=list)
    logger: Component = field(default_factory=lambda: {"name": "none"})
    expect: list[dict[str, Any]] = field(default_factory=list)
    smoke: list[str] = field(default_factory=list)


SECTIONS = tuple(section.name for section in fields(Recipe))
"""Keys at the top level of a recipe."""


MINIMUM = {
    "data.batch_tokens": 1,
    "data.batch_examples": 1,
    "data.bpe_dropout": 0,
    "trainer.log_every_n_steps": 1,
    "trainer.accumulate_grad_batches": 1,
    "trainer.gradient_clip_val": 0,
    "checkpoint.every_n_steps": 1,
    "checkpoint.patience": 0,
}
"""Smallest valid value of a key."""


NONZERO = (
    "trainer.max_steps",
    "trainer.max_epochs",
    "trainer.limit_train_batches",
    "trainer.limit_val_batches",
)
"""Keys with which 0 would mean no training, or no validation to select the best weights."""


def to_yaml(recipe: Recipe) -> str:
    """Return YAML that composes to the same recipe."""
    return OmegaConf.to_yaml(OmegaConf.create(to_dict(recipe)))


def to_dict(recipe: Recipe) -> dict[str, Any]:
    """Convert a recipe to plain containers."""
    return asdict(without_trust(recipe))
