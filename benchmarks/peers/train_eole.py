"""Train one of the two families with Eole's own trainer."""

from __future__ import annotations

from typing import Any

from eole.bin.run.train import train
from eole.config.run import TrainConfig
from eole.models.model import EncoderDecoderModel
from recorder import Recorder, settings
from torch import Tensor

GIVEN = settings()
PAD = "<blank>"
PADDING = 1
WORDS = {"src_word_vec_size": 256, "tgt_word_vec_size": 256, "word_vec_size": 256}


def main() -> None:
    """Train."""
    recorder = Recorder(GIVEN)
    recorder.watch(EncoderDecoderModel, read)
    train(TrainConfig(**configuration()))


def read(src: Tensor, tgt: Tensor, *_: object, **__: object) -> tuple[Tensor, Tensor]:
    """Return masks of real tokens [B, S], [B, T + 1]."""
    return src != PADDING, tgt[:, 1:] != PADDING


def configuration() -> dict[str, Any]:
    """Return the full configuration."""
    text = GIVEN["text"]
    work = GIVEN["work"]
    sides = {"path_src": f"{text}/train.source", "path_tgt": f"{text}/train.target", "weight": 1}
    sixteen = GIVEN["precision"] == "bf16-mixed"
    return {
        "data": {"corpus": sides},
        "src_vocab": f"{text}/words",
        "tgt_vocab": f"{text}/words",
        "share_vocab": True,
        "pad_token": PAD,
        "save_data": work,
        "seed": 1,
        "report_every": 100,
        "training": {
            "model_path": f"{work}/model",
            "world_size": 1,
            "gpu_ranks": [0] if GIVEN["device"] == "cuda" else [],
            "compute_dtype": "bf16" if sixteen else "fp32",
            "use_amp": sixteen,
            "batch_type": "sents",
            "batch_size": GIVEN["rows"],
            "normalization": "tokens",
            "bucket_size": GIVEN["examples"],
            "num_workers": 0,
            "optim": "adamw",
            "learning_rate": 1e-3,
            "max_grad_norm": 1.0,
            "label_smoothing": 0.1,
            "dropout": [0.1],
            "attention_dropout": [0.1],
            "train_steps": 10**6,
            "valid_steps": 10**6,
            "save_checkpoint_steps": 10**6,
        },
        "model": transformer() if GIVEN["family"] == "transformer" else lstm(),
    }


def lstm() -> dict[str, Any]:
    """Bidirectional encoder, additive attention."""
    sizes = {"layers": GIVEN["layers"], "hidden_size": 512}
    return {
        "architecture": "rnn",
        "embeddings": WORDS,
        **sizes,
        "encoder": {"encoder_type": "brnn", "src_word_vec_size": 256, **sizes},
        "decoder": {
            "decoder_type": "rnn",
            "tgt_word_vec_size": 256,
            "global_attention": "mlp",
            **sizes,
        },
    }


def transformer() -> dict[str, Any]:
    """Norms first, one table of embeddings."""
    return {
        "architecture": "transformer",
        "layers": GIVEN["layers"],
        "hidden_size": 256,
        "heads": 4,
        "transformer_ff": 1024,
        "share_embeddings": True,
        "share_decoder_embeddings": True,
        "embeddings": {**WORDS, "position_encoding_type": "SinusoidalInterleaved"},
    }


if __name__ == "__main__":
    main()
