"""Systems of other frameworks as contenders: programs that answer the contexts of a test set, and
adapters for Hugging Face models and OpenAI-compatible endpoints, which are such programs too.

Read first: `program.py`; `specification.py` explains ``--system``.
"""
