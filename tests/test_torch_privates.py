"""Rule: private operators of torch are used in one file, which has a fallback for each."""

from __future__ import annotations

import ast

import pytest
from source_code import FILES, tree
from torch_privates import private_operators

OPERATORS = "models/kernels/private_operators.py"
SCAN = ("export/formats/onnx/recurrences.py", "torch.ops.higher_order.scan")
"""What becomes the operator Scan of ONNX: no other way is known, and an export checks its result."""


def test_private_torch_operators_are_in_one_file() -> None:
    uses = {file: list(private_operators(tree(file))) for file in FILES}
    uses.pop(OPERATORS)
    found = [(file, name.split()[1]) for file, names in uses.items() for name in names]
    assert found == [SCAN]


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ntorch._weight_int8pack_mm(a, b, c)\n",
        "import torch as t\nt._VF.lstm(a)\n",
        "import torch\ntorch.ops.onednn.qlinear_pointwise(a)\n",
        "import torch\nx = {torch.ops.aten.mkldnn_rnn_layer: 1}\n",
        "from torch import cpu\ncpu._is_vnni_supported()\n",
        "from torch._C import x\n",
        "import torch\ntorch.lstm(a)\n",
    ],
)
def test_private_torch_operators_are_detected(text: str) -> None:
    assert list(private_operators(ast.parse(text)))


def test_public_operators_are_allowed() -> None:
    text = (
        "import torch\ntorch.addmm(a, b,"
        " c)\ntorch.ops.aten.cummax.default\ntorch.cuda.is_available()\nx._version\n"
    )
    assert not list(private_operators(ast.parse(text)))
