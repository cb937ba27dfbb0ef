"""Laws of all encoders, decoders, attentions and heads, in float64.

All widths are 8, so that every part fits every other one. To test your own part:
``python -m pytest tests/laws --attention '{name: my_lab.Location, size: 8}'``, or --encoder,
--decoder, --head.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import yaml
from mixer_cases import MIXER_PARTS, NEW_DECODERS, NEW_ENCODERS, NEW_PAIRS
from torch import Tensor, nn

from dialog.analysis.attention.maps import attention_maps
from dialog.analysis.attention.statistics import Examples, statistics
from dialog.analysis.attention.token_kinds import TokenKinds
from dialog.config.trust import trusted
from dialog.models.attention.attention import ATTENTIONS
from dialog.models.heads import HEADS, PointerHead
from dialog.models.positions import POSITIONS
from dialog.models.recurrent import BRIDGES, BahdanauDecoder
from dialog.models.seq2seq import DECODERS, ENCODERS, Seq2Seq, count_parameters

VOCABULARY, SIZE, PAD, TURNS = 23, 8, 0, (4, 5)
FAMILIES = ("encoder", "decoder", "attention", "head")
Component = dict[str, Any]

ATTENTION_CASES: list[Component] = [
    {"name": "none"},
    {"name": "additive", "size": 5},
    {"name": "dot"},
    {"name": "scaled_dot"},
    {"name": "bilinear"},
    {"name": "multi_head", "heads": 2},
    {"name": "multi_head", "heads": 4, "join": "mean", "size": 12},
    {"name": "multi_head", "heads": 2, "join": "max"},
    {"name": "fine_grained", "size": 5},
    {"name": "location", "size": 5, "filters": 3, "width": 3},
    {"name": "local", "size": 5, "window": 2},
    {"name": "interactive", "scorer": {"name": "additive", "size": 5}},
]
PLAIN: Component = {"name": "transformer", "heads": 2, "feed_forward_size": 12, "layers": 2}
TRANSFORMER_CASES: list[Component] = [
    PLAIN,
    PLAIN | {"heads": 4, "layers": 1, "norm_first": False},
    PLAIN
    | {
        "norm": "rms_norm",
        "activation": "swiglu",
        "positions": {"name": "rotary"},
        "key_value_heads": 1,
    },
    PLAIN
    | {"norm": "rms_norm", "activation": "gelu", "positions": {"name": "learned", "length": 16}},
    PLAIN
    | {
        "heads": 4,
        "key_value_heads": 2,
        "norm_first": False,
        "norm": "rms_norm",
        "attention_dropout": 0.0,
    },
    PLAIN
    | {
        "activation": "swiglu",
        "norm_first": False,
        "positions": {"name": "rotary"},
        "activation_dropout": 0.0,
    },
]
"""The first with other parts, the rest with themselves; layer_drop, which drops gradients, has its
own tests.
"""
ENCODER_CASES: list[Component] = [
    {"name": "lstm", "size": SIZE},
    {"name": "lstm", "size": SIZE, "bidirectional": False},
    {"name": "gru", "size": SIZE, "layers": 2, "variational": True},
    *TRANSFORMER_CASES[:2],
    {"name": "hierarchical", "tokens": {"name": "lstm", "size": SIZE}, "turns": PLAIN},
    {
        "name": "hierarchical",
        "tokens": TRANSFORMER_CASES[1],
        "turns": {"name": "lstm", "size": SIZE},
    },
]
RECURRENT_CASES: list[Component] = [
    {"name": "lstm", "size": SIZE},
    {"name": "gru", "size": SIZE, "layers": 2, "variational": True, "bridge": {"name": "copy"}},
    {"name": "lstm_luong", "size": SIZE, "layers": 2},
    {"name": "gru_luong", "size": SIZE, "bridge": {"name": "zero"}},
    {"name": "lstm_luong", "size": SIZE, "input_feeding": False, "variational": True},
    {"name": "gru_luong", "size": SIZE, "layers": 2, "input_feeding": False},
]
FINAL_CASES: list[tuple[Component, Component]] = [
    (
        {"name": "lstm", "size": SIZE, "layers": 2, "bidirectional": False},
        {"name": "lstm_plain", "size": SIZE, "layers": 2},
    ),
    ({"name": "gru", "size": SIZE}, {"name": "gru_plain", "size": SIZE, "variational": True}),
    (
        ENCODER_CASES[0],
        RECURRENT_CASES[4] | {"attention": ATTENTION_CASES[4], "bridge": {"name": "final"}},
    ),
    (PLAIN, {"name": "lstm_plain", "size": 5, "layers": 2, "bridge": {"name": "dense"}}),
]
"""Decoders without attention, and those that start from the encoder's final states, which fit some
encoders only.
"""
HEAD_CASES: list[Component] = [
    {"name": "vocabulary"},
    {"name": "pointer"},
    {"name": "pointer_generator"},
]
ADDITIVE = ATTENTION_CASES[1]
HALF_CASES: list[tuple[Component, Component, Component]] = [
    *(
        (ENCODER_CASES[0], RECURRENT_CASES[0] | {"attention": each}, HEAD_CASES[0])
        for each in ATTENTION_CASES
    ),
    *(
        (ENCODER_CASES[0], each | {"attention": ADDITIVE}, HEAD_CASES[0])
        for each in RECURRENT_CASES
    ),
    *((each, PLAIN, HEAD_CASES[0]) for each in ENCODER_CASES),
    *((each, each, HEAD_CASES[0]) for each in TRANSFORMER_CASES[1:]),
    *((*each, HEAD_CASES[0]) for each in NEW_PAIRS),
    *((PLAIN, PLAIN, each) for each in HEAD_CASES[1:]),
    *((PLAIN, RECURRENT_CASES[0] | {"attention": ADDITIVE}, each) for each in HEAD_CASES[1:]),
]
"""Each part with one other of each kind: formats fail within a part or between two."""

OUTPUTS = (
    "decoder.readout",
    "decoder.attentional",
    "decoder.attention.scorer.value",
    "decoder.attention.scorer.output",
    "decoder.norm",
    *(f"decoder.layers.{last}.{part}" for last in (0, 1) for part in ("feed_", "cross_residual")),
    *(
        f"decoder.layers.{last}.cross_attention.{part}"
        for last in (0, 1)
        for part in ("value", "output")
    ),
)
"""Parameters that may affect a decoder's outputs only."""


def label(case: Component) -> str:
    """All values of a component, as a test id."""
    inner = (
        f"({label(value)})" if isinstance(value, dict) else str(value) for value in case.values()
    )
    return "-".join(inner)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every encoder with every decoder, every decoder with every attention, every head with both
    kinds of attention; pairs of unusual parts in the endurance tests.
    """
    if "built" not in metafunc.fixturenames:
        return

    def family(name: str, cases: list[Component]) -> list[Component]:
        option = metafunc.config.getoption(f"--{name}", default=None)
        return cases if option is None else [trusted(yaml.safe_load(option))]

    encoders, (plain, *pointing) = family("encoder", ENCODER_CASES), family("head", HEAD_CASES)
    attentions = family("attention", ATTENTION_CASES)
    decoders = family("decoder", [*RECURRENT_CASES, *TRANSFORMER_CASES[:2]])
    recurrent = [
        each for each in decoders if each["name"] in {case["name"] for case in RECURRENT_CASES}
    ]
    others = [each for each in decoders if each not in recurrent]
    if len(attentions) == 1:
        others = []
    elif not pointing:  # a head of the command line may point
        attentions = attentions[1:]
    usual = [
        each
        for each in attentions
        if len(attentions) == 1 or each in (ADDITIVE, ATTENTION_CASES[6])
    ]
    one, two, every = (
        [each | {"attention": attention} for each in recurrent for attention in some]
        for some in (usual[:1], usual, attentions)
    )
    cases = [*itertools.product(encoders, [*one, *others], [plain])]
    cases += [(encoders[0], decoder, plain) for decoder in every if decoder not in one]
    cases += [*itertools.product(encoders[:1], [*two, *others], pointing)]
    alone = []
    if len(encoders) > 1 < len(decoders) and len(attentions) > 1:
        alone += [(each, each, plain) for each in TRANSFORMER_CASES[2:]]
        alone += [(*each, {"name": "vocabulary", "bias": True}) for each in FINAL_CASES]
        alone += [(*each, plain) for each in NEW_PAIRS]
        alone += [(encoders[0], MIXER_PARTS[4], pointing[-1])]
    own = any(metafunc.config.getoption(f"--{name}", default=None) for name in FAMILIES)
    chosen = [
        pytest.param(
            case,
            id="+".join(map(label, case)),
            marks=[] if own or case in alone or differs_in_one(*case) else pytest.mark.endurance,
        )
        for case in cases + alone
    ]
    metafunc.parametrize("built", chosen, indirect=True)


def differs_in_one(encoder: Component, decoder: Component, head: Component) -> bool:
    """Whether at most one of encoder, decoder, attention and head is not a usual one.

    Attention is queried before the cell, after it, or within a layer; hence three usual decoders.
    """
    cell = {key: value for key, value in decoder.items() if key != "attention"}
    usual = (
        encoder == ENCODER_CASES[0],
        cell in (RECURRENT_CASES[0], RECURRENT_CASES[2], PLAIN),
        decoder.get("attention", ADDITIVE) == ADDITIVE,
        head == HEAD_CASES[0],
    )
    return sum(usual) >= len(usual) - 1


@pytest.fixture(scope="module")
def built(request: pytest.FixtureRequest) -> Seq2Seq:
    torch.manual_seed(3)
    return make(*request.param).double()


@pytest.fixture
def model(built: Seq2Seq) -> Seq2Seq:
    torch.manual_seed(3)
    built.zero_grad()
    return built.eval()


@pytest.fixture(params=[True, False], ids=["gradients", "inference"])
def gradients(request: pytest.FixtureRequest) -> Iterator[None]:
    with torch.set_grad_enabled(request.param):
        yield


def make(encoder: Component, decoder: Component, head: Component) -> Seq2Seq:
    return Seq2Seq(
        VOCABULARY,
        padding=PAD,
        embedding_size=SIZE,
        encoder=encoder,
        decoder=decoder,
        head=head,
        turn_tokens=TURNS,
        dropout=0.2,
    )


@pytest.fixture
def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Three sources of 3, 2 and 1 turns, and their targets."""
    generator = torch.Generator().manual_seed(5)
    source = torch.randint(6, VOCABULARY, (3, 7), generator=generator)
    source[:, 0] = TURNS[0]
    source[0, 2], source[0, 5], source[1, 1] = TURNS[1], TURNS[0], TURNS[1]
    source[1, 4:] = PAD
    source[2, 1:] = PAD
    target = torch.randint(1, VOCABULARY, (3, 4), generator=generator)
    return source, source != PAD, target


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=1e-11)


def mixed(logits: Tensor) -> Tensor:
    """A scalar that depends on every logit."""
    generator = torch.Generator().manual_seed(9)
    return (logits * torch.randn(logits.shape, generator=generator, dtype=logits.dtype)).sum()


def test_cases_cover_the_tables() -> None:
    own = [decoder for _, decoder in FINAL_CASES]
    decoders = [*RECURRENT_CASES, *TRANSFORMER_CASES, *own, *NEW_DECODERS]
    assert {case["name"] for case in [*ENCODER_CASES, *NEW_ENCODERS]} == set(ENCODERS)
    assert {case["name"] for case in decoders} == set(DECODERS)
    assert {case["name"] for case in ATTENTION_CASES} == set(ATTENTIONS)
    assert {case["name"] for case in HEAD_CASES} == set(HEADS)
    assert {
        case.get("bridge", {"name": "dense"})["name"] for case in [*RECURRENT_CASES, *own]
    } == set(BRIDGES)
    assert {
        case.get("positions", {"name": "sinusoidal"})["name"] for case in TRANSFORMER_CASES
    } == set(POSITIONS)


@pytest.mark.usefixtures("gradients")
def test_every_split_of_a_target_gives_the_same(model: Seq2Seq, batch: tuple[Tensor, ...]) -> None:
    source, mask = batch[:2]
    target = batch[2][:, :3]
    whole = model(source, mask, target)
    for cuts in ((), (1,), (2,), (1, 2)):
        memory, state = model.start(source, mask)
        parts = []
        for begin, end in itertools.pairwise([0, *cuts, 3]):
            logits, state = model.step(target[:, begin:end], memory, state)
            parts.append(logits)
        close(torch.cat(parts, 1), whole)


@torch.no_grad()
def test_a_step_changes_no_earlier_state(model: Seq2Seq, batch: tuple[Tensor, ...]) -> None:
    """Three branches from each state, one of them with other rows, and each continues after the
    others' steps.
    """
    source, mask, target = batch
    rows = torch.tensor([1, 0, 2])
    other = (target + 1) % VOCABULARY
    mixture = torch.cat([target[:, :2], other[:, 2:]], 1)
    memory, state = model.start(source, mask)
    _, first = model.step(target[:, :1], memory, state)
    _, second = model.step(target[:, 1:2], memory, first)
    _, third = model.step(target[:, 2:3], memory, second)
    _, branch = model.step(other[:, 2:3], memory, second)
    model.step(other[:, 1:3], memory, first)
    swapped, _ = model.step(other[rows, 2:], memory.select(rows), second.select(rows))
    close(model.step(target[:, 3:], memory, third)[0], model(source, mask, target)[:, 3:])
    close(model.step(other[:, 3:], memory, branch)[0], model(source, mask, mixture)[:, 3:])
    close(swapped, model(source, mask, mixture)[rows, 2:])
    close(model.step(target[:, 2:], memory, second)[0], model(source, mask, target)[:, 2:])


@pytest.mark.usefixtures("gradients")
def test_reorder_then_step_equals_step_then_reorder(
    model: Seq2Seq, batch: tuple[Tensor, ...]
) -> None:
    source, mask, target = batch
    rows = torch.tensor([2, 0, 0, 1])
    memory, state = model.start(source, mask)
    _, state = model.step(target[:, :2], memory, state)
    stepped, after = model.step(target[:, 2:3], memory, state)
    reordered, after_reordered = model.step(
        target[rows, 2:3], memory.select(rows), state.select(rows)
    )
    close(reordered, stepped[rows])
    more, _ = model.step(target[:, 3:4], memory, after)
    more_reordered, _ = model.step(target[rows, 3:4], memory.select(rows), after_reordered)
    close(more_reordered, more[rows])


@pytest.mark.parametrize("encoder", [*ENCODER_CASES, *NEW_ENCODERS], ids=lambda case: label(case))
@torch.no_grad()
def test_laws_between_any_encoder_and_decoder(
    encoder: Component, batch: tuple[Tensor, ...], request: pytest.FixtureRequest
) -> None:
    """Every new encoder with every decoder, every encoder with every new decoder: steps equal
    teacher forcing, rows of a state are rows of a batch, padding changes nothing.
    """
    if request.config.getoption("--encoder") or request.config.getoption("--decoder"):
        pytest.skip("one part is tested")
    source, mask, target = batch
    longer = torch.cat([source, torch.full((3, 2), PAD)], 1)
    rows = torch.tensor([2, 0, 0])
    old = [RECURRENT_CASES[2] | {"attention": ADDITIVE}, PLAIN] if encoder in NEW_ENCODERS else []
    for decoder in [*old, *NEW_DECODERS]:
        torch.manual_seed(3)
        net = make(encoder, decoder, HEAD_CASES[0]).double().eval()
        expected = net(source, mask, target)
        memory, state = net.start(longer, longer != PAD)
        first, state = net.step(target[:, :1], memory, state)
        second, _ = net.step(target[rows, 1:], memory.select(rows), state.select(rows))
        close(first, expected[:, :1])
        close(second, expected[rows, 1:])


def test_repeating_a_source_repeats_its_logits(model: Seq2Seq, batch: tuple[Tensor, ...]) -> None:
    source, mask, target = batch
    memory, state = model.start(source, mask)
    logits, _ = model.step(target.repeat_interleave(2, 0), memory.repeat(2), state.repeat(2))
    close(logits, model(source, mask, target).repeat_interleave(2, 0))


def test_padding_of_the_source_changes_nothing(model: Seq2Seq, batch: tuple[Tensor, ...]) -> None:
    source, mask, target = batch
    padding = torch.full((3, 4), PAD)
    garbage = torch.where(mask, source, TURNS[1])
    expected = model(source, mask, target)
    close(
        model(torch.cat([source, padding], 1), torch.cat([mask, padding.bool()], 1), target),
        expected,
    )
    close(model(garbage, mask, target), expected)


def test_a_batch_equals_its_rows_alone(model: Seq2Seq, batch: tuple[Tensor, ...]) -> None:
    source, mask, target = batch
    together = model(source, mask, target)
    for row, length in enumerate(mask.sum(1)):
        alone = model(
            source[row : row + 1, :length], mask[row : row + 1, :length], target[row : row + 1]
        )
        close(alone, together[row : row + 1])


def test_a_hook_changes_nothing_and_gets_distributions(
    model: Seq2Seq, batch: tuple[Tensor, ...]
) -> None:
    source, mask, target = batch
    close(model(source, mask, target, lambda *_: None), model(source, mask, target))
    maps = attention_maps(model, source, mask, target)
    crosses = [each for each in maps if each.kind == "cross"]
    assert bool(crosses) is model.decoder.shows_source
    turns = torch.tensor([3, 2, 1]).unsqueeze(1) > torch.arange(3)
    columns = {"source": mask, "turns": turns, "target": torch.ones_like(target, dtype=torch.bool)}
    for each in maps:
        assert each.name.removesuffix(".turns") in dict(model.named_modules())
        assert (each.weights >= 0).all()
        real = columns[each.columns]
        sums = each.weights.sum(-1) * columns[each.side][:, None]
        close(sums, columns[each.side][:, None].expand_as(sums).double())
        assert (each.weights * ~real[:, None, None]).abs().max() == 0


def test_attention_statistics_ignore_padding_and_batches(
    model: Seq2Seq, batch: tuple[Tensor, ...]
) -> None:
    """Padding counts nowhere, and sums over batches are exact: three ways to feed the same
    examples.
    """
    source, _, target = batch
    target = target.clone()
    target[1, 3], target[2, 2:] = PAD, PAD
    kinds = TokenKinds(torch.arange(VOCABULARY) % 3 == 0)
    alone = [
        (
            source[row : row + 1, : int((source[row] != PAD).sum())],
            target[row : row + 1, : int((target[row] != PAD).sum())],
        )
        for row in range(3)
    ]
    gold = [{0: 1, 1: 0}, {0: 0}, {}]
    whole = statistics(model, [Examples(source, target, gold=gold)], kinds)
    parts = statistics(
        model,
        [Examples(*pair, gold=[links]) for pair, links in zip(alone, gold, strict=True)],
        kinds,
    )
    assert whole["rows"] == [
        {
            name: pytest.approx(value, abs=1e-9) if isinstance(value, float) else value
            for name, value in row.items()
        }
        for row in parts["rows"]
    ]
    assert {row["module"] for row in whole["rows"]} - {"mean", "rollout", "uniform"} <= set(
        dict(model.named_modules())
    )
    assert bool(whole["rows"]) or model.decoder.pointer is None
    for row in whole["rows"]:
        values = {
            name: value
            for name, value in row.items()
            if name not in ("module", "head") and value is not None
        }
        assert {
            name: value for name, value in values.items() if not -1e-9 <= value <= 1 + 1e-9
        } == {}
        if row["module"] == "uniform":
            assert row["entropy"] == pytest.approx(1)
            assert row["coverage"] == pytest.approx(1)


def test_a_later_token_never_reaches_an_earlier_logit(
    model: Seq2Seq, batch: tuple[Tensor, ...]
) -> None:
    source, mask, target = batch
    before = model(source, mask, target)
    for step in range(1, target.shape[1]):
        changed = target.clone()
        changed[:, step] = (changed[:, step] % (VOCABULARY - 1)) + 1
        after = model(source, mask, changed)
        assert torch.equal(after[:, :step], before[:, :step])
        # Bahdanau's attention queries before it reads the token
        late = isinstance(model.head, PointerHead) and isinstance(model.decoder, BahdanauDecoder)
        if step + late < target.shape[1]:
            assert not torch.equal(after[:, step + late :], before[:, step + late :])


def test_a_source_without_real_tokens_is_finite(model: Seq2Seq, batch: tuple[Tensor, ...]) -> None:
    source, mask, target = batch
    mask = mask & (torch.arange(3) != 1).unsqueeze(1)
    logits = model(source, mask, target)
    mixed(logits).backward()
    assert logits.isfinite().all()
    assert all(
        parameter.grad.isfinite().all()
        for parameter in model.parameters()
        if parameter.grad is not None
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("case", HALF_CASES, ids=lambda case: "+".join(map(label, case)))
def test_half_precision_is_finite_and_near_float32(
    case: tuple[Component, Component, Component], dtype: torch.dtype, batch: tuple[Tensor, ...]
) -> None:
    """All weights are halves and one source has no real token; softmaxes are still float32."""
    source, mask, target = batch
    mask = mask & (torch.arange(3) != 1).unsqueeze(1)
    shown: list[Tensor] = []
    torch.manual_seed(3)
    model = make(*case).eval().to(dtype)
    logits = model(source, mask, target, lambda _, weights: shown.append(weights))
    mixed(logits.float()).backward()
    assert logits.isfinite().all()
    assert all(each.grad is not None and each.grad.isfinite().all() for each in model.parameters())
    assert {each.dtype for each in shown} <= {torch.float32}
    exact = model.float()(source, mask, target)
    torch.testing.assert_close(
        logits.float().log_softmax(-1), exact.log_softmax(-1), rtol=0.1, atol=0.1
    )


def test_every_parameter_gets_a_gradient(model: Seq2Seq, batch: tuple[Tensor, ...]) -> None:
    mixed(model.train()(*batch)).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        # it ignores the outputs
        unseen = isinstance(model.head, PointerHead) and name.startswith(OUTPUTS)
        assert unseen or parameter.grad.abs().sum() > 0, name


def test_a_forward_leaves_nothing_on_modules(model: Seq2Seq, batch: tuple[Tensor, ...]) -> None:
    def tensors(module: nn.Module) -> set[tuple[int, str]]:
        return {
            (id(each), key)
            for each in module.modules()
            for key, value in vars(each).items()
            if torch.is_tensor(value)
        }

    model(*batch, lambda *_: None)
    assert tensors(model) == set()


def test_it_builds_on_meta(request: pytest.FixtureRequest, model: Seq2Seq) -> None:
    with torch.device("meta"):
        shadow = make(*request.node.callspec.params["built"])
    assert {parameter.device.type for parameter in shadow.parameters()} == {"meta"}
    assert count_parameters(shadow) == count_parameters(model)
