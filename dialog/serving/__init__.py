"""HTTP service of a trained run: OpenAI's chat format, attention maps and a web page.

Read first: `app.py`.
"""
