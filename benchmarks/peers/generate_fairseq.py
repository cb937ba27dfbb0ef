"""Generate with fairseq."""

from __future__ import annotations

from argparse import Namespace
from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from fairseq.models.lstm import LSTMModel
from fairseq.models.lstm import base_architecture as lstm_defaults
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer import base_architecture as transformer_defaults
from fairseq.sequence_generator import SequenceGenerator
from serving import TOKENS, VOCABULARY, Generate, padded, serve


def build(family: str, precision: str) -> Generate:
    """Return one of both families with random weights; float32 only."""
    assert precision == "float32"
    torch.manual_seed(1)
    words = Dictionary()
    for number in range(VOCABULARY - len(words)):
        words.add_symbol(str(number))
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    model = (transformer(task) if family == "transformer" else lstm(task)).eval()
    searches = {
        width: SequenceGenerator(
            [model], words, beam_size=width, max_len_a=0, max_len_b=TOKENS, min_len=TOKENS
        )
        for width in (1, 5)
    }

    def generate(sources: list[list[int]], width: int) -> list[int]:
        ids = torch.tensor(padded(sources, words.pad()))
        batch = {"net_input": {"src_tokens": ids, "src_lengths": ids.ne(words.pad()).sum(1)}}
        with torch.inference_mode():
            return [len(best[0]["tokens"]) - 1 for best in searches[width].generate([model], batch)]

    return generate


def transformer(task: SimpleNamespace) -> TransformerModel:
    """Norms first, one table of embeddings."""
    sizes = {
        "embed_dim": 256,
        "ffn_embed_dim": 1024,
        "attention_heads": 4,
        "layers": 3,
        "normalize_before": True,
    }
    options = Namespace(
        **{
            f"{side}_{name}": size
            for side in ("encoder", "decoder")
            for name, size in sizes.items()
        },
        share_all_embeddings=True,
        max_source_positions=512,
        max_target_positions=512,
    )
    transformer_defaults(options)
    return TransformerModel.build_model(options, task)


def lstm(task: SimpleNamespace) -> LSTMModel:
    """Bidirectional encoder, attention by dot product: fairseq has no other."""
    options = Namespace(
        encoder_embed_dim=256,
        decoder_embed_dim=256,
        encoder_hidden_size=256,
        decoder_hidden_size=512,
        decoder_out_embed_dim=512,
        encoder_layers=1,
        decoder_layers=1,
        encoder_bidirectional=True,
        criterion="",
    )
    lstm_defaults(options)
    return LSTMModel.build_model(options, task)


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve(build)
