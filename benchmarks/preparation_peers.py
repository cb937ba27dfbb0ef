"""Steps of benchmarks/preparation.py in the peers' environments: python preparation_peers.py STEP
PAIRS WORK.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import sentencepiece

SPECIAL = ("<unk>", "<pad>", "<s>", "</s>")
BLOCK = 10_000
"""Lines split into pieces at once."""


def learn(pairs: Path, work: Path) -> None:
    """Train the sentencepiece model on distinct turns, and write its vocabulary in both peers'
    formats.
    """
    sentencepiece.SentencePieceTrainer.train(
        input=str(pairs / "train.turns"),
        model_prefix=str(work / "pieces"),
        model_type="bpe",
        vocab_size=8000,
        character_coverage=1.0,
        input_sentence_size=1_000_000,
        num_threads=2,
        minloglevel=1,
        **{f"{name}_id": number for number, name in enumerate(("unk", "pad", "bos", "eos"))},
    )
    model = _model(work)
    pieces = [model.id_to_piece(number) for number in range(model.get_piece_size())]
    (work / "vocabulary.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    (work / "dict.txt").write_text(
        "".join(f"{piece} 1\n" for piece in pieces if piece not in SPECIAL)
    )


def pieces(pairs: Path, work: Path) -> None:
    """Write every source and target as pieces, the text that fairseq-preprocess reads."""
    model = _model(work)
    for path in sorted(path for path in pairs.iterdir() if path.suffix in (".source", ".target")):
        with (
            path.open(encoding="utf-8") as lines,
            (work / path.name).open("w", encoding="utf-8") as file,
        ):
            for block in _blocks(lines):
                for encoded in model.encode(block, out_type=str, num_threads=2):
                    print(*encoded, file=file)


def joeynmt(pairs: Path, work: Path) -> None:
    """Load every split as JoeyNMT's training does, and iterate over its batches once."""
    from joeynmt.data import load_data

    sides = {key: _side(work, name) for key, name in (("src", "source"), ("trg", "target"))}
    special = {"lang_tags": [], "sep_id": None, "sep_token": None}
    for number, name in enumerate(("unk", "pad", "bos", "eos")):
        special |= {f"{name}_id": number, f"{name}_token": SPECIAL[number]}
    splits = {"train": "train", "dev": "validation", "test": "test"}
    files = {name: str(pairs / split) for name, split in splits.items()}
    content = {
        **files,
        **sides,
        "dataset_type": "plain",
        "special_symbols": SimpleNamespace(**special),
    }
    _, _, *datasets = load_data(content, datasets=list(splits))
    for dataset in datasets:
        for _ in dataset.make_iter(batch_size=64, num_workers=2):
            pass


def _side(work: Path, name: str) -> dict[str, Any]:
    tokenizer = {
        "tokenizer_type": "sentencepiece",
        "tokenizer_cfg": {"model_file": str(work / "pieces.model")},
    }
    return {"lang": name, "level": "bpe", "voc_file": str(work / "vocabulary.txt"), **tokenizer}


def _model(work: Path) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_file=str(work / "pieces.model"))


def _blocks(lines: Iterator[str]) -> Iterator[list[str]]:
    while block := [line.rstrip("\n") for line in islice(lines, BLOCK)]:
        yield block


STEPS: dict[str, Callable[[Path, Path], None]] = {
    "learn": learn,
    "pieces": pieces,
    "joeynmt": joeynmt,
}

if __name__ == "__main__":
    step, pairs, work = sys.argv[1:]
    STEPS[step](Path(pairs), Path(work))
