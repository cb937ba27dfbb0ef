"""``hf:MODEL``: a sequence-to-sequence or causal model of transformers, from a folder or the hub.

Responses are generated without sampling. `nll` is -log p(reference | context) in nats, with the end
token. Weights are read from safetensors only, and no code of the model is run.

The context is written with the chat template of the tokenizer if it has one; else its turns are
joined by the end token (causal models, as for DialoGPT) or by a line feed (others).

Options: ``beams``, ``max_new_tokens``, ``batch``, ``revision`` and ``prefix``, a text before the
context.

Shapes: B examples, S tokens of the context, T tokens of the reference with its end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from dialog.comparison.systems.lines import (
    leave,
    messages_of,
    parse_number,
    parse_options,
    read_rows,
    write_line,
)
from dialog.errors import UserError, install

OPTIONS = ("beams", "max_new_tokens", "batch", "revision", "prefix")
IGNORED_LABEL = -100


class Model:
    """A model with its tokenizer.

    Args:
        name: Folder, or name on the hub.
        beams: Width of beam search; 1 is greedy search.
        max_new_tokens: Longest response.
        revision: Revision of a model of the hub.
        prefix: Text before the context.

    Raises:
        UserError: it cannot be loaded.
    """

    def __init__(
        self,
        name: str,
        *,
        beams: int = 1,
        max_new_tokens: int = 64,
        revision: str | None = None,
        prefix: str = "",
    ) -> None:
        import torch

        try:
            import transformers
        except ModuleNotFoundError as error:
            raise UserError(f"hf: needs transformers; {install('transformers')}") from error

        is_folder = Path(name).is_dir()
        if not is_folder and (name.startswith((".", "/", "~")) or name.count("/") > 1):
            raise UserError(f"hf:{name}: no such folder")
        options = {
            "revision": revision,
            "local_files_only": is_folder or bool(os.environ.get("DIALOG_OFFLINE")),
        }
        try:
            config = transformers.AutoConfig.from_pretrained(name, **options)
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(name, **options)
            kind = (
                transformers.AutoModelForSeq2SeqLM
                if config.is_encoder_decoder
                else transformers.AutoModelForCausalLM
            )
            network = kind.from_pretrained(name, use_safetensors=True, **options)
        except (OSError, ValueError, KeyError, ImportError) as error:
            reason = str(error).strip().partition("\n")[0]
            where = "" if is_folder else "no such folder, and from the hub: "
            raise UserError(f"hf:{name}: cannot be loaded ({where}{reason})") from error
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.network = network.eval().to(self.device)
        self.is_causal = not config.is_encoder_decoder
        self.end = self._end_token()
        self.beams = beams
        self.max_new_tokens = max_new_tokens
        self.prefix = prefix
        positions = getattr(config, "max_position_embeddings", None)
        self.positions = positions if isinstance(positions, int) else None
        self.revision = getattr(config, "_commit_hash", None)

    def _end_token(self) -> int:
        end = self.tokenizer.eos_token_id
        if end is None:
            raise UserError("hf: the tokenizer has no end token")
        if self.tokenizer.pad_token_id is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        return int(end)

    # ------------------------------------------------------------------ texts to tokens

    def source(self, context: Sequence[str]) -> list[int]:
        """Return the tokens of a context, truncated at its beginning to what fits."""
        if self.tokenizer.chat_template:
            text = str(
                self.tokenizer.apply_chat_template(
                    messages_of(context), tokenize=False, add_generation_prompt=True
                )
            )
            tokens = self.tokenizer(self.prefix + text, add_special_tokens=False)["input_ids"]
        elif self.is_causal:
            between = self.tokenizer.eos_token
            text = self.prefix + "".join(f"{turn}{between}" for turn in context)
            tokens = self.tokenizer(text)["input_ids"]
        else:
            tokens = self.tokenizer(self.prefix + "\n".join(context))["input_ids"]
        if self.positions is None:
            return list(tokens)
        room = self.positions - (self.max_new_tokens if self.is_causal else 0)
        return list(tokens[-max(1, room) :])

    def target(self, reference: str) -> list[int]:
        """Return the tokens of a reference with its end."""
        if not self.is_causal:
            tokens = self.tokenizer(text_target=reference)["input_ids"]
            return list(tokens) if tokens and tokens[-1] == self.end else [*tokens, self.end]
        return [*self.tokenizer(reference, add_special_tokens=False)["input_ids"], self.end]

    def unknown_bytes(self, reference: str) -> int:
        """Return the bytes of the text that the unknown token replaces."""
        unknown = self.tokenizer.unk_token_id
        if unknown is None or unknown == self.end or not self.tokenizer.is_fast:
            return 0
        encoded = self.tokenizer(reference, add_special_tokens=False, return_offsets_mapping=True)
        return sum(
            len(reference[start:stop].encode())
            for token, (start, stop) in zip(
                encoded["input_ids"], encoded["offset_mapping"], strict=True
            )
            if token == unknown
        )

    # ------------------------------------------------------------------ answers

    def respond(self, contexts: Sequence[Sequence[str]]) -> list[str]:
        """Return a response to each context."""
        import torch

        sources = [self.source(context) or [self.end] for context in contexts]
        tokens, mask = self._padded(sources, left=self.is_causal)
        with torch.inference_mode():
            outputs = self.network.generate(
                input_ids=tokens,
                attention_mask=mask,
                do_sample=False,
                num_beams=self.beams,
                max_new_tokens=self.max_new_tokens,
                pad_token_id=self.tokenizer.pad_token_id,
            )
        new = outputs[:, tokens.shape[1] :] if self.is_causal else outputs
        texts = self.tokenizer.batch_decode(new, skip_special_tokens=True)
        return [str(text).strip() for text in texts]

    def score(
        self, contexts: Sequence[Sequence[str]], references: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Return the likelihood of each reference after its context."""
        import torch

        sources = [self.source(context) or [self.end] for context in contexts]
        targets = [self.target(reference) for reference in references]
        if self.is_causal:
            # a long reference takes the place of the beginning of its context
            limit = self.positions or sys.maxsize
            kept = [
                source[-max(1, limit - len(target)) :]
                for source, target in zip(sources, targets, strict=True)
            ]
            joined = [[*source, *target] for source, target in zip(kept, targets, strict=True)]
            labels = [
                [IGNORED_LABEL] * len(source) + target
                for source, target in zip(kept, targets, strict=True)
            ]
            tokens, mask = self._padded(joined)
            gold = self._padded(labels, fill=IGNORED_LABEL)[0][:, 1:]
            with torch.inference_mode():
                logits = self.network(input_ids=tokens, attention_mask=mask).logits[:, :-1]
        else:
            tokens, mask = self._padded(sources)
            gold = self._padded(targets, fill=IGNORED_LABEL)[0]
            with torch.inference_mode():
                logits = self.network(input_ids=tokens, attention_mask=mask, labels=gold).logits
        real = gold != IGNORED_LABEL  # [B, T]
        chosen = gold.masked_fill(~real, 0)
        log_p = logits.float().log_softmax(-1)  # [B, T, V]
        picked = log_p.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
        nll = -(picked.double() * real).sum(1)
        correct = ((log_p.argmax(-1) == gold) & real).sum(1)
        unknown = self.tokenizer.unk_token_id
        return [
            {
                "nll": float(nll[place]),
                "reference_tokens": len(target),
                "reference_correct": int(correct[place]),
                "reference_unknown": 0 if unknown in (None, self.end) else target.count(unknown),
                "reference_unknown_bytes": self.unknown_bytes(references[place]),
            }
            for place, target in enumerate(targets)
        ]

    def _padded(
        self, rows: Sequence[Sequence[int]], *, fill: int | None = None, left: bool = False
    ) -> tuple[Any, Any]:
        """Return rows of tokens as one tensor [B, length], and the mask of the real ones."""
        import torch

        fill = self.tokenizer.pad_token_id if fill is None else fill
        length = max(map(len, rows))
        padding = [[fill] * (length - len(row)) for row in rows]
        mask = [[0] * (length - len(row)) for row in rows]
        pairs = list(zip(rows, padding, mask, strict=True))
        tokens = [[*pad, *row] if left else [*row, *pad] for row, pad, _ in pairs]
        real = [
            [*gap, *[1] * len(row)] if left else [*[1] * len(row), *gap] for row, _, gap in pairs
        ]
        return torch.tensor(tokens, device=self.device), torch.tensor(real, device=self.device)


def answers(
    model: Model, rows: Iterator[Mapping[str, Any]], batch: int
) -> Iterator[dict[str, Any]]:
    """Yield the answer to each row, with the likelihood of its first reference."""
    while block := list(islice(rows, batch)):
        contexts = [row["context"] for row in block]
        scores = model.score(contexts, [row["references"][0] for row in block])
        for row, text, score in zip(block, model.respond(contexts), scores, strict=True):
            yield {"id": row["id"], "response": text, **score}


def main(arguments: Sequence[str]) -> None:
    """Answer the contexts of standard input in batches."""
    options = parse_options(arguments[1:], OPTIONS)
    model = Model(
        arguments[0],
        beams=parse_number(options, "beams", 1, 1),
        max_new_tokens=parse_number(options, "max_new_tokens", 64, 1),
        revision=options.get("revision"),
        prefix=options.get("prefix", ""),
    )
    parameters = sum(tensor.numel() for tensor in model.network.parameters())
    write_line(
        {"system": {"model": arguments[0], "commit": model.revision, "parameters": parameters}}
    )
    for line in answers(model, read_rows(), parse_number(options, "batch", 8, 1)):
        write_line(line)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as failure:
        leave(failure)
