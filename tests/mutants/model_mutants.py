"""Mistakes in networks: attention, positions, recurrence."""

from mutant import mutant

SOFTMAX = "models/attention/softmax.py"
MULTI_HEAD = "models/attention/multi_head.py"
BAHDANAU = "models/recurrent/bahdanau.py"
CELLS = "models/recurrent/cells.py"
ENCODER = "models/recurrent/encoder.py"
SPEAKER = "models/transformer/decoder.py"
ASK = (
    "            context, read = self.attention(loop.top.unsqueeze(1), memory, read, watch)  # [B,"
    " 1, M]\n"
)
STEP = "            loop.step(gates, context.squeeze(1))\n"
LATE = (
    "            before = contexts[-1] if contexts else gates.new_zeros(len(gates),"
    " self.stack.split[1])\n            loop.step(gates, before)\n"
)
SHOW = "            hook(self, weights)\n"
DROP = "            mixed = mix(weights, values, dropout)"

MUTANTS = (
    mutant(
        "attention-1",
        "softmax over the rows of a batch",
        "models/attention/test_softmax.py::test_masked_softmax_is_a_distribution_over_real_entries",
        (SOFTMAX, "filled.softmax(-1,", "filled.softmax(0,"),
    ),
    mutant(
        "attention-2",
        "the mask is inverted",
        "models/attention/test_softmax.py::test_masked_softmax_is_a_distribution_over_real_entries",
        (SOFTMAX, "scores.masked_fill(~mask,", "scores.masked_fill(mask,"),
    ),
    mutant(
        "attention-3",
        "no mask over the source",
        "models/attention/test_laws.py::test_padding_is_never_read",
        (
            "models/attention/attention.py",
            "masked_softmax(scores, mask)",
            "masked_softmax(scores, None)",
        ),
    ),
    mutant(
        "attention-4",
        "a token does not see itself",
        "models/attention/test_multi_head.py::test_the_last_query_sees_all_keys",
        (MULTI_HEAD, ".tril(keys - queries)", ".tril(keys - queries - 1)"),
    ),
    mutant(
        "attention-4b",
        "a token sees the next one",
        "models/attention/test_multi_head.py::test_the_last_query_sees_all_keys",
        (MULTI_HEAD, ".tril(keys - queries)", ".tril(keys - queries + 1)"),
    ),
    mutant(
        "attention-5",
        "scores over d, not its root",
        "models/attention/test_multi_head.py::test_multi_head_attention_agrees_with_torch",
        (MULTI_HEAD, "/ math.sqrt(query.shape[-1])", "/ query.shape[-1]"),
    ),
    mutant(
        "attention-6",
        "dropout in evaluation",
        "models/attention/test_multi_head.py::test_hook_gets_the_weights_before_dropout",
        (MULTI_HEAD, "dropout = self.dropout if self.training else 0.0", "dropout = self.dropout"),
    ),
    mutant(
        "attention-7",
        "the weights shown are those after dropout",
        "models/attention/test_multi_head.py::test_hook_gets_the_weights_before_dropout",
        (
            MULTI_HEAD,
            SHOW + DROP,
            "            weights = F.dropout(weights, dropout)\n"
            + SHOW
            + "            mixed = weights @ values",
        ),
    ),
    mutant(
        "attention-7b",
        "rows without real tokens attend to padding in bfloat16",
        "models/attention/test_bfloat16.py::test_attend_is_the_formula",
        (
            MULTI_HEAD,
            "return mixed if mask is None else mixed.masked_fill",
            "return mixed if True else mixed.masked_fill",
        ),
    ),
    mutant(
        "attention-8",
        "the decoder asks with s_i, not s_(i-1)",
        "models/recurrent/test_decoders.py::test_decoder_follows_the_equations_of_its_docstring",
        (BAHDANAU, ASK + STEP, LATE + ASK),
    ),
    mutant(
        "positions-1",
        "off by one when it goes on",
        "models/transformer/test_transformer_variants.py::test_every_kind_keeps_the_laws",
        (
            SPEAKER,
            "self.positions(inputs, position)",
            "self.positions(inputs, max(position - 1, 0))",
        ),
    ),
    mutant(
        "positions-2",
        "sine and cosine swapped",
        "models/test_positions.py::test_sinusoidal_positions_follow_their_formula",
        ("models/positions.py", "[angles.sin(), angles.cos()]", "[angles.cos(), angles.sin()]"),
    ),
    mutant(
        "positions-3",
        "positions are added twice",
        "models/transformer/test_transformer.py::test_decoder_agrees_with_torchs_stack",
        (
            SPEAKER,
            "self.positions(inputs, position)",
            "self.positions(self.positions(inputs, position))",
        ),
    ),
    mutant(
        "LSTM-1",
        "the backward direction begins in the padding",
        "models/recurrent/test_encoder.py::test_padding_reaches_neither_direction",
        (ENCODER, "torch.where(mask, lengths - 1 - steps, steps)", "steps.flip(0).expand_as(mask)"),
    ),
    mutant(
        "LSTM-2",
        "the bridge drops the backward direction",
        "models/recurrent/test_bridges.py::test_bridge_keeps_both_directions",
        (
            "models/recurrent/bridges.py",
            "self.dense(summary)",
            "self.dense(summary * (torch.arange(summary.shape[-1]) < summary.shape[-1] // 2))",
        ),
    ),
    mutant(
        "LSTM-3",
        "hidden state and cell are swapped",
        "models/recurrent/test_cells.py::test_layers_at_once_equal_layers_step_by_step",
        (
            CELLS,
            "return outputs, last.squeeze(0), cell.squeeze(0)",
            "return outputs, cell.squeeze(0), last.squeeze(0)",
        ),
    ),
    mutant(
        "LSTM-4",
        "states end with the longest real row",
        "models/recurrent/test_encoder.py::test_encoder_agrees_with_torch_on_packed_sequences",
        (
            ENCODER,
            "states.masked_fill(~real, 0.0)",
            "states.masked_fill(~real, 0.0)[:, : int(lengths.max())]",
        ),
    ),
)
