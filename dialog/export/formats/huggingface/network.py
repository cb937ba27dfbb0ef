"""Importing this module makes `AutoConfig` and `AutoModelForSeq2SeqLM` know the class of dialog.

Both then open an exported folder without code.
"""

from transformers import AutoConfig, AutoModelForSeq2SeqLM

from dialog.export.formats.huggingface.modeling import DialogConfig, DialogForConditionalGeneration

__all__ = ["DialogConfig", "DialogForConditionalGeneration"]

AutoConfig.register(DialogConfig.model_type, DialogConfig, exist_ok=True)
AutoModelForSeq2SeqLM.register(DialogConfig, DialogForConditionalGeneration, exist_ok=True)
