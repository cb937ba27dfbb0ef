"""Outputs of public reference code in float64, as numbers: the last token of the last row.

They were computed once by running that code (float32 casts replaced by float64) on the inputs below:
fla-org/flash-linear-attention bc3b101dcb71 (fla/ops/*/naive.py), state-spaces/mamba e9594ce1c732
(ssd_minimal.py), NX-AI/xlstm 032a6fb8ee19 (mlstm/backends.py with eps = 0, slstm/src/vanilla),
lucidrains/minGRU-pytorch 38b26e119a2e and BlinkDL/RWKV-LM 524481d5099b (rwkv_v7_numpy.py). Published
minGRU and minLSTM squash the candidate by g(x) = x + 0.5 or sigmoid(x), which is applied here.
"""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dialog.config.components import build
from dialog.models.recurrence.kernels.delta_rule import DeltaRule, VectorDeltaRule
from dialog.models.recurrence.kernels.recurrence import NEVER, Recurrence, Signals
from dialog.models.recurrence.kernels.scalar_decay import ExponentialGates, ScalarDecay
from dialog.models.recurrence.kernels.scan import Scan
from dialog.models.recurrence.kernels.vector_decay import VectorDecay
from dialog.models.recurrence.mixers import MIXERS, RWKV7, SLSTM

B, T, H, K, V = 2, 32, 2, 4, 3
SCALE = K**-0.5


def wave(*shape: int, shift: float) -> Tensor:
    """Fixed numbers between -1 and 1."""
    count = math.prod(shape)
    return torch.sin(1.7 * torch.arange(count, dtype=torch.float64) + shift).view(shape)


Q = wave(B, T, H, K, shift=0.1)
KEY = F.normalize(wave(B, T, H, K, shift=0.2), dim=-1)
VALUE = wave(B, T, H, V, shift=0.3)
DECAY = -wave(B, T, H, shift=0.4).abs()
DECAYS = -wave(B, T, H, K, shift=0.5).abs()
RATE = wave(B, T, H, shift=0.6).sigmoid()
RATES = wave(B, T, H, K, shift=0.7).sigmoid()
ENTER = 3 * wave(B, T, H, shift=0.8)
FORGET = 3 * wave(B, T, H, shift=0.9)
CANDIDATE = wave(B, T, V, shift=1.0)
POSITIVE = torch.where(CANDIDATE >= 0, CANDIDATE + 0.5, CANDIDATE.sigmoid())
GATE = 3 * wave(B, T, V, shift=1.1)
OTHER_GATE = 3 * wave(B, T, V, shift=1.2)
KEPT = torch.sigmoid(F.logsigmoid(GATE) - F.logsigmoid(OTHER_GATE))
RETAINED = torch.log1p(-(2.0 ** (-5 - torch.arange(H, dtype=torch.float64)))).expand(B, T, H)

CASES: dict[str, tuple[Recurrence, Signals]] = {
    "gated_delta": (DeltaRule(8), (Q * SCALE, KEY, VALUE, DECAY, RATE)),
    "gla": (VectorDecay(8, lowest=-2.5), (Q * SCALE, KEY, VALUE, DECAYS)),
    "mamba2": (ScalarDecay(8), (Q, KEY, VALUE, DECAY)),
    "retnet": (ScalarDecay(8), (Q * SCALE, KEY, VALUE, RETAINED)),
    "mlstm": (ExponentialGates(8), (Q, KEY * SCALE, Q, ENTER, F.logsigmoid(FORGET))),
    "rwkv7": (
        VectorDeltaRule(8, lowest=-0.6065),
        (Q * SCALE, KEY, VALUE, 0.6 * DECAYS, -KEY, KEY * RATES),
    ),
    "min_gru": (Scan(), (1 - GATE.sigmoid(), GATE.sigmoid() * POSITIVE)),
    "min_lstm": (Scan(), (KEPT, (1 - KEPT) * POSITIVE)),
}
EXPECTED = {
    "gated_delta": [
        0.4551268117,
        -0.2959076632,
        -0.3788746652,
        0.3025721252,
        0.1608048293,
        -0.3440097590,
    ],
    "gla": [0.3256774232, -0.4512158301, -0.2094040723, 0.4485979287, 0.2002622493, -0.5002033052],
    "mamba2": [
        0.9023718781,
        -0.8919916739,
        -0.6725154458,
        0.9465714567,
        0.1807602486,
        -0.9931513823,
    ],
    "retnet": [
        0.1301711424,
        -0.3053556084,
        -0.0514843645,
        0.1952490376,
        -0.0363858542,
        -0.1858728036,
    ],
    "mlstm": [
        0.6915021035,
        -0.8281076622,
        -0.4781078775,
        0.9513107976,
        0.2616615716,
        -1.0695174547,
        0.0139412996,
        1.0659249353,
    ],
    "rwkv7": [
        0.5224613443,
        -0.4242444518,
        -0.4131382206,
        0.5132046508,
        0.3032633001,
        -0.5913522638,
    ],
    "min_gru": [1.4163257886, 0.8452118118, 0.8586847101],
    "min_lstm": [0.9881447406, 0.4485917325, 0.5618218529],
    "slstm": [
        -0.1218874823,
        -0.3109065735,
        -0.0505076242,
        -0.1709705904,
        -0.4626504053,
        -0.3860770086,
    ],
    "rwkv7 layer": [
        0.1514901861,
        -0.1958934184,
        -0.3519690747,
        -0.1643145431,
        0.1838082593,
        0.3524253833,
        0.1768666921,
        -0.1714185983,
    ],
}


def agree(outputs: Tensor, name: str) -> None:
    expected = torch.tensor(EXPECTED[name], dtype=torch.float64)
    torch.testing.assert_close(outputs.flatten(), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_recurrence_is_the_reference(name: str) -> None:
    recurrence, signals = CASES[name]
    agree(recurrence.chunk(signals)[0][-1, -1], name)


def test_slstm_is_the_reference() -> None:
    net = SLSTM(H * V, H * V, H).double()
    net.recurrent.data.copy_(wave(H, V, 4 * V, shift=1.4))
    zeros = torch.zeros(B, H, V, dtype=torch.float64)
    memory = (zeros, zeros, zeros, zeros + NEVER)
    _, memory = net.run(2 * wave(B, T, H, 4 * V, shift=1.3), memory, None)
    agree(memory[0][-1], "slstm")


def test_rwkv7_layer_is_the_reference() -> None:
    """The whole time mixing of a first layer."""
    net = build(MIXERS, {"name": "rwkv7", "chunk": 8}, size=8, width=8, heads=2).double()
    assert isinstance(net, RWKV7)
    with torch.no_grad():
        for shift, (_, parameter) in enumerate(sorted(net.named_parameters())):
            parameter.copy_(0.5 * wave(*parameter.shape, shift=float(shift)))
    agree(net(wave(1, T, 8, shift=1.5))[0][0, -1], "rwkv7 layer")
