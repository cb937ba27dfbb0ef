"""Ids of the searches against ``generate`` of transformers, on one of its models wrapped as a
step.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from dialog.config.components import construct
from dialog.generation.constraints import Constraints
from dialog.generation.search import Search
from dialog.generation.searches.beam import Beam
from dialog.generation.searches.greedy import Greedy
from dialog.models.state import Rows

VOCABULARY, PAD, BOS, EOS = 40, 0, 1, 2
LENGTH = 12
ROWS = 24


@dataclass(frozen=True)
class EncoderStates(Rows):
    states: Tensor  # [N, S, D]
    mask: Tensor  # [N, S]


@dataclass(frozen=True)
class Prefix(Rows):
    tokens: Tensor  # [N, T], everything that has been read


class BartStep:
    """Reads the whole prefix again at each step."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __call__(
        self, tokens: Tensor, memory: EncoderStates, state: Prefix
    ) -> tuple[Tensor, Prefix]:
        read = torch.cat([state.tokens, tokens], 1)
        encoded = transformers.modeling_outputs.BaseModelOutput(memory.states)
        output = self.model(
            encoder_outputs=encoded,
            attention_mask=memory.mask,
            decoder_input_ids=read,
            use_cache=False,
        )
        return output.logits[:, -tokens.shape[1] :], Prefix(read)


@pytest.fixture(scope="module")
def bart() -> Any:
    torch.manual_seed(3)
    config = transformers.BartConfig(
        vocab_size=VOCABULARY,
        d_model=16,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_position_embeddings=64,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
        init_std=1.0,
    )
    model = transformers.BartForConditionalGeneration(config).double().eval()
    with torch.no_grad():
        model.final_logits_bias[0, EOS] += 6.0  # so that responses end
        model.final_logits_bias[0, [PAD, BOS]] -= 1e4
    return model


def ours(model: Any, search: Search, step: type[BartStep] = BartStep) -> list[list[int]]:
    source, mask = sources()
    with torch.no_grad():
        states = model.model.encoder(source, attention_mask=mask).last_hidden_state
    first = torch.full((ROWS, 1), BOS)
    replies = search(step(model), first, EncoderStates(states, mask), Prefix(first[:, :0]), source)
    return [best.tokens for best, *_ in replies]


def theirs(model: Any, **settings: object) -> list[list[int]]:
    source, mask = sources()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ids = model.generate(
            source, attention_mask=mask, max_new_tokens=LENGTH + 1, do_sample=False, **settings
        )
    return [
        [token for token in row if token not in (PAD, BOS, EOS)][:LENGTH] for row in ids.tolist()
    ]


def sources() -> tuple[Tensor, Tensor]:
    source = torch.randint(3, VOCABULARY, (ROWS, 9), generator=torch.Generator().manual_seed(5))
    mask = (torch.arange(9) < torch.arange(ROWS).unsqueeze(1) % 7 + 3).long()
    return source * mask, mask


def limits(**others: object) -> Constraints:
    return Constraints(
        end=EOS, special=(PAD, BOS), **{"min_length": 0, "max_length": LENGTH, **others}
    )


@pytest.mark.parametrize(
    ("our_settings", "their_settings"),
    [
        ({}, {}),
        ({"min_length": 4}, {"min_new_tokens": 4}),
        ({"no_repeat_ngram": 2}, {"no_repeat_ngram_size": 2}),
        ({"block_context_ngram": 1}, {"encoder_no_repeat_ngram_size": 1}),
        ({"repetition_penalty": 1.5}, {"repetition_penalty": 1.5}),
    ],
)
def test_greedy_search(
    bart: Any,
    our_settings: dict[str, Any],
    their_settings: dict[str, Any],
) -> None:
    own = ours(bart, Greedy(constraints=limits(**our_settings)))
    assert len(set(map(tuple, own))) > ROWS / 2
    assert own == theirs(bart, **their_settings)


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize(
    ("our_settings", "their_settings"),
    [({}, {}), ({"no_repeat_ngram": 2}, {"no_repeat_ngram_size": 2})],
)
def test_beam_search(
    bart: Any,
    width: int,
    alpha: float,
    our_settings: dict[str, Any],
    their_settings: dict[str, Any],
) -> None:
    """Only where their response has ended: those that have not compete with others there, and come
    last here.
    """
    own = ours(
        bart, construct(Beam, constraints=limits(**our_settings), width=width, length_penalty=alpha)
    )
    other = theirs(
        bart, num_beams=width, length_penalty=alpha, early_stopping=True, **their_settings
    )
    ended = [row for row, tokens in enumerate(other) if len(tokens) < LENGTH]
    assert len(ended) > ROWS / 4
    assert [own[row] for row in ended] == [other[row] for row in ended]


class LikelihoodStep(BartStep):
    """Its log-probabilities, which penalties then apply to, as theirs do in beam search."""

    def __call__(
        self, tokens: Tensor, memory: EncoderStates, state: Prefix
    ) -> tuple[Tensor, Prefix]:
        logits, state = super().__call__(tokens, memory, state)
        return logits.log_softmax(-1), state


def test_repetition_penalty_in_beam_search(bart: Any) -> None:
    """The definitions differ: theirs divides log-probabilities, ours logits before they are
    normalised.
    """
    constraints = limits(repetition_penalty=1.5, normalised=False)
    own = ours(
        bart, construct(Beam, constraints=constraints, width=3, length_penalty=1.0), LikelihoodStep
    )
    other = theirs(
        bart, num_beams=3, length_penalty=1.0, early_stopping=True, repetition_penalty=1.5
    )
    ended = [row for row, tokens in enumerate(other) if len(tokens) < LENGTH]
    assert len(ended) > ROWS / 4
    assert [own[row] for row in ended] == [other[row] for row in ended]
