"""Embeddings, the assembly of the network, and the errors of an invalid recipe."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dialog.config.trust import trusted
from dialog.errors import UserError
from dialog.models.heads import VocabularyHead
from dialog.models.seq2seq import Seq2Seq, TokenEmbedding, count_parameters

VOCABULARY, SIZE, PAD = 11, 8, 0
LSTM = {"name": "lstm", "size": 6, "attention": {"name": "additive", "size": 4}}
TRANSFORMER = {"name": "transformer", "heads": 2, "feed_forward_size": 12, "layers": 1}


def make(**changes: Any) -> Seq2Seq:
    recipe = {"encoder": TRANSFORMER, "decoder": TRANSFORMER, "embedding_size": SIZE, **changes}
    return Seq2Seq(VOCABULARY, padding=PAD, **recipe)


def tables(model: Seq2Seq) -> list[nn.Parameter]:
    return [
        model.source_embedding.table.weight,
        model.target_embedding.table.weight,
        model.head.weight,
    ]


# ------------------------------------------------------------------ embeddings


TIES = {
    "all": [0, 0, 0],
    "output": [0, 1, 1],
    "source": [0, 0, 1],
    "none": [0, 1, 2],
    True: [0, 0, 0],
    False: [0, 1, 2],
}
"""Tables of source, target and output layer; equal numbers share one table."""
every_tie = pytest.mark.parametrize(("word", "expected"), TIES.items())


@every_tie
def test_embeddings_are_tied(word: bool | str, expected: list[int]) -> None:
    model = make(tie_embeddings=word)
    names = [id(table) for table in tables(model)]
    assert [[*dict.fromkeys(names)].index(each) for each in names] == expected
    storages = [table.data_ptr() for table in tables(model)]
    assert [[*dict.fromkeys(storages)].index(each) for each in storages] == expected
    assert set(names) <= {id(each) for each in model.parameters()}


@every_tie
def test_shared_parameters_count_once(word: bool | str, expected: list[int]) -> None:
    model = make(tie_embeddings=word)
    number = len(set(expected))
    layers = sum(
        each.numel() for part in (model.encoder, model.decoder) for each in part.parameters()
    )
    assert count_parameters(model) == {
        "total": number * VOCABULARY * SIZE + layers,
        "embeddings": number * VOCABULARY * SIZE,
        "rest": layers,
    }


@pytest.mark.parametrize(
    ("head", "more"),
    [
        ({"name": "vocabulary"}, {"all": 0, "none": 2 * VOCABULARY * SIZE}),
        ({"name": "pointer"}, {"all": 0, "none": VOCABULARY * SIZE}),
        (
            {"name": "pointer_generator"},
            {"all": 2 * SIZE + 1, "none": 2 * VOCABULARY * SIZE + 2 * SIZE + 1},
        ),
    ],
    ids=lambda value: value.get("name"),
)
def test_a_head_counts_as_embeddings(head: dict[str, str], more: dict[str, int]) -> None:
    for word, number in more.items():
        counts = count_parameters(make(head=head, tie_embeddings=word))
        assert counts["embeddings"] == VOCABULARY * SIZE + number
        assert counts["total"] == counts["embeddings"] + counts["rest"]


def test_tied_embeddings_stay_tied_after_loading_and_moving() -> None:
    saved = make().state_dict()
    model = make().double()
    model.load_state_dict(saved)
    one, *others = tables(model)
    assert all(other is one for other in others)
    assert torch.equal(one, saved["head.weight"].double())


def test_one_update_changes_all_uses_of_a_tied_table() -> None:
    model = make()
    source, target = torch.tensor([[1, 2]]), torch.tensor([[3, 4]])
    model(source, source != PAD, target).logsumexp(-1).sum().backward()
    torch.optim.SGD(model.parameters(), 0.1).step()
    one, *others = tables(model)
    assert all(torch.equal(one, other) for other in others)


def test_the_padding_row_is_zero_and_stays_so() -> None:
    model = make(tie_embeddings=False).train()
    optimizer = torch.optim.AdamW(model.parameters(), 0.1)
    for _ in range(3):
        source, target = torch.tensor([[1, 2, PAD]]), torch.tensor([[3, 4, PAD]])
        model(source, source != PAD, target).logsumexp(-1).sum().backward()
        optimizer.step()
    for embedding in (model.source_embedding, model.target_embedding):
        assert not embedding.table.weight[PAD].any()
        assert not embedding(torch.tensor([[PAD]])).any()


def test_padding_gets_no_gradient() -> None:
    embedding = TokenEmbedding(VOCABULARY, SIZE, padding=PAD)
    embedding(torch.tensor([[1, 2, PAD], [2, PAD, PAD]])).square().sum().backward()
    touched = embedding.table.weight.grad.abs().sum(1) > 0
    assert touched.nonzero().flatten().tolist() == [1, 2]


def test_padding_gets_no_gradient_in_both_embeddings() -> None:
    model = make(tie_embeddings=False)
    source, target = torch.tensor([[1, 2, PAD]]), torch.tensor([[3, 4, PAD]])
    model(source, source != PAD, target).logsumexp(-1).sum().backward()
    for embedding, used in ((model.source_embedding, [1, 2]), (model.target_embedding, [3, 4])):
        touched = embedding.table.weight.grad.abs().sum(1) > 0
        assert touched.nonzero().flatten().tolist() == used


def test_embeddings_are_scaled_rows() -> None:
    embedding = TokenEmbedding(VOCABULARY, 9, padding=PAD).double()
    tokens = torch.tensor([[1, 7], [7, PAD]])
    expected = 3 * embedding.table.weight[tokens]
    torch.testing.assert_close(embedding(tokens), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("tied", [True, False])
def test_vectors_and_scores_start_with_unit_variance(tied: bool) -> None:
    torch.manual_seed(0)
    embedding = TokenEmbedding(2000, 64, padding=PAD)
    head = VocabularyHead(2000, 64, tied=embedding.table.weight if tied else None)
    assert embedding(torch.arange(2000)).var().item() == pytest.approx(1, rel=0.05)
    assert (torch.randn(500, 64) @ head.weight.T).var().item() == pytest.approx(1, rel=0.05)


WIDE: dict[str, Any] = {
    "lstm": {"name": "lstm", "size": 40},
    "transformer": {"name": "transformer", "heads": 2, "feed_forward_size": 8, "layers": 1},
}


def share_of_zeros(states: Tensor) -> float:
    return round((states == 0).float().mean().item(), 1)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("decoder", WIDE)
@pytest.mark.parametrize("encoder", WIDE)
def test_dropout_of_inputs_is_after_positions(encoder: str, decoder: str, training: bool) -> None:
    """A Transformer drops the sum of embedding and position, and no outputs (Vaswani et al. 2017,
    5.4).
    """
    torch.manual_seed(0)
    attention = {"attention": {"name": "dot"}} if decoder == "lstm" else {}
    parts = {"encoder": WIDE[encoder], "decoder": WIDE[decoder] | attention}
    model = Seq2Seq(VOCABULARY, padding=PAD, embedding_size=40, dropout=0.3, **parts).train(
        training
    )
    zeros: dict[str, float] = {}

    def watch(name: str, module: nn.Module) -> None:
        module.register_forward_pre_hook(
            lambda _, inputs: zeros.update({name: share_of_zeros(inputs[0])})
        )

    for side, name in ((model.encoder, encoder), (model.decoder, decoder)):
        watch("inputs of " + name, side)
        if name == "transformer":
            watch("layers of transformer", side.layers[0])
    source = torch.randint(1, VOCABULARY, (4, 50))
    memory, state = model.start(source, source != PAD)
    decoded, _ = model.decode(source, memory, state)
    zeros[f"outputs of {decoder}"] = share_of_zeros(decoded.outputs)
    dropped = {"inputs of lstm", "outputs of lstm", "layers of transformer"}
    assert zeros == {name: 0.3 if training and name in dropped else 0.0 for name in zeros}


# ------------------------------------------------------------------ assembly


def test_decoder_has_the_width_of_the_encoder() -> None:
    model = make(encoder={"name": "lstm", "size": 14}, decoder=LSTM)
    assert model.decoder.bridge.dense.in_features == 14
    assert model.decoder.attention.scorer.key.in_features == 14


def test_dropout_reaches_every_part() -> None:
    model = make(encoder={"name": "lstm", "size": 6, "layers": 2}, dropout=0.3)
    assert {each.p for each in model.modules() if isinstance(each, nn.Dropout)} == {0.3}
    attention = model.decoder.layers[0]
    assert attention.self_attention.dropout == attention.cross_attention.dropout == 0.3


@pytest.mark.parametrize("changes", [{}, {"encoder": {"name": "lstm", "size": 6}, "decoder": LSTM}])
def test_a_model_without_dropout_trains_as_it_evaluates(changes: dict[str, Any]) -> None:
    model = make(**changes)
    source, target = torch.tensor([[1, 2, 3], [4, PAD, PAD]]), torch.tensor([[5, 6], [7, 8]])
    torch.testing.assert_close(
        model.train()(source, source != PAD, target),
        model.eval()(source, source != PAD, target),
        rtol=0,
        atol=0,
    )


@pytest.mark.parametrize("turn_tokens", [(), (9,), (8, 9)])
def test_encoder_that_needs_turns_gets_them(turn_tokens: tuple[int, ...]) -> None:
    inner = {"name": "lstm", "size": 6}
    encoder = {"name": "hierarchical", "tokens": inner, "turns": inner}
    model = make(encoder=encoder, decoder=LSTM, turn_tokens=turn_tokens).eval()
    source, turns = torch.tensor([[8, 1, 9, 2, 8, 3], [9, 1, 8, 8, PAD, PAD]]), []
    model.encoder.register_forward_hook(
        lambda _, __, options, ___: turns.append(options["turns"]), with_kwargs=True
    )
    model(source, source != PAD, source)
    begins = torch.isin(source, torch.tensor(turn_tokens, dtype=torch.long))
    begins[:, 0] = False  # the first token is always in turn 0
    assert torch.equal(turns[0], begins.cumsum(1))


# ------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"encoder": {**TRANSFORMER, "name": "transfomer"}},
            "unknown encoder 'transfomer'; did you mean 'transformer'?",
        ),
        ({"decoder": {**LSTM, "name": "ltsm"}}, "unknown decoder 'ltsm'; did you mean 'lstm'?"),
        (
            {"decoder": {**LSTM, "attention": {"name": "aditive", "size": 4}}},
            "did you mean 'additive'?",
        ),
        (
            {"encoder": {**TRANSFORMER, "positions": {"name": "sinus"}}},
            "did you mean 'sinusoidal'?",
        ),
        (
            {"encoder": {**TRANSFORMER, "heads": 3}},
            "transformer: size 8 is not a multiple of 3 heads",
        ),
        (
            {"decoder": {**TRANSFORMER, "heads": 0}},
            "transformer: size 8 is not a multiple of 0 heads",
        ),
        (
            {"encoder": {**TRANSFORMER, "layers": 0}},
            "transformer: layers must be at least 1, not 0",
        ),
        (
            {"decoder": {**TRANSFORMER, "layers": 0}},
            "transformer: layers must be at least 1, not 0",
        ),
        (
            {"encoder": {"name": "lstm", "size": 6, "layers": 0}},
            "lstm: layers must be at least 1, not 0",
        ),
        ({"decoder": {**LSTM, "layers": 0}}, "lstm: layers must be at least 1, not 0"),
        (
            {"decoder": {**LSTM, "name": "gru_luong", "layers": -1}},
            "gru_luong: layers must be at least 1, not -1",
        ),
        (
            {"encoder": {"name": "lstm", "size": 5}},
            "lstm: size of a bidirectional encoder must be even, not 5",
        ),
        (
            {"encoder": {**TRANSFORMER, "head": 2}},
            "transformer: unknown argument 'head'; did you mean 'heads'?",
        ),
        ({"encoder": {"name": "lstm"}}, "lstm: missing required argument: size"),
        ({"decoder": {"name": "lstm", "size": 6}}, "lstm: missing required argument: attention"),
        (
            {"decoder": {**LSTM, "memory_size": 9}},
            "'memory_size' is set by the recipe's other parts",
        ),
        ({"encoder": {"size": 6}}, "a component needs a name"),
        (
            {"decoder": {**LSTM, "attention": "dot"}},
            "a component needs a name: give {name: dot}, not 'dot'",
        ),
        (
            {"decoder": {**LSTM, "attention": {"name": "non"}}},
            "unknown attention 'non'; did you mean 'none'?",
        ),
        ({"tie_embeddings": "al"}, "unknown tie_embeddings 'al'; did you mean 'all'?"),
        ({"head": {"name": "pointr"}}, "unknown head 'pointr'; did you mean 'pointer'?"),
        (
            {"head": {"name": "vocabulary", "tied": None}},
            "'tied' is set by the recipe's other parts",
        ),
        (
            {"encoder": {"name": "hierarchical", "tokens": TRANSFORMER}},
            "missing required argument: turns",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_recipe_is_one_clear_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as raised:
        make(**changes)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_encoder_by_dotted_name(draw: Callable[..., Tensor]) -> None:
    name = "dialog.models.transformer.TransformerEncoder"
    model = make(encoder=trusted({**TRANSFORMER, "name": name}), decoder=LSTM)
    source = torch.tensor([[1, 2]])
    assert model(source, source != PAD, source).shape == (1, 2, VOCABULARY)
