"""Export of Transformers to CTranslate2.

Read first: `format.py`.
"""

from dialog.export.formats.ctranslate2.format import CTranslate2

__all__ = ["CTranslate2"]
