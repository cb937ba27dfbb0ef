"""Train one of the two families with OpenNMT-py's own trainer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onmt.bin.train
from onmt.models.model import NMTModel
from recorder import Recorder, settings
from torch import Tensor

GIVEN = settings()
PAD = 1
TRANSFORMER = {
    "encoder_type": "transformer",
    "decoder_type": "transformer",
    "hidden_size": 256,
    "word_vec_size": 256,
    "transformer_ff": 1024,
    "heads": 4,
    "position_encoding": True,
    "share_decoder_embeddings": True,
    "share_embeddings": True,
    "max_relative_positions": 0,
}
LSTM = {
    "encoder_type": "brnn",
    "decoder_type": "rnn",
    "rnn_type": "LSTM",
    "hidden_size": 512,
    "word_vec_size": 256,
    "global_attention": "mlp",
    "input_feed": 1,
}


def main() -> None:
    """Train."""
    recorder = Recorder(GIVEN)
    recorder.watch(NMTModel, read)
    path = Path(GIVEN["work"], "train.yaml")
    path.write_text(json.dumps(configuration()))
    options, _ = onmt.bin.train._get_parser().parse_known_args(["-config", str(path)])
    onmt.bin.train.train(options)


def read(src: Tensor, tgt: Tensor, *_: object, **__: object) -> tuple[Tensor, Tensor]:
    """Return masks of real tokens [B, S, 1], [B, T + 1, 1]."""
    return src[..., 0] != PAD, tgt[:, 1:, 0] != PAD


def configuration() -> dict[str, Any]:
    """Return the full configuration; Adam, since AdamW exists only in 8 bits there; it costs the
    same.
    """
    text = GIVEN["text"]
    work = GIVEN["work"]
    sides = {"path_src": f"{text}/train.source", "path_tgt": f"{text}/train.target", "weight": 1}
    return {
        "data": {"corpus": sides},
        "src_vocab": f"{text}/words",
        "tgt_vocab": f"{text}/words",
        "share_vocab": True,
        "save_data": work,
        "save_model": f"{work}/model",
        "save_checkpoint_steps": 10**6,
        "world_size": 1,
        "gpu_ranks": [0] if GIVEN["device"] == "cuda" else [],
        "train_steps": 10**6,
        "valid_steps": 10**6,
        "report_every": 100,
        "batch_type": "sents",
        "batch_size": GIVEN["rows"],
        "normalization": "tokens",
        "bucket_size": GIVEN["examples"],
        "num_workers": 0,
        "optim": "adam",
        "learning_rate": 1e-3,
        "max_grad_norm": 1.0,
        "label_smoothing": 0.1,
        "dropout": [0.1],
        "attention_dropout": [0.1],
        "layers": GIVEN["layers"],
        "seed": 1,
        **(TRANSFORMER if GIVEN["family"] == "transformer" else LSTM),
    }


if __name__ == "__main__":
    main()
