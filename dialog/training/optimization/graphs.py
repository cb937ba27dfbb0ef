"""CUDA graphs: forward and backward of a batch shape are recorded once, then replayed.

A step of a small model launches hundreds of kernels that are shorter than their launches; a graph
launches them at once. Read first: `RecordedSteps.__call__`.
"""

from __future__ import annotations

import logging
import traceback
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from dialog.data.batching import Batch
from dialog.errors import out_of_memory
from dialog.models.seq2seq import Seq2Seq
from dialog.training.losses import needs_of
from dialog.training.step import Terms, TrainingStep

WARM_UP = 2
"""Steps of a shape before it is recorded: they choose kernels and allocate workspaces, and the last
one is watched for reads of the host.
"""
MOST = 64
"""Recorded shapes; the least recently used one is dropped."""
MOST_SEEN = 4096
"""Shapes that are counted."""
TOLERANCE = 0.02
"""Largest distance of a replayed gradient from the step's, relative to its norm: that of bfloat16
sums in another order.
"""

log = logging.getLogger("dialog")
Result = TypeVar("Result")
Replay = Callable[[], None]
Key = tuple[object, ...]


class Recorder(Protocol):
    """Records the work of a function on the device, to be done again in the same memory."""

    def watch(self) -> AbstractContextManager[list[str]]:
        """Return a context whose value is a list of the reads of the host in its block."""

    def record(self, function: Callable[[], Result]) -> tuple[Result, Replay]:
        """Return what a function returns, and how to compute it again; it has no values before.

        Raises:
            RuntimeError: the work cannot be recorded.
        """


class CudaGraphs:
    """Records CUDA graphs that share a pool of memory: only one may be between its forward and its
    backward pass.

    Random numbers come from torch's default generator: a replay continues where its seed and
    offset are, as the eager step would.
    """

    def __init__(self) -> None:
        self.pool = torch.cuda.graph_pool_handle()

    @contextmanager
    def watch(self) -> Iterator[list[str]]:
        """List the lines that wait for the device."""
        reads: list[str] = []
        before = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                yield reads
            finally:
                torch.cuda.set_sync_debug_mode(before)
        reads += [
            f"{Path(each.filename).name}:{each.lineno} waits for the device"
            for each in caught
            if "called a synchronizing" in str(each.message)
        ]

    def record(self, function: Callable[[], Result]) -> tuple[Result, Replay]:
        """Capture a graph."""
        graph = torch.cuda.CUDAGraph()
        # leaves the capture's stream even if the capture fails; other threads, such as NCCL's, may
        # go on
        with (
            torch.cuda.stream(torch.cuda.current_stream()),
            torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"),
        ):
            result = function()
        return result, graph.replay


def recorder_of(device: torch.device) -> Recorder | None:
    """Return the recorder of a device, or None if it has none."""
    return CudaGraphs() if device.type == "cuda" else None


class RecordedSteps:
    """A masked `TrainingStep`, recorded for each shape that comes again and again.

    The law: results and gradients are those of the step, up to rounding, for any order of recorded
    and other steps; each new recording is compared with its step once. Each backward pass gets the
    gradient of the objective from outside and passes on the parameters' gradients, so accumulation,
    DDP, gradient scalers and hooks of parameters see an eager step. Two shapes share no graph, nor
    do two values of a schedule.

    What cannot be recorded is named in one line; all steps are eager from then on.
    """

    def __init__(self, step: TrainingStep, recorder: Recorder, *, most: int = MOST) -> None:
        self.step = replace(step, masked=True)
        self.recorder = recorder
        self.most = most
        self.seen: Counter[Key] = Counter()
        self.recorded: OrderedDict[Key, RecordedStep] = OrderedDict()
        self.gradients: Tensor | None = None
        self.refused = ""
        if "real" not in needs_of(step.loss):
            self.step = step
            self._refuse("the loss cannot leave out padding: list 'real' in its needs")
        elif isinstance(step.loss, nn.Module) and any(True for _ in step.loss.parameters()):
            self._refuse("the loss has parameters of its own")

    def __call__(self, model: Seq2Seq, batch: Batch, step: int) -> tuple[Tensor, Terms]:
        """Return what the `TrainingStep` returns; terms are valid until the next call."""
        if self.refused:
            return self.step(model, batch, step)
        key = self._key(model, batch, step)
        recorded = self.recorded.get(key)
        if recorded is None:
            if self.seen[key] < WARM_UP:
                return self._run_eagerly(key, model, batch, step)
            recorded = self._record(model, batch, step)
            if recorded is None:
                return self.step(model, batch, step)
            self.recorded[key] = recorded
            if len(self.recorded) > self.most:
                self.recorded.popitem(last=False)
        self.recorded.move_to_end(key)
        return recorded(batch)

    def _run_eagerly(
        self, key: Key, model: Seq2Seq, batch: Batch, step: int
    ) -> tuple[Tensor, Terms]:
        if len(self.seen) > MOST_SEEN:
            self.seen.clear()
        self.seen[key] += 1
        if self.seen[key] < WARM_UP:
            return self.step(model, batch, step)
        with self.recorder.watch() as reads:
            results = self.step(model, batch, step)
        if reads:
            self._refuse(reads[0])
        return results

    def _record(self, model: Seq2Seq, batch: Batch, step: int) -> RecordedStep | None:
        """Record the step of a batch, or refuse to."""
        hooked = [name for name, module in model.named_modules() if has_hooks(module)]
        if hooked:
            self._refuse(f"{hooked[0] or 'the model'} has hooks, which no replay would call")
            return None
        trained = [each for each in model.parameters() if each.requires_grad]
        size = sum(each.numel() for each in trained)
        if self.gradients is None or len(self.gradients) < size:
            self.gradients = torch.empty(size, dtype=trained[0].dtype, device=trained[0].device)
        try:
            eager = partial(self.step, model, step=step)
            recorded = RecordedStep.of(eager, batch, self.recorder, trained, self.gradients)
            distance = recorded.distance_from(eager, batch)
        except RuntimeError as error:
            self._refuse(described(error))
            return None
        if not distance <= TOLERANCE:  # nan too
            self._refuse(f"the gradient of a replay is {distance:.0%} away from the step's")
            return None
        return recorded

    def _key(self, model: Seq2Seq, batch: Batch, step: int) -> Key:
        """Return all that a recorded step depends on, but for the content of its tensors."""
        return (
            *(tensor.shape for tensor in tensors(batch)),
            batch.turn_shape,
            self.step.ratio(step),
            *(each.schedule(step) for each in self.step.objectives),
            model.training,
            *((each.data_ptr(), each.requires_grad) for each in model.parameters()),
        )

    def _refuse(self, reason: str) -> None:
        """Name the reason and free all graphs."""
        log.warning("trainer.graphs: steps are not recorded: %s", reason)
        self.refused = reason
        self.recorded.clear()
        self.gradients = None


@dataclass(frozen=True, eq=False)
class RecordedStep:
    """The step of one shape, in memory of its own."""

    batch: Batch  # read by `forward`
    objective: Tensor  # []
    terms: Terms
    incoming: Tensor  # [], gradient of the objective, read by `backward`
    parameters: Sequence[nn.Parameter]  # those with a gradient
    gradients: Sequence[Tensor]  # of each parameter: views of a memory that all shapes share
    forward: Replay
    backward: Replay

    @staticmethod
    def of(
        step: Callable[..., tuple[Tensor, Terms]],
        batch: Batch,
        recorder: Recorder,
        trained: Sequence[nn.Parameter],
        memory: Tensor,
    ) -> RecordedStep:
        """Record a ``step`` of a batch; gradients are written to ``memory``, one after another."""
        batch = with_tensors(batch, [tensor.clone() for tensor in tensors(batch)])
        (objective, terms), forward = recorder.record(lambda: step(batch=batch))
        incoming = torch.ones_like(objective)

        def backward() -> list[int]:
            # as in a trainer, where autocast ends before the backward pass
            with torch.autocast(objective.device.type, enabled=False):
                gradients = torch.autograd.grad(objective, trained, incoming, allow_unused=True)
            used = [place for place, each in enumerate(gradients) if each is not None]
            flat = [each.flatten() for each in gradients if each is not None]
            torch.cat(flat, out=memory[: sum(map(len, flat))])
            return used

        used, replay = recorder.record(backward)
        parameters = [trained[place] for place in used]
        sizes = [each.numel() for each in parameters]
        parts = torch.split(memory[: sum(sizes)], sizes)
        views = [part.view_as(each) for part, each in zip(parts, parameters, strict=True)]
        terms = {
            name: (value.detach(), count if isinstance(count, int) else count.detach())
            for name, (value, count) in terms.items()
        }
        return RecordedStep(
            batch, objective.detach(), terms, incoming, parameters, views, forward, replay
        )

    def __call__(self, batch: Batch) -> tuple[Tensor, Terms]:
        """Compute the step of another batch."""
        for own, other in zip(tensors(self.batch), tensors(batch), strict=True):
            own.copy_(other)
        objective: Tensor = _Replayed.apply(self, *self.parameters)  # type: ignore[no-untyped-call]
        return objective, self.terms

    def distance_from(self, step: Callable[..., tuple[Tensor, Terms]], batch: Batch) -> float:
        """Return how far the replayed objective or gradient of a batch is from that of the step,
        relative to it, the larger of both; random numbers are those before the call, here and after
        it.
        """
        generator = generator_of(batch.source.device)
        state = generator.get_state()
        torch.clear_autocast_cache()  # casts of the recording have no values yet
        objective, _ = step(batch=batch)
        with torch.autocast(objective.device.type, enabled=False):
            gradients = torch.autograd.grad(objective, self.parameters)
        generator.set_state(state)
        replayed, _ = self(batch)
        found = self.compute_gradients(torch.ones_like(objective))
        generator.set_state(state)
        expected = torch.cat([each.flatten() for each in gradients])
        difference = torch.cat([each.flatten() for each in found]) - expected
        distances = [
            ((replayed - objective) / objective).detach().abs(),
            difference.norm() / expected.norm(),
        ]
        return float(torch.stack(distances).max())

    def compute_gradients(self, incoming: Tensor) -> list[Tensor]:
        """Return the gradient of each parameter; it is valid until the next call."""
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            # autograd keeps the first gradient of a step without a copy
            if parameter.grad is not None and shares_memory(parameter.grad, gradient):
                parameter.grad = parameter.grad.clone()
        self.incoming.copy_(incoming)
        self.backward()
        return [gradient.detach() for gradient in self.gradients]


class _Replayed(torch.autograd.Function):
    """The objective of a recorded step, as a function of the parameters."""

    @staticmethod
    def forward(ctx: Any, recorded: RecordedStep, *parameters: Tensor) -> Tensor:
        """Replay the forward pass."""
        ctx.recorded = recorded
        recorded.forward()
        return recorded.objective.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, incoming: Tensor) -> tuple[Tensor | None, ...]:
        """Replay the backward pass."""
        return None, *ctx.recorded.compute_gradients(incoming)


def tensors(batch: Batch) -> list[Tensor]:
    """Return the tensors of a batch that a step reads."""
    return [batch.source, batch.target, batch.rows, batch.facts]


def with_tensors(batch: Batch, values: Sequence[Tensor]) -> Batch:
    """Return a batch with other tensors, in the order of `tensors`."""
    source, target, rows, facts = values
    return batch._replace(source=source, target=target, rows=rows, facts=facts)


def generator_of(device: torch.device) -> torch.Generator:
    """Return torch's default generator of random numbers on a device."""
    if device.type == "cuda":
        generators: Sequence[torch.Generator] = torch.cuda.default_generators
        return generators[torch.cuda.current_device() if device.index is None else device.index]
    return torch.default_generator


def shares_memory(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors are parts of one memory."""
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def has_hooks(module: nn.Module) -> bool:
    """Return whether calls of a module call anything else."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(module, kind, None) for kind in kinds)


def described(error: RuntimeError) -> str:
    """Return the reason of an error in one line, with the line of the program outside of torch."""
    if out_of_memory(error):
        return "out of memory while recording; lower data.batch_tokens"
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if "torch" not in Path(each.filename).parts]
    place = f"{Path(own[-1].filename).name}:{own[-1].lineno}: " if own else ""
    return f"{place}{str(error).partition(chr(10))[0]}"
