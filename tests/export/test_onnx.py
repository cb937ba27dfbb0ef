"""Parity of ONNX Runtime over all parts of networks, its attention maps, and the code of the
card.
"""

from __future__ import annotations

import ast
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from logging.handlers import QueueHandler
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from modern_networks import MODERN
from torch import Tensor, nn

from dialog.analysis.attention.maps import attention_maps
from dialog.data.tokenizers.tokenizer import BOS, EOS, OTHER, PAD, SELF
from dialog.errors import UserError
from dialog.export.card import program
from dialog.export.export import CARD, PARITY, export
from dialog.export.formats.onnx import Onnx
from dialog.export.formats.onnx.engine import OnnxModel, session
from dialog.export.formats.onnx.layers import in_onnx_operators, traced_lengths
from dialog.export.formats.onnx.networks import MAP, Structure, steps_any_length
from dialog.export.formats.onnx.writing import (
    ENCODER,
    REGISTRATION,
    SIZES,
    example,
    quiet_exporter,
    translated,
    write_encoder,
)
from dialog.export.parity import measure_parity
from dialog.models.attention import build_attention
from dialog.models.contracts import AttentionHook, Decoder, Encoded, Encoder, Memory, State
from dialog.models.recurrent import LSTM, LuongDecoder, RecurrentSettings, cells
from dialog.models.seq2seq import Seq2Seq
from dialog.models.state import Rows
from dialog.runs.run import Run

ADDITIVE = {"name": "additive", "size": 8}
READERS: tuple[dict[str, Any], ...] = (
    ADDITIVE,
    {"name": "dot"},
    {"name": "scaled_dot"},
    {"name": "multi_head", "heads": 4},
    {"name": "multi_head", "heads": 2, "join": "mean"},
    {"name": "multi_head", "heads": 2, "join": "max"},
    {"name": "fine_grained", "size": 8},
    {"name": "location", "size": 8, "filters": 3, "width": 3},
    {"name": "local", "size": 8, "window": 4},
    {"name": "interactive", "scorer": ADDITIVE},
    {"name": "none"},
)
CASES: dict[str, dict[str, Any]] = {
    "final states, fused steps, pointer": {
        "encoder": {"name": "gru", "size": 16, "layers": 2, "bidirectional": False},
        "decoder": {
            **{"name": "gru_luong", "size": 16, "layers": 2, "attention": {"name": "dot"}},
            **{"bridge": {"name": "final"}, "input_feeding": False},
        },
        "head": {"name": "pointer"},
        "tie_embeddings": "none",
        "scale_embeddings": False,
    },
    "hierarchical, modern": {
        "encoder": {
            "name": "hierarchical",
            "tokens": {"name": "gru", "size": 16},
            "turns": {
                **{"name": "transformer", "layers": 1, "heads": 2, "feed_forward_size": 20},
                **{"norm_first": False, "activation": "gelu", "positions": {"name": "learned"}},
            },
        },
        "decoder": {
            **{"name": "transformer", "layers": 1, "heads": 4, "feed_forward_size": 20},
            **{
                "key_value_heads": 2,
                "norm": "rms_norm",
                "activation": "swiglu",
                "positions": {"name": "rotary"},
            },
        },
        "head": {"name": "pointer_generator"},
    },
    "all readers": {
        "encoder": {"name": "lstm", "size": 24},
        "decoder": {"name": f"{__name__}.Readers"},
        "head": {"name": "vocabulary", "bias": True},
        "tie_embeddings": "output",
    },
}
FAMILIES = ("lstm", "transformer")
CASES |= MODERN


@dataclass(frozen=True)
class Bundle(Rows):
    parts: tuple[Rows | Tensor, ...]


class Readers(Decoder):
    """The outputs of a decoder with input feeding query the source by every scorer."""

    shows_source = True

    def __init__(self, *, input_size: int, memory_size: int) -> None:
        super().__init__()
        settings = RecurrentSettings(input_size=input_size, size=20)
        self.luong = LuongDecoder(
            LSTM(), settings, memory_size=memory_size, attention={"name": "bilinear"}
        )
        sizes = {"query_size": input_size, "key_size": memory_size}
        self.attentions = nn.ModuleList(build_attention(reader, **sizes) for reader in READERS)
        self.output = nn.Linear(memory_size, input_size)

    @property
    def pointer(self) -> None:
        return None

    def start(self, encoded: Encoded) -> tuple[Bundle, Bundle]:
        parts = self.luong, *self.attentions
        memories, states = zip(*(part.start(encoded) for part in parts), strict=True)
        return Bundle(memories), Bundle(states)

    def forward(
        self, inputs: Tensor, memory: Memory, state: State, hook: AttentionHook | None = None
    ) -> tuple[Tensor, State]:
        query, first = self.luong(inputs, memory.parts[0], state.parts[0], hook)
        states, contexts = [first], []
        for attention, source, past in zip(
            self.attentions, memory.parts[1:], state.parts[1:], strict=True
        ):
            context, new = attention(query, source, past, hook)
            contexts.append(context)
            states.append(new)
        return self.output(torch.stack(contexts).mean(0)), Bundle(tuple(states))


class Branching(Encoder):
    """Its operators depend on the content of the source."""

    def __init__(self, *, input_size: int) -> None:
        super().__init__()
        self.size = input_size

    def forward(self, inputs: Tensor, mask: Tensor, hook: AttentionHook | None = None) -> Encoded:
        states = inputs if inputs.sum() > 0 else -inputs
        return Encoded(states * mask.unsqueeze(-1), mask, states.mean(1))


@pytest.fixture(scope="module")
def exported(
    trained_run: Callable[[str], Run],
    random_run: Callable[..., Run],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], tuple[Run, Path]]:
    """``exported("lstm")``: a run and the folder of its export."""
    root = tmp_path_factory.mktemp("onnx")

    @cache
    def write(name: str) -> tuple[Run, Path]:
        folder = root / name.replace(" ", "_")
        if name in FAMILIES:
            run = trained_run(name)
            export(run, "onnx", folder)
            return run, folder
        run = random_run(**CASES[name])
        Onnx().check(run.model)
        folder.mkdir()
        Onnx().write(run, folder)
        return run, folder

    return write


LONG = [pytest.param(name, marks=pytest.mark.endurance) for name in CASES]
"""Each takes ten seconds to export, or more; all mixers together 80."""


@pytest.mark.parametrize("name", [*FAMILIES, *LONG])
def test_parity(
    name: str, exported: Callable[[str], tuple[Run, Path]], capfd: pytest.CaptureFixture[str]
) -> None:
    run, folder = exported(name)
    capfd.readouterr()
    parity = measure_parity(run.model, Onnx().load(folder), max_source=64)
    assert parity.holds
    assert parity.largest_difference < 1e-5
    assert parity.greedy_equal + parity.greedy_ties == parity.sources
    assert capfd.readouterr() == ("", "")  # no warnings of the engine


class ExportedStep:
    """The exported files as the step of a search."""

    def __init__(self, folder: Path) -> None:
        self.model = OnnxModel(folder)
        self.names = json.loads((folder / "onnx.json").read_text(encoding="utf-8"))

    def start(self, source: Tensor) -> tuple[Bundle, Bundle]:
        tensors = self.model.start([row[row != PAD].tolist() for row in source])
        memory, state = (
            Bundle(tuple(torch.from_numpy(tensors[name]) for name in self.names[part]))
            for part in ("memory", "state")
        )
        return memory, state

    def __call__(self, tokens: Tensor, memory: Bundle, state: Bundle) -> tuple[Tensor, Bundle]:
        names = [*self.names["memory"], *self.names["state"]]
        parts = [part.numpy() for part in (*memory.parts, *state.parts)]
        tensors = dict(zip(names, parts, strict=True))
        logits = self.model.advance(tokens.numpy(), tensors)["logits"]
        after = tuple(torch.from_numpy(tensors[name]) for name in self.names["state"])
        return torch.from_numpy(logits), Bundle(after)


@pytest.mark.parametrize("name", [*FAMILIES, *LONG])
def test_beam_search_over_the_files_is_that_of_the_run(
    name: str, exported: Callable[[str], tuple[Run, Path]]
) -> None:
    run, folder = exported(name)
    beam = {"name": "beam", "width": 5, "candidates": 5}
    contexts = [["Hi !", "Hello . How are you ?"], ["I like tea ."], ["a", "b c", "d"]]
    pairs = run.responder.encode_batch([run.responder.example(one) for one in contexts])
    sources = [source for source, _ in pairs]
    source = nn.utils.rnn.pad_sequence([*map(torch.tensor, sources)], True, PAD)
    step = ExportedStep(folder)
    first = torch.full((len(source), 1), BOS)
    replies = run.responder.search(beam)(step, first, *step.start(source), source)
    expected = run.responder.generate(source, beam)
    assert [[[*one.tokens] for one in row] for row in replies] == [
        [[token for token in one.ids if token != EOS] for one in row] for row in expected
    ]


@pytest.mark.parametrize("name", [*FAMILIES, *LONG])
def test_attention_maps_are_those_of_the_hook(
    name: str, exported: Callable[[str], tuple[Run, Path]]
) -> None:
    run, folder = exported(name)
    sources, target = (
        [[SELF, 20, 21, SELF, 30, EOS], [SELF, 40, EOS]],
        [[BOS, 50, 51, 52], [BOS, 60, 61, 62]],
    )
    source = torch.tensor([row + [PAD] * (6 - len(row)) for row in sources])
    maps = attention_maps(run.model, source, source != PAD, torch.tensor(target))
    expected = {
        MAP + one.name: one.weights
        for one in maps
        if one.kind == "cross" and one.columns == "source"
    }
    model = OnnxModel(folder)
    tensors, steps = model.start(sources), np.array(target)
    parts = [steps] if model.several_tokens else np.split(steps, 4, 1)
    results = [model.advance(part, tensors) for part in parts]
    computed = {
        key: np.concatenate([one[key] for one in results], 2)
        for key in results[0]
        if key.startswith(MAP)
    }
    assert list(computed) == list(expected)
    assert bool(expected) == run.model.decoder.shows_source
    for key, weights in expected.items():
        assert np.abs(computed[key] - weights.numpy()).max() < 1e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_program_of_the_card_responds_as_the_run(
    family: str, exported: Callable[[str], tuple[Run, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, folder = exported(family)
    code = program(run, Onnx())
    assert code in (folder / CARD).read_text(encoding="utf-8")
    imported = [
        node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in imports(code)
    ]
    assert imported == ["tokenizers", "numpy", "onnxruntime"]
    monkeypatch.chdir(folder)
    for context in (
        ["Hi !", "Hello . How are you ?"],
        ["What is your name ?"],
        ["a", "b c", "d"],
        [],
    ):
        names: dict[str, Any] = {}
        exec(code.replace('["Hi !", "Hello . How are you ?"]', repr(context)), names)
        best = run.respond(context, {"name": "greedy"}).candidates[0]
        assert names["response"] == [token for token in best.ids if token != EOS]
        assert best.ids
        assert names["attention"].shape[-1] == len(names["source"])


def imports(code: str) -> list[ast.Import | ast.ImportFrom]:
    return [
        node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Import | ast.ImportFrom)
    ]


def test_export_reports_parity(exported: Callable[[str], tuple[Run, Path]]) -> None:
    _, folder = exported("lstm")
    report = json.loads((folder / PARITY).read_text(encoding="utf-8"))
    assert report["holds"]
    assert {"onnx", "onnxruntime", "onnxscript"} <= set(report["packages"])


def test_files_are_described(exported: Callable[[str], tuple[Run, Path]]) -> None:
    run, folder = exported("transformer")
    described = json.loads((folder / "onnx.json").read_text(encoding="utf-8"))
    layers = range(2)
    assert described["memory"] == [
        f"memory.layers.{n}.{part}" for n in layers for part in ("keys", "values")
    ] + ["memory.mask"]
    assert described["state"] == [
        f"state.layers.{n}.{part}" for n in layers for part in ("keys", "values")
    ]
    assert described["attention"] == [f"{MAP}decoder.layers.{n}.cross_attention" for n in layers]
    assert described["special"]["end"] == EOS
    assert described["several_tokens"]
    encoder, step = (onnx.load(folder / name).graph for name in ("encoder.onnx", "step.onnx"))
    assert [value.name for value in encoder.output] == described["memory"] + described["state"]
    assert [value.name for value in step.input] == [
        "tokens",
        *described["memory"],
        *described["state"],
    ]
    sizes = {value.name: shape(value) for value in (*encoder.input, *step.input, *step.output)}
    assert sizes["source"] == sizes["mask"] == ["batch", "source"]
    assert sizes["tokens"] == ["batch", "target"]
    assert sizes["state.layers.0.keys"] == ["batch", 2, "past", 12]
    assert sizes["logits"] == ["batch", "target", len(run.tokenizer)]
    assert sizes["attention.decoder.layers.0.cross_attention"] == ["batch", 2, "target", "source"]
    for name, graph in (("encoder.onnx", encoder), ("step.onnx", step)):
        assert described["inputs"][name] == [value.name for value in graph.input]
        assert described["outputs"][name] == [value.name for value in graph.output]
        assert str(Path(__file__).parents[2]).encode() not in (folder / name).read_bytes()


def shape(value: onnx.ValueInfoProto) -> list[str | int]:
    return [size.dim_param or size.dim_value for size in value.type.tensor_type.shape.dim]


def test_files_have_what_the_steps_use(exported: Callable[[str], tuple[Run, Path]]) -> None:
    _, folder = exported("lstm")
    described = json.loads((folder / "onnx.json").read_text(encoding="utf-8"))
    # not the source's tokens
    assert described["memory"] == ["memory.keys", "memory.values", "memory.mask"]
    assert described["state"] == ["state.stack.hidden", "state.stack.cell_state"]
    assert not described["several_tokens"]


@pytest.mark.endurance
def test_files_of_a_pointer_have_the_tokens(
    exported: Callable[[str], tuple[Run, Path]],
) -> None:
    _, folder = exported("final states, fused steps, pointer")
    described = json.loads((folder / "onnx.json").read_text(encoding="utf-8"))
    # the keys of dot are the values
    assert described["memory"] == ["memory.tokens", "memory.values", "memory.mask"]
    assert described["state"] == ["state.stack.hidden"]  # a GRU has no cell state
    assert described["several_tokens"]


@pytest.mark.endurance
def test_encoder_of_turns_needs_no_further_input(
    exported: Callable[[str], tuple[Run, Path]],
) -> None:
    _, folder = exported("hierarchical, modern")
    encoder = OnnxModel(folder).encoder
    assert [value.name for value in encoder.get_inputs()] == ["source", "mask"]
    names = json.loads((folder / "onnx.json").read_text(encoding="utf-8"))
    assert [value.name for value in encoder.get_outputs()] == names["memory"] + names["state"]


def test_encoder_computes_its_turns(random_run: Callable[..., Run], tmp_path: Path) -> None:
    """Of sources of other lengths and numbers of turns than in the export."""
    gru = {"name": "gru", "size": 8}
    model = random_run(
        encoder={"name": "hierarchical", "tokens": gru, "turns": gru},
        decoder={**gru, "attention": {"name": "dot"}},
    ).model
    copied = in_onnx_operators(model)
    names = [*example(copied, SIZES)[1]]
    with torch.no_grad(), quiet_exporter(), traced_lengths():
        write_encoder(copied, tmp_path / ENCODER, names)
    opened = session(tmp_path / ENCODER)
    assert [value.name for value in opened.get_inputs()] == ["source", "mask"]
    rows = [[OTHER, 20, 21, SELF, 30, OTHER, 40, 41, EOS], [SELF, 40, EOS, *[PAD] * 6]]
    source = torch.tensor(rows)
    with torch.no_grad():
        expected = Structure(*model.start(source, source != PAD)).tensors()
    computed = opened.run(names, {"source": source.numpy(), "mask": (source != PAD).numpy()})
    assert "memory.values" in names
    for name, tensor in zip(names, computed, strict=True):
        assert np.allclose(tensor, expected[name].numpy(), atol=1e-5), name


@pytest.mark.endurance
def test_untranslatable_part_is_named(random_run: Callable[..., Run], tmp_path: Path) -> None:
    run = random_run(
        encoder={"name": f"{__name__}.Branching"},
        decoder={"name": "gru", "size": 8, "attention": ADDITIVE},
    )
    with pytest.raises(
        UserError, match=rf"cannot translate {__name__}\.Branching .*; use --format huggingface"
    ):
        Onnx().write(run, tmp_path)


@pytest.mark.parametrize("feeding", [False, True])
@pytest.mark.parametrize("scorer", [{"name": "dot"}, {"name": "location", "size": 8}])
def test_loops_are_exported_for_one_token(scorer: dict[str, Any], feeding: bool) -> None:
    decoder = {"name": "lstm_luong", "size": 16, "attention": scorer, "input_feeding": feeding}
    network = Seq2Seq(
        30, padding=PAD, embedding_size=8, encoder={"name": "lstm", "size": 16}, decoder=decoder
    )
    assert steps_any_length(network) == (scorer["name"] == "dot" and not feeding)


def test_export_does_not_change_the_run(exported: Callable[[str], tuple[Run, Path]]) -> None:
    run, _ = exported("lstm")
    assert run.model.source_embedding is run.model.target_embedding
    assert type(run.model.encoder.cell) is LSTM
    assert not hasattr(cells, "len")
    assert all(parameter.requires_grad for parameter in run.model.parameters())


class Double(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return inputs + inputs


def test_exporter_is_quiet() -> None:
    logger, records = logging.getLogger(REGISTRATION), SimpleQueue()
    handler = QueueHandler(records)
    level = logger.level
    logger.addHandler(handler)
    try:
        with quiet_exporter():
            translated(
                Double().eval(),
                (torch.ones(3, 4),),
                ({0: "batch"},),
                inputs=["inputs"],
                outputs=["outputs"],
            )
    finally:
        logger.removeHandler(handler)
    assert records.empty()
    assert logger.level == level
