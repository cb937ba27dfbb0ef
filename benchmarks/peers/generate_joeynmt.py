"""Generate with JoeyNMT."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from joeynmt.model import build_model
from joeynmt.search import beam_search, greedy
from joeynmt.vocabulary import Vocabulary
from serving import TOKENS, VOCABULARY, Generate, padded, serve

SPECIAL = {"unk": 0, "pad": 1, "bos": 2, "eos": 3}


def build(family: str, precision: str) -> Generate:
    """Return one of both families with random weights; float32 only."""
    assert precision == "float32"
    torch.manual_seed(1)
    special = {f"{name}_id": number for name, number in SPECIAL.items()}
    tokens = {f"{name}_token": f"<{name}>" for name in SPECIAL}
    words = Vocabulary(
        [str(number) for number in range(VOCABULARY - 4)],
        SimpleNamespace(**special, **tokens, sep_token=None, sep_id=None, lang_tags=[]),
    )
    model = build_model(transformer() if family == "transformer" else lstm(), words, words).eval()

    def generate(sources: list[list[int]], width: int) -> list[int]:
        source = torch.tensor(padded(sources, SPECIAL["pad"]))
        mask = (source != SPECIAL["pad"]).unsqueeze(1)
        with torch.inference_mode():
            states, final, *_ = model(
                "encode", src=source, src_length=mask.sum((1, 2)), src_mask=mask
            )
            common = {
                "src_mask": mask,
                "max_output_length": TOKENS,
                "model": model,
                "encoder_output": states,
                "encoder_hidden": final,
                "min_output_length": TOKENS,
            }
            output, *_ = (
                beam_search(beam_size=width, alpha=1.0, **common) if width > 1 else greedy(**common)
            )
        return [output.shape[1]] * len(output)

    return generate


def lstm() -> dict[str, Any]:
    """Bidirectional encoder, additive attention."""
    common = {"type": "recurrent", "rnn_type": "lstm", "num_layers": 1}
    words = {"embeddings": {"embedding_dim": 256, "scale": False}}
    decoder = {
        "hidden_size": 512,
        "attention": "bahdanau",
        "init_hidden": "bridge",
        "input_feeding": True,
    }
    return {
        "encoder": {**common, **words, "hidden_size": 256, "bidirectional": True},
        "decoder": {**common, **words, **decoder},
    }


def transformer() -> dict[str, Any]:
    """Norms first, one table of embeddings."""
    sizes = {"num_layers": 3, "num_heads": 4, "hidden_size": 256, "ff_size": 1024}
    words = {"embeddings": {"embedding_dim": 256, "scale": True}}
    part = {"type": "transformer", "layer_norm": "pre", **sizes, **words}
    return {"tied_embeddings": True, "tied_softmax": True, "encoder": {**part}, "decoder": {**part}}


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve(build)
