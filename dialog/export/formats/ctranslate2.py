"""CTranslate2, whose engine computes Transformers on CPUs and GPUs.

Its specification of a network is an object whose parts are filled with our weights and then saved.

Shapes: D width, P positions, V vocabulary; a layer of O outputs and I inputs has the weight [O, I],
here and there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any, cast

import tokenizers
import torch
from ctranslate2 import Translator
from ctranslate2.specs.common_spec import Activation, LayerNormSpec
from ctranslate2.specs.transformer_spec import (
    TransformerDecoderSpec,
    TransformerEncoderSpec,
    TransformerSpec,
)
from torch import nn

from dialog.config.schema import GenerationConfig
from dialog.data.tokenizers.tokenizer import BOS, EOS, PAD, SPECIAL_TOKENS, UNK, Tokenizer
from dialog.errors import UserError
from dialog.export.card import literal
from dialog.export.format import (
    Exported,
    Format,
    Tokens,
    lacking_limits,
    search_and_limits,
    table_length,
    transformer_settings,
)
from dialog.generation.build import BANNED_TOKENS, build_search
from dialog.generation.searches.beam import Beam
from dialog.generation.searches.sampling import Sampling
from dialog.models.seq2seq import Seq2Seq
from dialog.models.transformer import TransformerSettings
from dialog.runs.run import Run

VOCABULARY = "shared_vocabulary.json"
SUPPORTED = {
    "encoder": ("transformer",),
    "decoder": ("transformer",),
    "head": ("vocabulary",),
    "positions": ("sinusoidal", "learned", "rotary"),
}
"""Names of the components that CTranslate2 has."""
GATED = "swiglu"
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", GATED: "SWISH"}
"""Member of CTranslate2's `Activation`, by the name of ours."""
SELF_ATTENTION = ("self_attention.query", "self_attention.key", "self_attention.value")
LAYER = {
    "self_attention.linear.0": SELF_ATTENTION,
    "self_attention.linear.1": ("self_attention.output",),
    "self_attention.layer_norm": ("self_residual.norm",),
    "attention.linear.0": ("cross_attention.query",),
    "attention.linear.1": ("cross_attention.key", "cross_attention.value"),
    "attention.linear.2": ("cross_attention.output",),
    "attention.layer_norm": ("cross_residual.norm",),
    "ffn.linear_0": ("feed_forward.0", "feed_forward.gate"),
    "ffn.linear_0_noact": ("feed_forward.value",),
    "ffn.linear_1": ("feed_forward.3", "feed_forward.output"),
    "ffn.layer_norm": ("feed_residual.norm",),
}
"""Modules of our layer, by the part of CTranslate2's layer that has their outputs side by side.

A layer has only some of them: that of an encoder has no cross-attention, and the modules of a
feed-forward network have either numbers or names.
"""
FIRST_NORM = "layers.0.self_residual.norm"
GREEDY = {"beam_size": 1}
LIMITS = ("min_length", "max_length", "no_repeat_ngram", "repetition_penalty", "prefix")
"""Constraints that CTranslate2 has."""
EMPTY_CONTEXT = (PAD, EOS)
EMPTY_CONTEXT_LENGTH = 1
"""Source of an empty context, and the `max_input_length` that truncates it to its end token.

CTranslate2 skips a source of the end token alone and returns an empty response.
"""
RENORMALISED = (
    "# CTranslate2 renormalises over the allowed tokens, the recipe does not: scores differ"
    " slightly"
)
PROGRAM = Template("""\
import ctranslate2

translator = ctranslate2.Translator(".", device="cpu")
$comments
longest = 0  # no truncation
if source == [$end]:  # an empty context, which CTranslate2 skips; it truncates this one to the end\
 token
    source, longest = $empty, $empty_length
[result] = translator.translate_batch(
    [[tokenizer.id_to_token(token) for token in source]],
$options
)
response = [tokenizer.token_to_id(token) for token in result.hypotheses[0][:$longest]]
""")
"""Program of the card."""


class CTranslate2(Format):
    """Transformer encoder, Transformer decoder and vocabulary head, with every setting of theirs.

    A sinusoidal table ends at the longest source, target and response of the recipe, and not before
    1024 tokens; the engine raises RuntimeError beyond.
    """

    engine = "CTranslate2"
    package = "ctranslate2"

    def check(self, model: Seq2Seq) -> None:
        """Check the names of encoder, decoder, head and positions.

        Raises:
            UserError: CTranslate2 lacks one of them.
        """
        parts = model.arguments
        names = {part: parts[part]["name"] for part in ("encoder", "decoder", "head")}
        for side in ("encoder", "decoder"):
            positions = parts[side].get("positions", {"name": "sinusoidal"})
            names[f"{side}.positions"] = positions["name"]
        for key, name in names.items():
            supported = SUPPORTED[key.rpartition(".")[2]]
            if name not in supported:
                raise UserError(
                    f"model.{key}: CTranslate2 supports only {', '.join(supported)}, not {name!r};"
                    " use --format huggingface, which holds every part"
                )

    def write(self, run: Run, folder: Path) -> None:
        """Write `model.bin`, `config.json` and `shared_vocabulary.json`, in float32.

        Raises:
            UserError: CTranslate2, which reads and writes tokens as text, cannot tell two tokens
                apart.
        """
        spec = specification(run.model, vocabulary(run.tokenizer), table_length(run.recipe))
        spec.save(str(folder))

    def load(self, folder: Path) -> Exported:
        """Open an exported folder on one core of the CPU."""
        return CTranslate2Network(folder)

    def usage(self, run: Run) -> str:
        """Return the code with the recipe's search and constraints; comments name those that
        CTranslate2 lacks.
        """
        generation = run.recipe.generation
        search, limits = search_and_limits(generation)
        arguments = search_arguments(generation, len(run.tokenizer))
        options = {**(GREEDY if arguments is None else arguments), **limit_arguments(limits)}
        comments = []
        if arguments is None:
            name = literal(search["name"])
            comments.append(
                f"# greedy search: CTranslate2 lacks the recipe's {name} with its arguments"
            )
        elif search["name"] == "beam":
            comments.append(RENORMALISED)
        if lacking := lacking_limits(limits, LIMITS):
            comments.append(f"# not in CTranslate2: {', '.join(lacking)}")
        return PROGRAM.substitute(
            comments="\n".join(comments),
            end=EOS,
            empty=[*EMPTY_CONTEXT],
            empty_length=EMPTY_CONTEXT_LENGTH,
            options="\n".join(f"    {name}={value}," for name, value in options.items()),
            longest=limits["max_length"],
        )


class CTranslate2Network:
    """An exported network, computed in float32 on one core."""

    def __init__(self, folder: Path) -> None:
        self.tokens: list[str] = json.loads((folder / VOCABULARY).read_text(encoding="utf-8"))
        self.ids = {token: number for number, token in enumerate(self.tokens)}
        self.translator = Translator(
            str(folder), device="cpu", compute_type="float32", inter_threads=1, intra_threads=1
        )

    def log_probabilities(
        self, sources: Sequence[Tokens], targets: Sequence[Tokens]
    ) -> list[list[float]]:
        """Return log p(y_t | y_<t, source) in nats; the engine appends the end token to a
        target.
        """
        results = self.translator.score_batch(
            self._texts(sources),
            self._texts([target[:-1] for target in targets]),
            max_batch_size=0,
            max_input_length=0,
        )
        return [list(result.log_probs) for result in results]

    def greedy(self, sources: Sequence[Tokens], length: int) -> list[list[int]]:
        """Return the most probable token, step by step; sources of empty contexts are a batch of
        their own.
        """
        responses: dict[int, list[int]] = {}
        for empty in (False, True):
            places = [
                place for place, source in enumerate(sources) if ([*source] == [EOS]) is empty
            ]
            results = self.translator.translate_batch(
                self._texts([EMPTY_CONTEXT if empty else sources[place] for place in places]),
                max_batch_size=0,  # one batch
                max_input_length=EMPTY_CONTEXT_LENGTH if empty else 0,  # 0: no truncation
                beam_size=1,
                min_decoding_length=0,
                max_decoding_length=length,
                return_end_token=True,
            )
            for place, result in zip(places, results, strict=True):
                responses[place] = [self.ids[token] for token in result.hypotheses[0]]
        return [responses[place] for place in range(len(sources))]

    def _texts(self, batch: Sequence[Tokens]) -> list[list[str]]:
        return [[self.tokens[token] for token in tokens] for tokens in batch]


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    """Return the text of each token, by id.

    Raises:
        UserError: two tokens have the same text, or an id has no token.
    """
    library = tokenizers.Tokenizer.from_str(tokenizer.json)
    tokens = [
        token
        for number in range(len(tokenizer))
        if (token := library.id_to_token(number)) is not None
    ]
    if len({*tokens}) < len(tokenizer):
        raise UserError(
            "data.tokenizer: two tokens of the vocabulary have the same text, or an id has no"
            " token; CTranslate2 reads tokens as text; use --format onnx"
        )
    return tokens


@torch.no_grad()
def specification(model: Seq2Seq, vocabulary: list[str], table_length: int) -> TransformerSpec:
    """Return the specification, validated and ready to be saved; equal tables are stored once.

    Args:
        model: With a Transformer encoder, a Transformer decoder and a vocabulary head.
        vocabulary: Text of each token, by id.
        table_length: Number of rows of a sinusoidal table.
    """
    source = transformer_settings(model, "encoder")
    target = transformer_settings(model, "decoder")
    spec = TransformerSpec(
        TransformerEncoderSpec(**side_arguments(source)),
        # the mean, as our `pointer`
        TransformerDecoderSpec(**side_arguments(target), alignment_heads=target.heads),
    )
    fill_side(spec.encoder, model.encoder, source, table_length)
    fill_side(spec.decoder, model.decoder, target, table_length)
    spec.encoder.scale_embeddings = model.source_embedding.scale
    spec.decoder.scale_embeddings = model.target_embedding.scale
    fill(spec.encoder.embeddings[0], [model.source_embedding.table])  # [V, D]
    fill(spec.decoder.embeddings, [model.target_embedding.table])  # [V, D]
    fill(spec.decoder.projection, [model.head])  # [V, D]
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.config.unk_token = SPECIAL_TOKENS[UNK]
    spec.config.bos_token = SPECIAL_TOKENS[BOS]
    spec.config.decoder_start_token = SPECIAL_TOKENS[BOS]
    spec.config.eos_token = SPECIAL_TOKENS[EOS]
    # sources are complete
    spec.config.add_source_bos = False
    spec.config.add_source_eos = False
    # CTranslate2 has one number for all norms, by default 1e-6 for RMSNorm
    norm = cast("nn.LayerNorm | nn.RMSNorm", model.encoder.get_submodule(FIRST_NORM))
    spec.config.layer_norm_epsilon = norm.eps or 0.0
    spec.validate()
    spec.optimize()
    return spec


def side_arguments(settings: TransformerSettings) -> dict[str, Any]:
    """Return the arguments of CTranslate2's specification of an encoder or a decoder."""
    return {
        "num_layers": settings.layers,
        "num_heads": settings.heads,
        "num_heads_kv": settings.key_value_heads,
        "pre_norm": settings.norm_first,
        "rms_norm": settings.norm == "rms_norm",
        "activation": Activation[ACTIVATIONS[settings.activation]],
        "ffn_glu": settings.activation == GATED,
        # 0: the whole width of a head
        "rotary_dim": 0 if settings.positions["name"] == "rotary" else None,
        "rotary_interleave": True,  # pairs of neighbours
    }


def fill_side(spec: Any, part: nn.Module, settings: TransformerSettings, table_length: int) -> None:
    """Fill all of an encoder or a decoder except for its embeddings."""
    positions = part.get_submodule("positions")
    if settings.positions["name"] == "learned":
        spec.position_encodings.encodings = positions.get_parameter(
            "table.weight"
        ).numpy()  # [P, D]
    if settings.positions["name"] == "sinusoidal":
        zeros = torch.zeros(1, table_length, settings.input_size)
        spec.position_encodings.encodings = positions(zeros)[0].numpy()  # [P, D]
    if settings.norm_first:
        fill(spec.layer_norm, [part.get_submodule("norm")])
    for number, layer_spec in enumerate(spec.layer):
        modules = dict(part.get_submodule(f"layers.{number}").named_modules())
        for place, names in LAYER.items():
            if layers := [modules[name] for name in names if name in modules]:
                fill(part_at(layer_spec, place), layers)


def part_at(spec: Any, place: str) -> Any:
    """Return the part of a specification at a place such as `attention.linear.0`."""
    for name in place.split("."):
        spec = spec[int(name)] if name.isdigit() else getattr(spec, name)
    return spec


def fill(spec: Any, layers: Sequence[nn.Module]) -> None:
    """Fill a layer, norm or table with the outputs of several side by side; not all have a bias."""
    names = ("gamma", "beta") if isinstance(spec, LayerNormSpec) else ("weight", "bias")
    for name, own_name in zip(names, ("weight", "bias"), strict=True):
        tensors = [getattr(layer, own_name, None) for layer in layers]
        present = [tensor for tensor in tensors if tensor is not None]
        if present:
            setattr(spec, name, torch.cat(present).float().numpy())  # [O_1 + O_2 + .., I]


def search_arguments(generation: GenerationConfig, vocabulary: int) -> dict[str, Any] | None:
    """Return the search as arguments of `translate_batch`, or None if CTranslate2 lacks it."""
    name = generation.search["name"]
    if name == "greedy":
        return GREEDY
    if name not in ("beam", "sampling"):
        return None
    search = build_search(generation.search, generation)
    if isinstance(search, Beam):
        return beam_arguments(search)
    return sampling_arguments(cast("Sampling", search), vocabulary)


def beam_arguments(search: Beam) -> dict[str, Any] | None:
    """Return the arguments of a beam search, or None.

    CTranslate2 ranks a response of l tokens, end token included, by its log-probability divided by
    l^alpha, as ``average`` does.
    """
    if search.penalty.normalisation != "average" and search.penalty.alpha != 0:
        return None
    return {"beam_size": search.width, "length_penalty": search.penalty.alpha}


def sampling_arguments(search: Sampling, vocabulary: int) -> dict[str, Any] | None:
    """Return the arguments of sampling, or None.

    Of `top_k` and `top_p` together CTranslate2 takes the mass within the k tokens, the recipe
    within all.
    """
    both = search.top_k > 0 and search.top_p < 1
    if both or search.min_p > 0 or search.typical_p < 1 or search.candidates > 1:
        return None
    return {
        "beam_size": 1,
        "sampling_topk": min(search.top_k, vocabulary),
        "sampling_topp": search.top_p,
        "sampling_temperature": search.temperature,
    }


def limit_arguments(limits: Mapping[str, Any]) -> dict[str, Any]:
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
