"""Read files of corpora: find, decompress and parse them within bounded memory, and download them.

Read first: `files.py` (find and decompress files). By format: `archives.py` (zip, tar),
`json_text.py`, `parquet.py`, `word_vectors.py`. From the network: `downloads.py` fetches the files
that `download_sources.py` lists.
"""
