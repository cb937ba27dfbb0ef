"""The laws that every encoder with every decoder keeps, in float64."""

import itertools

import pytest
import torch
from torch import Tensor, nn

from dialog.analysis.maps import attention_maps
from dialog.models.attention import SCORERS
from dialog.models.seq2seq import DECODERS, ENCODERS, Seq2Seq, count_parameters

VOCABULARY, PAD = 23, 0
SIZES = {
    "lstm": [{"name": "lstm", "size": 10}, {"name": "lstm", "size": 6, "layers": 2}],
    "transformer": [
        {"name": "transformer", "heads": 2, "feed_forward_size": 12, "layers": 2},
        {"name": "transformer", "heads": 4, "feed_forward_size": 12, "layers": 1, "norm_first": False},
    ],
}
ENCODER_CASES = [component for name in ENCODERS for component in SIZES[name]] + [
    {"name": "lstm", "size": 7, "bidirectional": False}
]
DECODER_CASES = [
    {**component, "attention": {"name": scorer, "size": 5}} if name == "lstm" else component
    for name in DECODERS
    for component in SIZES[name]
    for scorer in (SCORERS if name == "lstm" else [None])
]
CASES = list(itertools.product(ENCODER_CASES, DECODER_CASES))


def name_of(case: dict) -> str:
    return "-".join(str(value) for value in case.values() if not isinstance(value, dict))


@pytest.fixture(params=CASES, ids=lambda case: "+".join(map(name_of, case)))
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    encoder, decoder = request.param
    torch.manual_seed(3)
    made = Seq2Seq(VOCABULARY, padding=PAD, embedding_size=8, encoder=encoder, decoder=decoder, dropout=0.2)
    return made.double().eval()


@pytest.fixture
def batch() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    source = torch.randint(1, VOCABULARY, (3, 7), generator=generator)
    source[1, 4:] = PAD
    source[2, 1:] = PAD
    target = torch.randint(1, VOCABULARY, (3, 6), generator=generator)
    return source, source != PAD, target


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_the_cases_cover_the_tables() -> None:
    assert {case["name"] for case in ENCODER_CASES} == set(ENCODERS)
    assert {case["name"] for case in DECODER_CASES} == set(DECODERS)


def test_folding_a_target_in_every_way_gives_the_same(model: Seq2Seq, batch: tuple[Tensor, ...]) -> None:
    source, mask, target = batch
    whole = model(source, mask, target)
    length = target.shape[1]
    for cuts in itertools.chain.from_iterable(itertools.combinations(range(1, length), n) for n in range(length)):
        memory, state = model.start(source, mask)
        parts = []
        for begin, end in itertools.pairwise([0, *cuts, length]):
            logits, state = model.step(target[:, begin:end], memory, state)
            parts.append(logits)
        close(torch.cat(parts, 1), whole)


def test_reordering_then_stepping_is_stepping_then_reordering(model: Seq2Seq, batch: tuple[Tensor, ...]) -> None:
    source, mask, target = batch
    rows = torch.tensor([2, 0, 0, 1])
    memory, state = model.start(source, mask)
    _, state = model.step(target[:, :3], memory, state)
    stepped, after = model.step(target[:, 3:4], memory, state)
    reordered, after_reordered = model.step(target[rows, 3:4], memory.select(rows), state.select(rows))
    close(reordered, stepped[rows])
    more, _ = model.step(target[:, 4:5], memory, after)
    more_reordered, _ = model.step(target[rows, 4:5], memory.select(rows), after_reordered)
    close(more_reordered, more[rows])


def test_repeating_a_source_repeats_its_answers(model: Seq2Seq, batch: tuple[Tensor, ...]) -> None:
    source, mask, target = batch
    memory, state = model.start(source, mask)
    logits, _ = model.step(target.repeat_interleave(2, 0), memory.repeat(2), state.repeat(2))
    close(logits, model(source, mask, target).repeat_interleave(2, 0))


def test_padding_of_the_source_changes_nothing(model: Seq2Seq, batch: tuple[Tensor, ...]) -> None:
    source, mask, target = batch
    padding = torch.full((3, 4), PAD)
    garbage = torch.where(mask, source, 9)
    expected = model(source, mask, target)
    close(model(torch.cat([source, padding], 1), torch.cat([mask, padding.bool()], 1), target), expected)
    close(model(garbage, mask, target), expected)


def test_a_batch_gives_what_each_row_gives_alone(model: Seq2Seq, batch: tuple[Tensor, ...]) -> None:
    source, mask, target = batch
    together = model(source, mask, target)
    for row, length in enumerate(mask.sum(1)):
        alone = model(source[row : row + 1, :length], mask[row : row + 1, :length], target[row : row + 1])
        close(alone, together[row : row + 1])


def test_watching_changes_nothing_and_shows_distributions(model: Seq2Seq, batch: tuple[Tensor, ...]) -> None:
    source, mask, target = batch
    close(model(source, mask, target, lambda *_: None), model(source, mask, target))
    maps = attention_maps(model, source, mask, target)
    assert {each.kind for each in maps} >= {"cross"}
    for each in maps:
        assert each.name in dict(model.named_modules())
        assert (each.weights >= 0).all()
        columns = mask if each.weights.shape[-1] == mask.shape[1] else torch.ones_like(target, dtype=torch.bool)
        close(each.weights.sum(-1), torch.ones(each.weights.shape[:-1], dtype=torch.float64))
        assert (each.weights * ~columns[:, None, None]).abs().max() == 0


def test_a_later_token_never_reaches_an_earlier_logit(model: Seq2Seq, batch: tuple[Tensor, ...]) -> None:
    source, mask, target = batch
    before = model(source, mask, target)
    for step in range(1, target.shape[1]):
        changed = target.clone()
        changed[:, step] = (changed[:, step] % (VOCABULARY - 1)) + 1
        after = model(source, mask, changed)
        assert torch.equal(after[:, :step], before[:, :step])
        assert not torch.equal(after[:, step:], before[:, step:])


def test_a_source_with_nothing_real_is_finite(model: Seq2Seq, batch: tuple[Tensor, ...]) -> None:
    source, mask, target = batch
    mask = mask & (torch.arange(3) != 1).unsqueeze(1)
    logits = model(source, mask, target)
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)


def test_every_parameter_gets_a_gradient(model: Seq2Seq, batch: tuple[Tensor, ...]) -> None:
    model.train()(*batch).logsumexp(-1).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_a_forward_leaves_nothing_on_modules(model: Seq2Seq, batch: tuple[Tensor, ...]) -> None:
    def tensors(module: nn.Module) -> set[tuple[int, str]]:
        return {
            (id(each), key) for each in module.modules() for key, value in vars(each).items() if torch.is_tensor(value)
        }

    before = tensors(model)
    model(*batch, lambda *_: None)
    assert tensors(model) == before == set()


def test_it_builds_on_meta(request: pytest.FixtureRequest, model: Seq2Seq) -> None:
    encoder, decoder = request.node.callspec.params["model"]
    with torch.device("meta"):
        shadow = Seq2Seq(VOCABULARY, padding=PAD, embedding_size=8, encoder=encoder, decoder=decoder)
    assert count_parameters(shadow) == count_parameters(model)
    logits = shadow(
        *(each.to("meta") for each in (torch.ones(2, 4).long(), torch.ones(2, 4).bool(), torch.ones(2, 3).long()))
    )
    assert logits.shape == (2, 3, VOCABULARY)
