"""Attention maps of a reply are those that the search used, whatever beams it left on its way."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import Tensor

import dialog
from dialog.generation.network_step import NetworkStep
from dialog.models.inference.ensemble import MemberRows
from dialog.models.state import Rows


@dataclass(frozen=True)
class PastState(Rows):
    """State of the network, and the weights of the last cross-attention of every step so far."""

    inner: MemberRows
    tokens: Tensor  # [N, T]
    weights: Tensor  # [N, T, H, S]


class RecordingStep(NetworkStep):
    """Step that carries its weights in the state, so that the search reorders them with the
    beams.
    """

    seen: ClassVar[dict[tuple[int, ...], Tensor]] = {}

    def start(self, source: Tensor, mask: Tensor) -> tuple[MemberRows, PastState]:
        memory, state = super().start(source, mask)
        return memory, PastState(state, source[:, :0], torch.zeros(len(source), 0, 0, 0))

    def __call__(
        self, tokens: Tensor, memory: MemberRows, state: PastState
    ) -> tuple[Tensor, PastState]:
        weights: list[Tensor] = []
        model = self.models[0]
        logits, inner = model.step(
            tokens,
            memory.parts[0],
            state.inner.parts[0],
            lambda _, used: weights.append(used.transpose(1, 2)),
        )
        step = weights[-1]  # [N, 1, H, S]
        past = PastState(
            MemberRows((inner,)),
            torch.cat([state.tokens, tokens], 1),
            step if not state.tokens.shape[1] else torch.cat([state.weights, step], 1),
        )
        for row, used in zip(past.tokens.tolist(), past.weights, strict=True):
            self.seen[tuple(row)] = used
        return logits, past


@pytest.mark.parametrize("family", ["lstm", "transformer"])
@pytest.mark.parametrize(
    "search", [{"name": "greedy"}, {"name": "beam", "width": 4, "candidates": 4}]
)
def test_maps_follow_the_chosen_beam(
    family: str,
    search: dict[str, object],
    trained: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = dialog.load(trained(family))
    monkeypatch.setattr("dialog.generation.responder.NetworkStep", RecordingStep)
    monkeypatch.setattr(RecordingStep, "seen", {})
    # the package has a function of that name
    prepare = sys.modules["dialog.models.inference.prepare"]
    # prepared networks call no hook
    monkeypatch.setattr(prepare, "can_prepare", lambda model: False)
    reply = run.respond(["Hello .", "How are you ?"], search)
    for candidate in reply.candidates:
        used = RecordingStep.seen[1, *candidate.ids[:-1]]  # [T, H, S]
        cross = [
            one for one in run.attention(reply.context, candidate)["maps"] if one["kind"] == "cross"
        ]
        torch.testing.assert_close(
            torch.tensor(cross[-1]["weights"]).transpose(0, 1), used, atol=1e-5, rtol=0
        )


def test_maps_are_over_the_tokens_that_were_generated(trained: Callable[[str], Path]) -> None:
    run = dialog.load(trained("lstm"))
    reply = run.respond(["Hello ."])
    assert reply.attention()["response_tokens"] == list(
        map(run.tokenizer.label, reply.candidates[0].ids)
    )
    split = reply.candidates[0]._replace(
        text="Hello", ids=(*run.tokenizer.encode("He"), *run.tokenizer.encode("llo"))
    )
    tokens = run.attention(["Hello ."], split)["response_tokens"]
    assert tokens == list(map(run.tokenizer.label, split.ids))
