"""A web page in which one or two models answer: ONNX files, onnxruntime-web and readable
JavaScript.

Read first: `page.py`.
"""
