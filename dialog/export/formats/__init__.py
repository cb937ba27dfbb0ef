"""One module or folder per export format.

Read first: `ctranslate2/format.py`.
"""

FORMATS = {
    "huggingface": ("transformers", "HuggingFaceFormat"),
    "ctranslate2": ("ctranslate2", "CTranslate2"),
    "onnx": ("onnx", "Onnx"),
}
"""Extra and class of each format; the class is in the module of its name, which is imported when it
is used.
"""
