"""Generate with OpenNMT-py."""

from __future__ import annotations

import torch
from onmt.inputters.inputter import dict_to_vocabs
from onmt.model_builder import build_base_model
from onmt.opts import model_opts
from onmt.translate import GNMTGlobalScorer, Translator
from onmt.utils.parse import ArgumentParser
from serving import TOKENS, VOCABULARY, Generate, padded, serve
from torch import nn

TRANSFORMER = (
    "-encoder_type transformer -decoder_type transformer -hidden_size 256 -word_vec_size 256"
    " -layers 3     -transformer_ff 1024 -heads 4 -position_encoding -share_decoder_embeddings"
    " -share_embeddings"
)
LSTM = (
    "-encoder_type brnn -decoder_type rnn -rnn_type LSTM -hidden_size 512 -word_vec_size 256"
    " -layers 1     -global_attention mlp -input_feed 1"
)


def build(family: str, precision: str) -> Generate:
    """Return one of both families with random weights; float32 only."""
    assert precision == "float32"
    torch.manual_seed(1)
    parser = ArgumentParser()
    model_opts(parser)
    parser.set_defaults(
        dropout=[0.0],
        attention_dropout=[0.0],
        freeze_word_vecs_enc=False,
        freeze_word_vecs_dec=False,
        optim="",
        parallel_mode="data_parallel",
    )
    parsed = parser.parse_args((TRANSFORMER if family == "transformer" else LSTM).split())
    ArgumentParser.update_model_opts(parsed)
    names = ["<unk>", "<blank>", "<s>", "</s>", *map(str, range(VOCABULARY - 4))]
    vocabularies = dict_to_vocabs(
        {
            "src": names,
            "tgt": names,
            "data_task": "seq2seq",
            "decoder_start_token": "<s>",
            "src_feats": [],
        }
    )
    vocabularies.pop("src_feats", None)
    model = build_base_model(parsed, vocabularies)
    model.generator = generator(model)
    model = model.float().eval()
    for weight in model.parameters():
        # as its trainer does; some are not initialised otherwise
        nn.init.uniform_(weight, -0.1, 0.1)
    pad = vocabularies["src"]["<blank>"]
    scorer = GNMTGlobalScorer(0.0, 0.0, "avg", "none")
    searches = {
        width: Translator(
            model,
            vocabularies,
            beam_size=width,
            min_length=TOKENS,
            max_length=TOKENS,
            max_length_ratio=0,
            global_scorer=scorer,
            random_sampling_topk=int(width == 1),  # 1 is its greedy search
        )
        for width in (1, 5)
    }

    def generate(sources: list[list[int]], width: int) -> list[int]:
        ids = torch.tensor(padded(sources, pad))
        batch = {
            "src": ids.unsqueeze(-1),
            "srclen": ids.ne(pad).sum(1),
            "ind_in_bucket": torch.arange(len(ids)),
        }
        results = searches[width].translate_batch(batch, attn_debug=False)
        return [len(row[0]) for row in results["predictions"]]

    return generate


def generator(model: nn.Module) -> nn.Linear:
    """Return the output layer, as the trainer builds it."""
    embeddings = model.decoder.embeddings.word_lut.weight
    width = (
        model.decoder.hidden_size if hasattr(model.decoder, "hidden_size") else embeddings.shape[1]
    )
    layer = nn.Linear(width, VOCABULARY)
    if layer.weight.shape == embeddings.shape:
        layer.weight = embeddings
    return layer


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve(build)
