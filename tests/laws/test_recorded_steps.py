"""Every part can be recorded in a CUDA graph, and compiled as one program: a step reads nothing on
the host, and its calls and shapes do not depend on the content of a batch.

On a CPU, recorded calls of torch stand in for the graph, and traced ones for the program.
"""

from functools import partial
from typing import Any

import pytest
import torch
from recorded_calls import RecordedCalls, address
from test_models import HALF_CASES, PAD, TURNS, VOCABULARY, Component, label, make
from torch import Tensor

from dialog.data.batching import Batch
from dialog.data.tokenizers.tokenizer import BOS
from dialog.models.seq2seq import Seq2Seq
from dialog.training.module import DialogModule
from dialog.training.optimization import graphs
from dialog.training.optimization.compilation import CompiledStep
from dialog.training.optimization.graphs import RecordedSteps, tensors


def draw(seed: int) -> Batch:
    """Three sources of up to 4 turns and 7 tokens; other seeds, other numbers of real tokens."""
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(6, VOCABULARY, (3, 7), generator=generator)
    source[:, 0] = TURNS[0]
    source[0, 2], source[0, 5], source[1, 1 + seed] = TURNS[1], TURNS[0], TURNS[1]
    source[1, 4 + seed :] = PAD
    source[2, 1:] = PAD
    target = torch.randint(6, VOCABULARY, (3, 4), generator=generator)
    target[:, 0] = BOS
    target[1, 3 - seed :] = PAD
    tokens = int((target[:, 1:] != PAD).sum())
    rows = torch.arange(3)
    return Batch(source, target, rows, 0, tokens, 0, torch.zeros_like(rows), 0, (4, 7))


def computed(
    steps: RecordedSteps | CompiledStep, model: Seq2Seq, batch: Batch, seed: int
) -> list[Tensor]:
    """The objective, what is logged, and the gradients of three times the objective."""
    model.zero_grad()
    torch.manual_seed(seed)
    objective, terms = steps(model, batch, seed)
    logged = [(value / count).clone() for value, count in terms.values()]
    (3 * objective).backward()
    gradients = [each.grad for each in model.parameters() if each.grad is not None]
    return [objective.detach(), *logged, *gradients]


@pytest.mark.parametrize("case", HALF_CASES, ids=lambda case: "+".join(map(label, case)))
def test_a_recorded_step_is_the_step_of_any_batch(
    case: tuple[Component, Component, Component], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(3)
    model = make(*case).double().train()
    model.dropout.p = 0.3
    step = DialogModule(model, padding=PAD).step
    eager = RecordedSteps(step, RecordedCalls())
    expected = [computed(eager, model, draw(seed), seed) for seed in range(2)]
    monkeypatch.setattr(graphs, "WARM_UP", 0)
    recorder = RecordedCalls()
    steps = RecordedSteps(step, recorder)
    for seed in range(2):
        torch.testing.assert_close(
            computed(steps, model, draw(seed), seed), expected[seed], rtol=0, atol=0
        )
    assert not torch.equal(expected[0][0], expected[1][0])
    (recorded,) = steps.recorded.values()
    own = [*model.parameters(), *model.buffers(), *tensors(recorded.batch), recorded.incoming]
    known = set(map(address, [*own, *recorded.gradients]))
    assert {tuple(each.shape) for each in recorder.foreign if address(each) not in known} == set()


USUAL = [("lstm", "vocabulary"), ("transformer", "vocabulary")]


def compiled_cases() -> list[Any]:
    """One case for each decoder, and for each head that points."""
    cases = {(case[1]["name"], case[2]["name"]): case for case in HALF_CASES}
    return [
        pytest.param(
            case,
            id="+".join(map(label, case)),
            marks=[] if names in USUAL else pytest.mark.endurance,
        )
        for names, case in cases.items()
    ]


@pytest.mark.parametrize("case", compiled_cases())
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own
def test_a_step_is_compiled_without_a_break(
    case: tuple[Component, Component, Component], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.compiler.reset()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, fullgraph=True))
    torch.manual_seed(3)
    model = make(*case).double().train()
    model.dropout.p = 0.3
    step = DialogModule(model, padding=PAD).step
    compiled = CompiledStep(step, backend="eager")
    eager = RecordedSteps(step, RecordedCalls())
    torch.testing.assert_close(
        computed(compiled, model, draw(0), 0), computed(eager, model, draw(0), 0), rtol=0, atol=1e-9
    )
