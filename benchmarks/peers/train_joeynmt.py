"""Train one of the two families with JoeyNMT's own trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joeynmt.model
import joeynmt.training
from recorder import Recorder, settings
from torch import Tensor

GIVEN = settings()
SPECIAL = {"unk": 0, "pad": 1, "bos": 2, "eos": 3}


def main() -> None:
    """Train."""
    recorder = Recorder(GIVEN)
    recorder.watch(joeynmt.model.Model, read)
    Path(GIVEN["work"], "model").mkdir()
    joeynmt.training.train(rank=0, world_size=0, cfg=configuration(), skip_test=True)


def read(return_type: str, src: Tensor, trg: Tensor, **_: object) -> tuple[Tensor, Tensor]:
    """Return masks of real tokens, ends included."""
    return src != SPECIAL["pad"], trg != SPECIAL["pad"]


def configuration() -> dict[str, Any]:
    """Return the full configuration."""
    special = {f"{name}_id": number for name, number in SPECIAL.items()}
    text = GIVEN["text"]
    side = {"level": "word", "voc_file": f"{GIVEN['text']}/words", "max_length": -1}
    return {
        "name": "benchmark",
        "joeynmt_version": "2.3.0",
        "model_dir": f"{GIVEN['work']}/model",
        "use_cuda": GIVEN["device"] == "cuda",
        "random_seed": 1,
        "data": {
            "train": f"{text}/train",
            "dev": f"{text}/few",
            "dataset_type": "plain",
            "src": {"lang": "source", **side},
            "trg": {"lang": "target", **side},
            "special_symbols": special,
        },
        "testing": {"beam_size": 1},
        "training": {
            "optimizer": "adamw",
            "learning_rate": 1e-3,
            "learning_rate_min": 0.0,
            "scheduling": "exponential",  # there must be one; it takes effect after an epoch
            "decrease_factor": 1.0,
            "clip_grad_norm": 1.0,
            "label_smoothing": 0.1,
            "normalization": "tokens",
            "batch_size": GIVEN["rows"],
            "batch_type": "sentence",
            "epochs": 1000,
            "shuffle": True,
            "logging_freq": 100,
            "validation_freq": 1_000_000,
        },
        "model": transformer() if GIVEN["family"] == "transformer" else lstm(),
    }


def lstm() -> dict[str, Any]:
    """Bidirectional encoder, additive attention."""
    common = {
        "type": "recurrent",
        "rnn_type": "lstm",
        "num_layers": GIVEN["layers"],
        "dropout": 0.1,
    }
    words = {"embeddings": {"embedding_dim": 256, "scale": False}}
    decoder = {
        "hidden_size": 512,
        "attention": "bahdanau",
        "init_hidden": "bridge",
        "input_feeding": True,
    }
    return {
        "encoder": {**common, **words, "hidden_size": 256, "bidirectional": True},
        "decoder": {**common, **words, **decoder, "hidden_dropout": 0.1},
    }


def transformer() -> dict[str, Any]:
    """Norms first, one table of embeddings."""
    sizes = {"num_layers": GIVEN["layers"], "num_heads": 4, "hidden_size": 256, "ff_size": 1024}
    part = {"type": "transformer", "dropout": 0.1, "layer_norm": "pre", **sizes}
    words = {"embeddings": {"embedding_dim": 256, "scale": True}}
    return {
        "tied_embeddings": True,
        "tied_softmax": True,
        "encoder": {**part, **words},
        "decoder": {**part, **words},
    }


if __name__ == "__main__":
    main()
