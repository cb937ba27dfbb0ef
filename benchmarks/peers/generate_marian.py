"""Generate with Hugging Face's Marian."""

from __future__ import annotations

import torch
from serving import TOKENS, VOCABULARY, Generate, padded, serve
from transformers import MarianConfig, MarianMTModel

PAD = 0
END = 1


def build(family: str, precision: str) -> Generate:
    """Return the Transformer with random weights."""
    assert family == "transformer"
    sizes = {"layers": 3, "attention_heads": 4, "ffn_dim": 1024}
    sides = {
        f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in sizes.items()
    }
    configuration = MarianConfig(
        vocab_size=VOCABULARY,
        d_model=256,
        max_position_embeddings=512,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=PAD,
        forced_eos_token_id=None,
        **sides,
    )
    torch.manual_seed(1)
    model = MarianMTModel(configuration).eval().to(getattr(torch, precision))

    def generate(sources: list[list[int]], width: int) -> list[int]:
        source = torch.tensor(padded(sources, PAD))
        limits = {"min_new_tokens": TOKENS, "max_new_tokens": TOKENS}
        with torch.inference_mode():
            output = model.generate(
                input_ids=source,
                attention_mask=source != PAD,
                num_beams=width,
                do_sample=False,
                **limits,
            )
        return [output.shape[1] - 1] * len(output)  # without the begin token

    return generate


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve(build)
