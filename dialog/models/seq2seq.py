"""The whole network: an encoder reads a source, a decoder says a response.

Shapes: B rows, S source tokens, T target tokens, E embedding size, V vocabulary.
"""

from __future__ import annotations

from torch import Tensor, nn

from dialog.components import Component, Table, build
from dialog.models.contracts import AttentionHook, Decoder, Encoder, Memory, State
from dialog.models.embedding import TokenEmbedding, output_layer
from dialog.models.lstm import LSTMDecoder, LSTMEncoder
from dialog.models.transformer import TransformerDecoder, TransformerEncoder

ENCODERS: Table[Encoder] = {"lstm": LSTMEncoder, "transformer": TransformerEncoder}
DECODERS: Table[Decoder] = {"lstm": LSTMDecoder, "transformer": TransformerDecoder}


class Seq2Seq(nn.Module):
    """p(target | source) = prod_t p(y_t | y_<t, source), with any encoder and any decoder.

    ``tie_embeddings``: source, target and output layer share one table (Press & Wolf 2017).
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        padding: int,
        embedding_size: int,
        encoder: Component,
        decoder: Component,
        tie_embeddings: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.source_embedding = TokenEmbedding(vocabulary, embedding_size, padding=padding, dropout=dropout)
        self.target_embedding = (
            self.source_embedding
            if tie_embeddings
            else TokenEmbedding(vocabulary, embedding_size, padding=padding, dropout=dropout)
        )
        self.encoder = build(ENCODERS, encoder, input_size=embedding_size, dropout=dropout)
        self.decoder = build(
            DECODERS, decoder, input_size=embedding_size, memory_size=self.encoder.size, dropout=dropout
        )
        self.dropout = nn.Dropout(dropout)
        self.head = output_layer(self.target_embedding, tied=tie_embeddings)

    def forward(self, source: Tensor, source_mask: Tensor, target: Tensor, hook: AttentionHook | None = None) -> Tensor:
        """Teacher forcing: source [B, S], source_mask [B, S] (True = real), target [B, T] -> logits [B, T, V].

        Logits t are for the token after target t, so a target begins with the token that begins a response.
        """
        memory, state = self.start(source, source_mask, hook)
        return self.step(target, memory, state, hook)[0]

    def start(self, source: Tensor, source_mask: Tensor, hook: AttentionHook | None = None) -> tuple[Memory, State]:
        """Read a source [B, S]: what stays fixed for it, and the state before the first token."""
        return self.decoder.start(self.encoder(self.source_embedding(source), source_mask, hook))

    def step(
        self, tokens: Tensor, memory: Memory, state: State, hook: AttentionHook | None = None
    ) -> tuple[Tensor, State]:
        """Go on by tokens [B, T], for any T >= 1: logits [B, T, V] and the state after them."""
        outputs, state = self.decoder(self.target_embedding(tokens), memory, state, hook)
        logits: Tensor = self.head(self.dropout(outputs))  # [B, T, V]
        return logits, state


def count_parameters(model: Seq2Seq) -> dict[str, int]:
    """Parameters in all, in embeddings and output layer, and in the rest; shared ones count once."""
    tables = {id(model.source_embedding.table.weight), id(model.target_embedding.table.weight), id(model.head.weight)}
    total = sum(parameter.numel() for parameter in model.parameters())
    embeddings = sum(parameter.numel() for parameter in model.parameters() if id(parameter) in tables)
    return {"total": total, "embeddings": embeddings, "rest": total - embeddings}
