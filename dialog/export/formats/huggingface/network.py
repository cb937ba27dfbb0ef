"""Class of transformers for any network of dialog.

Importing this module makes `AutoConfig` and `AutoModelForSeq2SeqLM` know it, so that they open an
exported folder without code. `single_file.py` writes it with all that it uses into a folder with
code.

Shapes: B rows, S source tokens, T target tokens, M memory size, V vocabulary, H heads, L layers, C
    cell state width.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    GenerationMixin,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_outputs import Seq2SeqLMOutput
from transformers.utils.generic import ModelOutput

from dialog.config.trust import imported_names
from dialog.data.tokenizers.tokenizer import BOS, EOS, PAD
from dialog.errors import UserError
from dialog.models.contracts import AttentionHook, Encoded, Memory, State
from dialog.models.hierarchical import turn_numbers
from dialog.models.seq2seq import Seq2Seq, SourceMemory

IGNORED = -100
"""Label of a target position without loss, as in all of transformers."""


class DialogConfig(PreTrainedConfig):
    """Content of config.json: the arguments of `Seq2Seq` in ``network``, and the ids of the special
    tokens.
    """

    model_type = "dialog"
    keys_to_ignore_at_inference = ["past_key_values"]  # noqa: RUF012 - transformers.Trainer adds a list to it

    network: dict[str, Any] = field(default_factory=dict)
    is_encoder_decoder: bool = True
    pad_token_id: int | None = PAD
    bos_token_id: int | None = BOS
    eos_token_id: int | None = EOS
    decoder_start_token_id: int | None = BOS
    tie_word_embeddings: bool = True  # the model ties what `network` does

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""
        return int(self.network.get("vocabulary", 0))

    @property
    def hidden_size(self) -> int:
        """Size of the embeddings."""
        return int(self.network.get("embedding_size", 0))


@dataclass
class EncodedSource(ModelOutput):
    """Output of the encoder; `generate` repeats the rows of each tensor for its beams."""

    last_hidden_state: Tensor | None = None  # [B, S, M], 0 at padding
    attentions: tuple[Tensor, ...] | None = None  # self-attention of each layer [B, H, S, S]
    mask: Tensor | None = None  # [B, S], True = real
    summary: Tensor | None = None  # [B, M]
    tokens: Tensor | None = None  # [B, S]
    # [B, L, M], for a decoder that starts from the encoder's last states
    final_hidden: Tensor | None = None
    final_cell: Tensor | None = None  # [B, L, C]

    @staticmethod
    def of(
        encoded: Encoded, tokens: Tensor, attentions: tuple[Tensor, ...] | None
    ) -> EncodedSource:
        """Return the tensors of an encoder's output."""
        hidden, cell = encoded.final or (None, None)
        return EncodedSource(
            encoded.states, attentions, encoded.mask, encoded.summary, tokens, hidden, cell
        )

    def encoded(self) -> Encoded:
        """Return the encoder's output of these tensors."""
        assert self.last_hidden_state is not None
        assert self.mask is not None
        assert self.summary is not None
        final = tuple(part for part in (self.final_hidden, self.final_cell) if part is not None)
        return Encoded(self.last_hidden_state, self.mask, self.summary, final)


@dataclass
class DecodingState:
    """State after the target so far, in place of the cache ``past_key_values`` of transformers."""

    memory: Memory
    state: State
    length: int = 0  # of the target so far
    is_compileable: bool = False
    is_croppable: bool = False

    def get_seq_length(self) -> int:
        """Return the number of target tokens so far."""
        return self.length

    def reorder_cache(self, beams: Tensor) -> None:
        """Select the rows [B] that a beam search continues; they stay with their source, so the
        memory stays too.
        """
        self.state = self.state.select(beams)


class SourceEncoder(nn.Module):
    """Encoder of a network with the interface of transformers."""

    main_input_name = "input_ids"

    def __init__(self, network: Seq2Seq) -> None:
        super().__init__()
        self.network = network

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> EncodedSource | tuple[Any, ...]:
        """Encode sources [B, S], padded on the right; without a mask [B, S] they are padded with
        the padding token.

        Raises:
            ValueError: padding before a real token, or unsupported output.
        """
        check_hidden_states(output_hidden_states)
        mask = input_ids != PAD if attention_mask is None else attention_mask.bool()
        if (mask[:, 1:] & ~mask[:, :-1]).any():
            raise ValueError(
                "attention_mask: padding before a real token; pad sources on the right"
            )
        maps = AttentionMaps(self.network)
        encoded = encode(self.network, input_ids, mask, maps if output_attentions else None)
        output = EncodedSource.of(
            encoded, input_ids, maps.self_attention if output_attentions else None
        )
        return output.to_tuple() if return_dict is False else output


class AttentionMaps:
    """Hook that keeps the weights [B, H, T, S] of each attention module, self-attention apart from
    the others.
    """

    def __init__(self, network: Seq2Seq) -> None:
        self.network = network
        self.weights: dict[nn.Module, Tensor] = {}

    def __call__(self, module: nn.Module, weights: Tensor) -> None:
        """Keep the weights of a module."""
        self.weights[module] = weights

    @property
    def self_attention(self) -> tuple[Tensor, ...]:
        """Weights of attention within the source, or within the target."""
        return self._named("self_attention", True)

    @property
    def cross_attention(self) -> tuple[Tensor, ...]:
        """Weights of attention of the target to the source."""
        return self._named("self_attention", False)

    def _named(self, ending: str, wanted: bool) -> tuple[Tensor, ...]:
        """Return the weights of the modules whose names end so, or do not, in the order of the
        modules.
        """
        modules = self.network.named_modules()
        return tuple(
            self.weights[module]
            for name, module in modules
            if module in self.weights and name.endswith(ending) is wanted
        )


class DialogForConditionalGeneration(PreTrainedModel, GenerationMixin):
    """p(target | source) of a `Seq2Seq`, with ``generate``, ``from_pretrained`` and
    ``save_pretrained``.

    Sources are padded on the right; targets begin with the begin token and may be padded on the
    right with any token. The state of the decoder is the cache: a value of the decoder's own type,
    not keys and values of transformers.
    """

    config_class = DialogConfig
    main_input_name = "input_ids"
    _is_stateful = True  # a state cannot be shortened, as assisted generation would

    def __init__(self, config: DialogConfig) -> None:
        super().__init__(config)
        self.network = build_network(config.network)
        self._tied_weights_keys = tied_weights(self)
        self._no_split_modules = ["Seq2Seq"]
        self.is_built = False
        self.post_init()  # type: ignore[no-untyped-call]  # untyped in transformers
        self.is_built = True

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        labels: Tensor | None = None,
        *,
        encoder_outputs: EncodedSource | None = None,
        past_key_values: DecodingState | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> Seq2SeqLMOutput | tuple[Any, ...]:
        """Compute the logits [B, T, V] of the tokens after each of the ``decoder_input_ids``
        [B, T].

        Args:
            input_ids: Sources [B, S], padded on the right; unused with ``encoder_outputs``.
            attention_mask: Real tokens of the sources [B, S]; by default all but padding tokens.
            decoder_input_ids: Targets [B, T] from the begin token on; by default those of the
                labels. With ``past_key_values`` only the tokens after those.
            labels: Targets [B, T] without the begin token, -100 at padding. The loss is the mean of
                -log p, in nats.
            encoder_outputs: Output of the encoder.
            past_key_values: State after the target so far.
            use_cache: Whether the new state is returned.
            output_attentions: Whether the weights of all attention modules are returned.
            output_hidden_states: Unsupported.
            return_dict: False for a tuple.

        Raises:
            ValueError: neither sources nor targets, or unsupported output.
        """
        check_hidden_states(output_hidden_states)
        shows = self.config.output_attentions if output_attentions is None else output_attentions
        if decoder_input_ids is None:
            if labels is None:
                raise ValueError("give decoder_input_ids or labels")
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        source = encoder_outputs
        if past_key_values is None:
            if source is None:
                if input_ids is None:
                    raise ValueError("give input_ids or encoder_outputs")
                source = self.get_encoder()(input_ids, attention_mask, output_attentions=shows)
            past_key_values = start(self.network, source)
        memory = past_key_values.memory
        maps = AttentionMaps(self.network)
        logits, state = self.network.step(
            decoder_input_ids, memory, past_key_values.state, maps if shows else None
        )
        length = past_key_values.length + decoder_input_ids.shape[1]
        # transformers names its own type
        cache: Any = DecodingState(memory, state, length) if use_cache else None
        output = Seq2SeqLMOutput(
            loss=None if labels is None else mean_loss(logits, labels),
            logits=logits,
            past_key_values=cache,
            decoder_attentions=maps.self_attention if shows else None,
            cross_attentions=maps.cross_attention if shows else None,
            encoder_last_hidden_state=None if source is None else source.last_hidden_state,
            encoder_attentions=None if source is None else source.attentions,
        )
        returns_tuple = not (self.config.return_dict if return_dict is None else return_dict)
        return output.to_tuple() if returns_tuple else output

    def get_encoder(self, modality: str | None = None) -> SourceEncoder:
        """Return the encoder; it shares the network."""
        return SourceEncoder(self.network)

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """Return the targets [B, T] that predict the labels: the begin token, and the labels
        without the last one.
        """
        begin = torch.full_like(labels[:, :1], BOS)
        # [B, T]
        return torch.cat([begin, labels[:, :-1].masked_fill(labels[:, :-1] == IGNORED, PAD)], 1)

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        """Return False: the first step returns the cache, so `generate` creates none."""
        return False

    def _init_weights(self, module: nn.Module) -> None:
        """Keep the initial weights of the network's own parts.

        Raises:
            UserError: a weight is missing in the folder that is loaded.
        """
        weights = module.parameters(recurse=False)
        if self.is_built and not all(
            getattr(weight, "_is_hf_initialized", False) for weight in weights
        ):
            raise UserError(
                f"model.safetensors: weights of a {type(module).__name__} are missing; export the"
                " run again"
            )


def build_network(arguments: Mapping[str, Any]) -> Seq2Seq:
    """Build the network of a config.json, without importing anything that it names.

    Raises:
        UserError: the arguments name code to import, or are not those of a network.
    """
    if dotted := imported_names(arguments):
        raise UserError(
            f"config.json: network imports {dotted[0]!r}, but a folder cannot name code that is run"
        )
    try:
        return Seq2Seq(**arguments)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"config.json: network: {error}") from error


def tied_weights(model: nn.Module) -> dict[str, str]:
    """Return the first name of each parameter that has several, by its other names."""
    first: dict[nn.Parameter, str] = {}
    names = model.named_parameters(remove_duplicate=False)
    return {name: first[weight] for name, weight in names if first.setdefault(weight, name) != name}


def encode(network: Seq2Seq, source: Tensor, mask: Tensor, hook: AttentionHook | None) -> Encoded:
    """Encode sources [B, S], mask [B, S], as `Seq2Seq.start` does before the decoder starts."""
    offered: dict[str, Any] = {"turn_shape": None}
    if network.needs_turns:
        offered["turns"] = turn_numbers(source, network.turn_tokens)
    inputs = network.source_embedding(source)  # [B, S, E]
    inputs = inputs if network.encoder.own_dropout else network.dropout(inputs)
    encoded: Encoded = network.encoder(
        inputs, mask, hook=hook, **{key: offered[key] for key in network.encoder_needs}
    )
    return encoded


def start(network: Seq2Seq, source: EncodedSource) -> DecodingState:
    """Return the memory of encoded sources, and the state before the first token."""
    assert source.tokens is not None
    memory, state = network.decoder.start(source.encoded())
    return DecodingState(SourceMemory(source.tokens, memory), state)


def mean_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean of -log p(label) in nats over the labels [B, T] that are not -100, from
    logits [B, T, V].
    """
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)


def check_hidden_states(wanted: bool | None) -> None:
    """Raise ValueError if the states of all layers are wanted: the network returns those of the
    last one only.
    """
    if wanted:
        raise ValueError(
            "output_hidden_states is unsupported; encoder_last_hidden_state has the encoder's"
            " states"
        )


AutoConfig.register(DialogConfig.model_type, DialogConfig, exist_ok=True)
AutoModelForSeq2SeqLM.register(DialogConfig, DialogForConditionalGeneration, exist_ok=True)
