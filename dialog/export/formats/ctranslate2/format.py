"""The format of CTranslate2, whose engine computes Transformers on CPUs and GPUs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import tokenizers

from dialog.data.tokenizers.tokenizer import EOS, Tokenizer
from dialog.errors import UserError
from dialog.export.format import Exported, Format, Tokens
from dialog.export.formats.ctranslate2.specification import POSITIONS, specification
from dialog.export.formats.ctranslate2.usage import EMPTY_CONTEXT, EMPTY_CONTEXT_LENGTH, usage
from dialog.export.model_settings import table_length
from dialog.models.seq2seq import Seq2Seq
from dialog.runs.run import Run

VOCABULARY = "shared_vocabulary.json"
ADVICE = "use --format onnx"


class CTranslate2(Format):
    """Transformer encoder, Transformer decoder and vocabulary head, with every setting of theirs.

    A sinusoidal table ends at the longest source, target and response of the recipe, and not before
    1024 tokens; the engine raises RuntimeError beyond.
    """

    engine = "CTranslate2"
    packages = ("ctranslate2",)

    def check(self, model: Seq2Seq) -> None:
        """Check the names of encoder, decoder, head and positions.

        Raises:
            UserError: CTranslate2 lacks one of them.
        """
        parts = model.arguments
        _check("model.encoder", parts["encoder"]["name"], ["transformer"])
        _check("model.decoder", parts["decoder"]["name"], ["transformer"])
        _check("model.head", parts["head"]["name"], ["vocabulary"])
        for side in ("encoder", "decoder"):
            positions = parts[side].get("positions", {"name": "sinusoidal"})
            _check(f"model.{side}.positions", positions["name"], POSITIONS)

    def write(self, run: Run, folder: Path) -> None:
        """Write `model.bin`, `config.json` and `shared_vocabulary.json`, in float32.

        Raises:
            UserError: CTranslate2, which reads and writes tokens as text, cannot tell two tokens
                apart.
        """
        spec = specification(run.model, vocabulary(run.tokenizer), table_length(run.recipe))
        spec.save(str(folder))

    def load(self, folder: Path) -> Exported:
        """Open an exported folder on one core of the CPU."""
        return CTranslate2Network(folder)

    def usage(self, run: Run) -> str:
        """Return the code that generates a response with the recipe's search, where CTranslate2 has
        it.
        """
        return usage(run)


class CTranslate2Network:
    """An exported network, computed in float32 on one core."""

    def __init__(self, folder: Path) -> None:
        from ctranslate2 import Translator

        self.tokens: list[str] = json.loads((folder / VOCABULARY).read_text(encoding="utf-8"))
        self.ids = {token: number for number, token in enumerate(self.tokens)}
        self.translator = Translator(
            str(folder), device="cpu", compute_type="float32", inter_threads=1, intra_threads=1
        )

    def log_probabilities(
        self, sources: Sequence[Tokens], targets: Sequence[Tokens]
    ) -> list[list[float]]:
        """Return log p(y_t | y_<t, source) in nats; the engine appends the end token to a
        target.
        """
        results = self.translator.score_batch(
            self._texts(sources),
            self._texts([target[:-1] for target in targets]),
            max_batch_size=0,
            max_input_length=0,
        )
        return [list(result.log_probs) for result in results]

    def greedy(self, sources: Sequence[Tokens], length: int) -> list[list[int]]:
        """Return the most probable token, step by step; sources of empty contexts are a batch of
        their own.
        """
        responses: dict[int, list[int]] = {}
        for empty in (False, True):
            places = [
                place for place, source in enumerate(sources) if ([*source] == [EOS]) is empty
            ]
            results = self.translator.translate_batch(
                self._texts([EMPTY_CONTEXT if empty else sources[place] for place in places]),
                max_batch_size=0,  # one batch
                max_input_length=EMPTY_CONTEXT_LENGTH if empty else 0,  # 0: no truncation
                beam_size=1,
                min_decoding_length=0,
                max_decoding_length=length,
                return_end_token=True,
            )
            for place, result in zip(places, results, strict=True):
                responses[place] = [self.ids[token] for token in result.hypotheses[0]]
        return [responses[place] for place in range(len(sources))]

    def _texts(self, batch: Sequence[Tokens]) -> list[list[str]]:
        return [[self.tokens[token] for token in tokens] for tokens in batch]


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    """Return the text of each token, by id.

    Raises:
        UserError: two tokens have the same text, or an id has no token.
    """
    library = tokenizers.Tokenizer.from_str(tokenizer.json)
    tokens = [
        token
        for number in range(len(tokenizer))
        if (token := library.id_to_token(number)) is not None
    ]
    if len({*tokens}) < len(tokenizer):
        raise UserError(
            "data.tokenizer: two tokens of the vocabulary have the same text, or an id has no"
            f" token; CTranslate2 reads tokens as text; {ADVICE}"
        )
    return tokens


def _check(key: str, name: str, supported: Sequence[str]) -> None:
    if name not in supported:
        raise UserError(
            f"{key}: CTranslate2 supports only {', '.join(supported)}, not {name!r}; {ADVICE}"
        )
