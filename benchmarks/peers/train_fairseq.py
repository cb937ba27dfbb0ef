"""Train one of the two families with fairseq's own trainer; fairseq-preprocess writes its data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fairseq.models.lstm import LSTMModel
from fairseq.models.transformer import TransformerModel
from fairseq_cli.train import cli_main
from recorder import Recorder, settings
from torch import Tensor

GIVEN = settings()
PAD = 1
DATA = Path(GIVEN["text"], "fairseq")
SIZES = {"embed-dim": 256, "ffn-embed-dim": 1024, "attention-heads": 4}


def main() -> None:
    """Train."""
    if not (DATA / "preprocess.log").is_file():
        prepare()
    recorder = Recorder(GIVEN)
    recorder.watch(TransformerModel if GIVEN["family"] == "transformer" else LSTMModel, read)
    sys.argv = ["fairseq-train", *map(str, options())]
    cli_main()


def read(
    src_tokens: Tensor, src_lengths: Tensor, prev_output_tokens: Tensor, **_: object
) -> tuple[Tensor, Tensor]:
    """Return masks of real tokens; the decoder's input and output have the same length."""
    return src_tokens != PAD, prev_output_tokens != PAD


def prepare() -> None:
    """Write the text in fairseq's format."""
    text = GIVEN["text"]
    languages = ["--source-lang", "source", "--target-lang", "target", "--joined-dictionary"]
    files = [
        "--trainpref",
        f"{text}/train",
        "--validpref",
        f"{text}/few",
        "--srcdict",
        f"{text}/dictionary",
    ]
    command = [
        sys.executable,
        "-m",
        "fairseq_cli.preprocess",
        *languages,
        *files,
        "--destdir",
        DATA,
    ]
    subprocess.run(list(map(str, command)), check=True)


def options() -> list[object]:
    """Return the options of fairseq-train; batches have a fixed number of sentences of similar
    length.
    """
    training = [
        "--max-sentences",
        GIVEN["rows"],
        "--max-epoch",
        1000,
        "--max-update",
        10**6,
        "--no-save",
        *(["--distributed-world-size", 1] if GIVEN["device"] == "cuda" else ["--cpu"]),
    ]
    training += [
        "--optimizer",
        "adam",
        "--adam-betas",
        "(0.9, 0.98)",
        "--weight-decay",
        0.01,
        "--lr",
        1e-3,
    ]
    training += [
        "--clip-norm",
        1.0,
        "--criterion",
        "label_smoothed_cross_entropy",
        "--label-smoothing",
        0.1,
    ]
    training += [
        "--disable-validation",
        "--num-workers",
        0,
        "--log-interval",
        100,
        "--log-format",
        "simple",
    ]
    training += ["--max-source-positions", 4096, "--max-target-positions", 4096, "--seed", 1]
    return [DATA, "--task", "translation", *training, *(model())]


def model() -> list[object]:
    """Return the sizes of the model."""
    if GIVEN["family"] == "transformer":
        sides = [
            (f"--{side}-{name}", size)
            for side in ("encoder", "decoder")
            for name, size in SIZES.items()
        ]
        layers = [("--encoder-layers", GIVEN["layers"]), ("--decoder-layers", GIVEN["layers"])]
        norms = [
            "--encoder-normalize-before",
            "--decoder-normalize-before",
            "--share-all-embeddings",
        ]
        flat = [part for pair in (*sides, *layers) for part in pair]
        dropouts = ["--dropout", 0.1, "--attention-dropout", 0.1, "--activation-dropout", 0.1]
        return ["--arch", "transformer", *dropouts, *flat, *norms]
    sizes = {"encoder-embed-dim": 256, "decoder-embed-dim": 256, "encoder-hidden-size": 256}
    sizes |= {"decoder-hidden-size": 512, "decoder-out-embed-dim": 512}
    sizes |= {"encoder-layers": GIVEN["layers"], "decoder-layers": GIVEN["layers"]}
    flat = [part for name, size in sizes.items() for part in (f"--{name}", size)]
    return ["--arch", "lstm", "--dropout", 0.1, "--encoder-bidirectional", *flat]


if __name__ == "__main__":
    main()
