"""Memory that a step frees is there for the next one, and what oneDNN keeps is bounded."""

from __future__ import annotations

import ctypes
import os
import sys

TRIM_THRESHOLD, MMAP_MAX = -1, -4
"""Numbers of glibc's ``malloc.h``."""

KERNELS = "64"
CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
"""Of oneDNN, and of torch's layer above it."""


def keep_freed_memory() -> bool:
    """Let the C library keep what is freed, where it is glibc's and the user has set nothing else; whether it does.

    By itself it gives large tensors back to the system, which fills each new one with zeros, page by page, at every
    step. For S-LSTM and S-Transformer (benchmarks/steps.py: 64 rows of 64 and 16 tokens, one thread, means of two
    rounds on a loaded machine) a step takes 1,321 instead of 1,774 ms and 1,915 instead of 2,257; the process's peak
    is up to 12 % higher.
    """
    chosen = any(name.startswith("MALLOC_") for name in os.environ) or "malloc" in os.environ.get("GLIBC_TUNABLES", "")
    if chosen or not sys.platform.startswith("linux"):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    return bool(library.mallopt(MMAP_MAX, 0) and library.mallopt(TRIM_THRESHOLD, -1))


def bound_kernel_caches() -> None:
    """Let oneDNN keep 64 kernels and not 1,024 for each shape of a product, where the user has set nothing else.

    It computes bfloat16 products of a CPU, about a megabyte a shape, and each batch has shapes of its own. Taskmaster's
    LSTM on a CPU with AMX, bf16-mixed: after 60 steps 925 instead of 1,921 MiB, where it no longer grows (without the
    bound 4 GiB after 605 steps); the Transformer 958 instead of 2,255. A step takes about a sixth longer (CPU time, on
    a loaded machine). It is read at oneDNN's first product of a process.
    """
    for name in CACHES:
        os.environ.setdefault(name, KERNELS)
