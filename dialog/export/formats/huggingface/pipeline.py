"""Pipeline of an exported folder with code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import TextGenerationPipeline
from transformers.utils.chat_template_utils import Chat

from dialog.data.store.layout import source_ids
from dialog.data.tokenizers.tokenizer import EOS, OTHER, SELF, UNK


class DialogPipeline(TextGenerationPipeline):
    """Pipeline that answers chats, or single messages, with the search of generation_config.json.

    The pipeline of transformers expects a decoder that continues its prompt. Here an encoder reads
    the context: padding is on the right, long contexts are truncated as in training, and the output
    has no prompt.
    """

    tokenizer: Any  # untyped in transformers, as are its methods

    def __init__(self, *arguments: Any, **options: Any) -> None:
        base: Any = super()
        base.__init__(*arguments, **options)
        self.tokenizer.padding_side = "right"

    def check_model_type(self, supported_models: Any) -> None:
        """Accept the model, without a warning that it is no decoder."""

    def preprocess(self, prompt_text: Any, **options: Any) -> Any:  # type: ignore[override]
        """Return the ids of a chat; a text is a chat of one message."""
        base: Any = super()
        messages: Any = [{"role": "user", "content": prompt_text}]
        chat = prompt_text if isinstance(prompt_text, Chat) else Chat(messages)
        inputs = base.preprocess(chat, **{**options, "continue_final_message": False})
        ids = truncated(inputs["input_ids"][0].tolist(), self.tokenizer.model_max_length)
        inputs["input_ids"] = torch.tensor([ids])
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        inputs["prompt_text"] = chat if chat is prompt_text else ""
        return inputs

    def _forward(self, model_inputs: Any, **options: Any) -> Any:  # type: ignore[override]
        """Generate responses; the prompt in front of each is its begin token."""
        base: Any = super()
        outputs = base._forward(model_inputs, **options)
        return {**outputs, "input_ids": outputs["generated_sequence"][:, 0, :1]}

    def postprocess(self, model_outputs: Any, **options: Any) -> Any:  # type: ignore[override]
        """Return the responses as text, or as messages after those of a chat."""
        base: Any = super()
        return base.postprocess(model_outputs, **{**options, "continue_final_message": False})


def truncated(ids: Sequence[int], longest: int) -> list[int]:
    """Return the ids of a context, truncated as in training; `<unk>` without ids.

    A template cannot know that a tokenizer gives no ids for a text, such as that of words for
    spaces.
    """
    if len(ids) <= longest:
        return list(ids) or [UNK]
    if ids[-1] != EOS:  # a layout without roles
        return list(ids[-longest:])
    starts = [place for place, token in enumerate(ids) if token in (OTHER, SELF)]
    ends = [*starts[1:], len(ids) - 1]
    turns = [
        (ids[start] == SELF, ids[start + 1 : end]) for start, end in zip(starts, ends, strict=True)
    ]
    return source_ids(turns, max_source=longest)
