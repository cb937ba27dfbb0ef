"""Train hand-written loops: a tutorial's additive attention, and an nn.LSTM without attention.

The tutorial projects keys and output at every step; both read batches of similar length.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from recorder import Recorder, lines, settings
from torch import Tensor, nn

GIVEN = settings()
PAD = 0
BEGIN = 1
END = 2
FIRST = 3
SIZE = 512
WORD = 256
DROPOUT = 0.1


class Reader(nn.Module):
    """A bidirectional LSTM over packed sources."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, WORD, padding_idx=PAD)
        self.lstm = nn.LSTM(WORD, SIZE // 2, batch_first=True, bidirectional=True)

    def forward(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Source [B, S] -> states [B, S, D], the last of either direction [B, D]."""
        embedded = F.dropout(self.embedding(source), DROPOUT, self.training)
        packed = nn.utils.rnn.pack_padded_sequence(
            embedded, (source != PAD).sum(1).cpu(), batch_first=True, enforce_sorted=False
        )
        states, (last, _) = self.lstm(packed)
        return nn.utils.rnn.pad_packed_sequence(states, batch_first=True)[0], torch.cat(
            [last[0], last[1]], 1
        )


class Tutorial(nn.Module):
    """Bahdanau's attention, step by step."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.reader = Reader(words)
        self.embedding = nn.Embedding(words, WORD, padding_idx=PAD)
        self.start = nn.Linear(SIZE, SIZE)
        self.cell = nn.LSTMCell(WORD + SIZE, SIZE)
        self.attention = nn.Linear(2 * SIZE, SIZE)
        self.energy = nn.Linear(SIZE, 1, bias=False)
        self.combined = nn.Linear(2 * SIZE, SIZE)
        self.output = nn.Linear(SIZE, words)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Source [B, S], target [B, T] -> logits [B, T, V]."""
        states, last = self.reader(source)
        hidden = torch.tanh(self.start(last))
        cell = torch.zeros_like(hidden)
        context = torch.zeros_like(hidden)
        logits = []
        for words in target.unbind(1):
            embedded = F.dropout(self.embedding(words), DROPOUT, self.training)
            hidden, cell = self.cell(torch.cat([embedded, context], 1), (hidden, cell))
            pairs = torch.cat([hidden.unsqueeze(1).expand_as(states), states], 2)  # [B, S, 2 D]
            scores = self.energy(torch.tanh(self.attention(pairs))).squeeze(2)  # [B, S]
            weights = scores.masked_fill(source == PAD, -1e9).softmax(1)
            context = torch.bmm(weights.unsqueeze(1), states).squeeze(1)  # [B, D]
            both = torch.tanh(self.combined(torch.cat([hidden, context], 1)))
            logits.append(self.output(F.dropout(both, DROPOUT, self.training)))
        return torch.stack(logits, 1)


class Bare(nn.Module):
    """Two fused LSTMs and an output layer."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.reader = Reader(words)
        self.embedding = nn.Embedding(words, WORD, padding_idx=PAD)
        self.start = nn.Linear(SIZE, SIZE)
        self.lstm = nn.LSTM(WORD, SIZE, batch_first=True)
        self.output = nn.Linear(SIZE, words)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Source [B, S], target [B, T] -> logits [B, T, V]."""
        hidden = torch.tanh(self.start(self.reader(source)[1])).unsqueeze(0)
        embedded = F.dropout(self.embedding(target), DROPOUT, self.training)
        states, _ = self.lstm(embedded, (hidden, torch.zeros_like(hidden)))
        return self.output(F.dropout(states, DROPOUT, self.training))


def batches() -> Iterator[tuple[Tensor, Tensor]]:
    """Yield sources with end tokens and targets with start and end tokens, forever."""
    sources, targets = (lines(f"{GIVEN['text']}/train.{side}") for side in ("source", "target"))
    order = sorted(range(len(sources)), key=lambda row: (len(targets[row]), len(sources[row])))
    starts = list(range(0, len(order) - GIVEN["rows"] + 1, GIVEN["rows"]))
    generator = random.Random(1)
    while True:
        generator.shuffle(starts)
        for start in starts:
            rows = order[start : start + GIVEN["rows"]]
            yield (
                padded([[*(FIRST + word for word in sources[row]), END] for row in rows]),
                padded([[BEGIN, *(FIRST + word for word in targets[row]), END] for row in rows]),
            )


def padded(rows: list[list[int]]) -> Tensor:
    """Pad rows to one length."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


def main() -> None:
    """Train."""
    torch.manual_seed(1)
    recorder = Recorder(GIVEN)
    kind = {"tutorial": Tutorial, "bare": Bare}[GIVEN["system"]]
    recorder.watch(kind, lambda source, target: (source != PAD, target != PAD))
    model = kind(GIVEN["vocabulary"] + FIRST).train().to(GIVEN["device"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    for batch in batches():
        source, target = (side.to(GIVEN["device"]) for side in batch)
        logits = model(source, target[:, :-1])
        loss = F.cross_entropy(
            logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD, label_smoothing=0.1
        )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


if __name__ == "__main__":
    main()
