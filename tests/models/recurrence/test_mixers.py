"""What the laws of all encoders and decoders (tests/laws) leave open about mixers."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dialog.config.components import build
from dialog.errors import UserError
from dialog.models.contracts import Only
from dialog.models.recurrence.kernels.recurrence import Recurrence, Signals
from dialog.models.recurrence.mixers import MIXERS
from dialog.models.recurrence.mixers.mixer import START, Mixer, MixerState
from dialog.models.seq2seq import Seq2Seq

Component = dict[str, Any]
SIZES: Component = {"layers": 1, "heads": 2, "feed_forward_size": 12}
D = 16
WITH_WEIGHTS = [name for name in MIXERS if name not in ("min_gru", "min_lstm", "slstm")]


def mixer(name: str, **arguments: object) -> Mixer:
    torch.manual_seed(7)
    own = {"name": name, **arguments}
    return build(MIXERS, own, size=D, width=D, heads=2).double()


def network(encoder: Component, decoder: Component, head: str = "vocabulary") -> Seq2Seq:
    return Seq2Seq(
        23, padding=0, embedding_size=D, encoder=encoder, decoder=decoder, head={"name": head}
    )


@pytest.mark.parametrize("name", MIXERS)
def test_the_state_does_not_see_padding(name: str) -> None:
    """The state after a padded batch is that of each row alone, and continues like it."""
    net = mixer(name)
    inputs = torch.randn(3, 9, D, dtype=torch.float64)
    more = torch.randn(3, 5, D, dtype=torch.float64)
    lengths = (9, 4, 2)
    mask = torch.arange(9) < torch.tensor(lengths).unsqueeze(1)
    first, state = net(inputs, START, mask)
    second, _ = net(more, state)
    for row, length in enumerate(lengths):
        alone, own = net(inputs[row : row + 1, :length])
        torch.testing.assert_close(first[row : row + 1, :length], alone, rtol=0, atol=1e-11)
        for mine, yours in zip(own.memory + own.window, state.memory + state.window, strict=True):
            torch.testing.assert_close(mine, yours[row : row + 1], rtol=0, atol=1e-11)
        expected, _ = net(more[row : row + 1], own)
        torch.testing.assert_close(second[row : row + 1], expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", WITH_WEIGHTS)
def test_implicit_weights_are_shares_of_the_outputs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outputs are sums of coefficients times values; the hook gets their sizes as shares."""
    net = mixer(name)
    inputs = torch.randn(2, 6, D, dtype=torch.float64)
    seen: list[Signals] = []
    run = Recurrence.run

    def spy(self: Recurrence, signals: Signals, *rest: Any) -> Any:
        seen.append(signals)
        return run(self, signals, *rest)

    monkeypatch.setattr(Recurrence, "run", spy)
    shown: list[Tensor] = []
    net(inputs, hook=Only(net, lambda _, weights: shown.append(weights)))
    (weights,) = shown
    recurrence: Any = net.recurrence
    query, key, value, *gates = seen[-1]
    for source in range(6):  # the output for one value alone
        alone = torch.zeros_like(value)
        alone[:, source] = value[:, source]
        outputs, _ = run(recurrence, (query, key, alone, *gates))
        sizes = outputs.norm(dim=-1) / value[:, source].norm(dim=-1).unsqueeze(1)  # [B, T, H]
        ratio = sizes.movedim(-1, 1) / weights[..., source].clamp(min=1e-300)
        later = ratio[..., source:]  # the same sum for each source
        others = sum(_coefficients(recurrence, seen[-1], each) for each in range(6))
        torch.testing.assert_close(later, others[..., source:], rtol=1e-6, atol=1e-9)


def _coefficients(recurrence: Recurrence, signals: Signals, source: int) -> Any:
    query, key, value, *gates = signals
    ones = torch.zeros_like(value)
    ones[:, source, :, 0] = 1.0
    return recurrence.run((query, key, ones, *gates))[0][..., 0].abs().movedim(-1, 1)


def test_the_mixer_of_the_page_obeys_the_laws() -> None:
    """The program of docs/models.md, in steps, with padding, and with a hook."""
    page = (Path(__file__).parents[3] / "docs" / "models.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len([line for line in block.splitlines() if line]) <= 25
    names: dict[str, Any] = {}
    exec(block, names)
    net = names["Fading"](D, D, 2).double()
    inputs = torch.randn(2, 7, D, dtype=torch.float64)
    mask = torch.arange(7) < torch.tensor([[7], [4]])
    shown: list[Tensor] = []
    whole, last = net(inputs, mask=mask, hook=lambda _, weights: shown.append(weights))
    state = START
    for token in range(7):
        step, state = net(inputs[:, token : token + 1], state)
        torch.testing.assert_close(step[0, 0], whole[0, token], rtol=0, atol=1e-11)
    alone, own = net(inputs[1:, :4])
    torch.testing.assert_close(alone, whole[1:, :4], rtol=0, atol=1e-11)
    torch.testing.assert_close(own.memory[0], last.memory[0][1:], rtol=0, atol=1e-11)
    assert shown[0].shape == (2, 2, 7, 7)


def test_a_state_is_constant_in_size() -> None:
    """Generation needs the same memory after ten and after a hundred tokens."""
    for name in MIXERS:
        sizes = set()
        for tokens in (10, 100):
            _, state = mixer(name)(torch.randn(1, tokens, D, dtype=torch.float64))
            sizes.add(sum(each.numel() for each in state.memory + state.window))
        assert len(sizes) == 1
    assert MixerState().memory == ()


@pytest.mark.parametrize(
    ("encoder", "decoder", "head", "message"),
    [
        ({"name": "gla", "chunk": 0}, {"name": "gla"}, "vocabulary", "gla.*chunk.*0"),
        ({"name": "gla", "chunk": 65}, {"name": "gla"}, "vocabulary", "gla.*chunk.*64.*65"),
        ({"name": "gla", "heads": 3}, {"name": "gla"}, "vocabulary", "gla.*heads 3"),
        ({"name": "gla"}, {"name": "retnet", "heads": 8}, "vocabulary", "retnet.*width 16.*32"),
        ({"name": "gla", "width": 7}, {"name": "gla"}, "vocabulary", "gla.*width 7"),
        ({"name": "gla"}, {"name": "mamba2", "state_size": 0}, "vocabulary", "state_size.*0"),
        ({"name": "gla"}, {"name": "gla", "cross_attention": "x"}, "vocabulary", "multi_head.*x"),
        (
            {"name": "gla"},
            {"name": "gla", "cross_attention": "none"},
            "pointer",
            "pointer.*cross_att",
        ),
        ({"name": "gla"}, {"name": "decoder_only"}, "pointer", "pointer.*another"),
        ({"name": "gla"}, {"name": "decoder_only", "context": "x"}, "vocabulary", "prefix.*x"),
    ],
)
def test_what_does_not_fit_is_named(
    encoder: Component, decoder: Component, head: str, message: str
) -> None:
    with pytest.raises((UserError, ValueError), match=f"(?s){message}"):
        network(SIZES | encoder, SIZES | decoder, head)


def test_a_mixer_has_no_final_states_to_copy() -> None:
    with pytest.raises(ValueError, match=r"decoder\.bridge"):
        network(SIZES | {"name": "gla"}, {"name": "lstm_plain", "size": D})
