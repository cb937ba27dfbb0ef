"""The loop of a recurrent decoder with Bahdanau's attention before each step, as one function with
its own gradient.

Formula: the loop of `BahdanauDecoder.forward` that calls its attention at each step; it runs when a
hook is set, with the same dropout masks. States and energies are in float32 or better, products in
the precision of the gates. The backward pass keeps nothing of the size [T, B, S, K] and computes
the gradient of each weight as one product over all steps; autograd computes one per step and adds
them. Second derivatives are not supported.

Gain: a training step of configs/model/lstm_bahdanau takes 0.86 of the time and 0.72 of the memory
on 64 rows of 48 source tokens, 0.81 and 0.52 on 32 rows of 96 (benchmarks/kernels.py; Intel Xeon
with AVX-512, one thread, torch 2.13). Scoring 774 references of DailyDialog takes 0.67 of the
decoder's time (AMD EPYC with AVX-512, one thread).

Test: ``test_kernel_is_the_readable_loop`` in tests/models/recurrent/test_additive_loop.py.

Shapes: B rows, S source tokens, T target tokens, M memory size, L layers, D hidden size, C cell
state width, K key width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dialog.models.attention import AdditiveScorer
from dialog.models.attention.additive import AdditiveSteps
from dialog.models.attention.attention import AttentionMemory
from dialog.models.kernels.autocast import without_autocast
from dialog.models.kernels.linear import affine, linear, mkl_is_slow
from dialog.models.recurrent.cells import RecurrentCell
from dialog.models.recurrent.stack import StackLoop


def additive_loop(
    loop: StackLoop, scorer: AdditiveScorer, memory: AttentionMemory
) -> tuple[Tensor, Tensor]:
    """Run all steps; return the last layer's states [T, B, D] and the contexts [T, B, M] read
    before each step.
    """
    own = loop.hidden[0].dtype
    low = loop.gates.dtype
    exact = torch.promote_types(own, torch.float32)
    values = memory.values.masked_fill(~memory.mask.unsqueeze(-1), 0.0).to(low)
    query = scorer.query.weight.to(low)
    weights = loop.product_weights()
    # products of few rows read contiguous transposes faster
    if not torch.is_grad_enabled() and not mkl_is_slow():
        query, *weights = (weight.t().contiguous().t() for weight in (query, *weights))
    inputs = (
        loop.gates,
        memory.keys.to(exact),
        values,
        query,
        scorer.energy.weight.squeeze(0).to(exact),
        torch.stack(loop.hidden).to(exact),
        torch.stack(loop.cell_states).to(exact),
        *weights,
        *loop.biases,
    )
    constants = LoopConstants(loop.stack.cell, memory.mask, loop.recurrent_masks, loop.upward_masks)
    tops, contexts, hidden, cell_states = _AdditiveLoop.apply(constants, *inputs)  # type: ignore[no-untyped-call]
    loop.hidden = list(hidden.to(own))
    loop.cell_states = list(cell_states.to(own))
    return tops.to(own), contexts


@dataclass(frozen=True)
class LoopConstants:
    """Inputs without gradient."""

    cell: RecurrentCell
    mask: Tensor  # [B, S]
    recurrent_masks: Sequence[Tensor]  # variational dropout: for each layer [B, D]; or empty
    # dropout between layers: for layers 1, 2, .. and T steps [B, D]; or empty
    upward_masks: Sequence[Sequence[Tensor]]

    def recurrent(self, layer: int, hidden: Tensor) -> Tensor:
        """Apply dropout to a layer's state for its own product, or to the gradient of that."""
        return hidden * self.recurrent_masks[layer] if self.recurrent_masks else hidden

    def upward(self, layer: int, step: int, states: Tensor) -> Tensor:
        """Apply dropout to a layer's input from the layer below, or to the gradient of that."""
        return states * self.upward_masks[layer - 1][step] if self.upward_masks else states


class _AdditiveLoop(torch.autograd.Function):
    """Saves for each step: preactivations, states, the input of each product, queries and
    weights.
    """

    @staticmethod
    def forward(
        ctx: Any,
        constants: LoopConstants,
        token_gates: Tensor,  # [T, B, 4 D], the tokens' part of the bottom layer's gates
        keys: Tensor,  # [B, S, K]
        values: Tensor,  # [B, S, M]
        query: Tensor,  # [K, D]
        energy: Tensor,  # [K]
        hidden: Tensor,  # [L, B, D]
        cell_states: Tensor,  # [L, B, C]
        *products: Tensor,  # L weights [4 D, .. + D], and L - 1 biases [4 D]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the last layer's states, the contexts, and all layers' final hidden and cell
        states.
        """
        with without_autocast(token_gates):
            layers = len(hidden)
            steps = len(token_gates)
            weights = products[:layers]
            biases = products[layers:]
            attention = AdditiveSteps(keys, energy, constants.mask)
            states = hidden.new_empty(steps + 1, *hidden.shape)  # [T + 1, L, B, D]
            cells = cell_states.new_empty(steps + 1, *cell_states.shape)  # [T + 1, L, B, C]
            gates = hidden.new_empty(steps, layers, *token_gates.shape[1:])  # [T, L, B, 4 D]
            inputs = [
                token_gates.new_empty(steps, hidden.shape[1], weight.shape[1]) for weight in weights
            ]
            queries = hidden.new_empty(steps, hidden.shape[1], len(query))  # [T, B, K]
            alignments = hidden.new_empty(steps, *constants.mask.shape)  # [T, B, S]
            states[0] = hidden
            cells[0] = cell_states
            for step in range(steps):
                queries[step] = linear(states[step, -1].to(query.dtype), query)
                alignments[step] = attention.weights(queries[step])
                # [B, M]
                below = torch.bmm(alignments[step].to(values.dtype).unsqueeze(1), values).squeeze(1)
                for layer, weight in enumerate(weights):
                    below = constants.upward(layer, step, below) if layer else below
                    own = constants.recurrent(layer, states[step, layer])
                    product = torch.cat(
                        [below.to(weight.dtype), own.to(weight.dtype)], 1, out=inputs[layer][step]
                    )
                    bias = biases[layer - 1] if layer else token_gates[step]
                    gates[step, layer] = affine(bias, product, weight)
                    below, new = constants.cell.step(
                        gates[step, layer], states[step, layer], cells[step, layer]
                    )
                    states[step + 1, layer] = below
                    cells[step + 1, layer] = new
            ctx.constants = constants
            ctx.save_for_backward(
                keys,
                values,
                query,
                energy,
                states,
                cells,
                gates,
                queries,
                alignments,
                *weights,
                *inputs,
            )
            contexts = inputs[0][..., : values.shape[2]]
            return states[1:, -1].clone(), contexts.clone(), states[-1].clone(), cells[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of all inputs from the gradients of all outputs."""
        with without_autocast(gradients[0]):
            return None, *_backward(ctx, *gradients)


def _backward(
    ctx: Any,
    tops: Tensor,
    contexts: Tensor,
    hidden: Tensor,
    cell_states: Tensor,
) -> tuple[Tensor, ...]:
    """Go through the steps backwards, then compute the gradient of each weight over all steps."""
    constants: LoopConstants = ctx.constants
    keys, values, query, energy, states, cells, gates, queries, alignments, *rest = (
        ctx.saved_tensors
    )
    layers = len(hidden)
    steps = len(tops)
    weights = rest[:layers]
    inputs = rest[layers:]
    attention = AdditiveSteps(keys, energy, constants.mask)
    of_keys = torch.zeros_like(keys)
    of_energy = torch.zeros_like(energy)
    of_queries = torch.empty_like(queries)
    of_gates = torch.empty_like(gates)
    of_contexts = contexts.new_empty(contexts.shape)
    of_hidden = list(hidden)
    of_cells = list(cell_states)
    for step in reversed(range(steps)):
        of_hidden[-1] = of_hidden[-1] + tops[step]
        for layer in reversed(range(layers)):
            before = gates[step, layer], states[step, layer], cells[step, layer]
            of_preactivations, of_hidden[layer], of_cells[layer] = constants.cell.backward(
                *before, of_hidden[layer], of_cells[layer]
            )
            of_gates[step, layer] = of_preactivations
            weight = weights[layer]
            of_below, of_own = torch.split(
                of_preactivations.to(weight.dtype) @ weight,
                [weight.shape[1] - hidden.shape[2], hidden.shape[2]],
                1,
            )
            of_hidden[layer] = of_hidden[layer] + constants.recurrent(
                layer, of_own.to(hidden.dtype)
            )
            if layer:
                below = constants.upward(layer, step, of_below.to(hidden.dtype))
                of_hidden[layer - 1] = of_hidden[layer - 1] + below
        of_contexts[step] = contexts[step] + of_below
        weight_t = alignments[step]
        # in this order a product of 64 rows of 48 takes 0.3 ms, in the other one 2.3
        of_weights = (
            torch.bmm(of_contexts[step].unsqueeze(1), values.transpose(1, 2))
            .squeeze(1)
            .to(weight_t.dtype)
        )
        # [B, S]
        of_energies = weight_t * (of_weights - (weight_t * of_weights).sum(1, keepdim=True))
        of_queries[step] = attention.backward(queries[step], of_energies, of_keys, of_energy)
        of_hidden[-1] = of_hidden[-1] + (of_queries[step].to(query.dtype) @ query).to(hidden.dtype)
    low = [of_gates[:, layer].to(weight.dtype) for layer, weight in enumerate(weights)]
    return (
        low[0],
        of_keys.mul_(4 * energy),
        torch.bmm(alignments.to(values.dtype).permute(1, 2, 0), of_contexts.transpose(0, 1)),
        _weight_gradient(of_queries.to(query.dtype), states[:-1, -1].to(query.dtype)),
        of_energy.mul_(2),
        torch.stack(of_hidden),
        torch.stack(of_cells),
        *(
            _weight_gradient(of_output, product)
            for of_output, product in zip(low, inputs, strict=True)
        ),
        *(of_output.sum((0, 1)) for of_output in low[1:]),
    )


def _weight_gradient(of_outputs: Tensor, inputs: Tensor) -> Tensor:
    """Return the gradient of a weight from its outputs' gradients and its inputs, each
    [T, B, ..].
    """
    return of_outputs.flatten(0, 1).t() @ inputs.flatten(0, 1)
