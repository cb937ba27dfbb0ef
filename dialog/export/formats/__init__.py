"""One module or folder per export format.

Read first: `ctranslate2.py`.
"""

from typing import NamedTuple


class FormatEntry(NamedTuple):
    """Format that can be chosen; its module, of the same name, is imported when it is used."""

    kind: str  # class in the module
    packages: tuple[str, ...]  # that the module imports, and whose versions are reported
    extra: str  # installs the packages


FORMATS = {
    "huggingface": FormatEntry("HuggingFaceFormat", ("transformers",), "transformers"),
    "ctranslate2": FormatEntry("CTranslate2", ("ctranslate2",), "ctranslate2"),
    "onnx": FormatEntry("Onnx", ("onnxruntime", "onnx", "onnxscript"), "onnx"),
}
