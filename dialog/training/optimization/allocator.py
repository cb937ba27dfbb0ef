"""Process-wide settings of speed and memory: freed memory is kept, kernels for single shapes are
bounded or avoided.

They change no result, but for the rounding of attention in half precision on a GPU.
"""

from __future__ import annotations

import ctypes
import os
import sys

import torch

TRIM_THRESHOLD = -1
MMAP_MAX = -4
"""Parameters of mallopt, from glibc's ``malloc.h``."""

KERNELS = "64"
CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
"""Environment variables: the cache of oneDNN, and torch's own above it."""


def tune_process() -> None:
    """Choose the settings of training and generation: freed memory is kept, cuDNN attention
    avoided.
    """
    keep_freed_memory()
    avoid_cudnn_attention()


def keep_freed_memory() -> bool:
    """Make glibc keep freed memory, unless the user has configured malloc; return whether it will.

    By default glibc returns the memory of large tensors to the system, which zeroes every page of
    each new one, at every step. For S-LSTM and S-Transformer (64 rows of 64 and 16 tokens, one
    thread, means of two rounds on a loaded machine) a step takes 1,321 instead of 1,774 ms and
    1,915 instead of 2,257; peak memory is up to 12 % higher.
    """
    tuned = any(name.startswith("MALLOC_") for name in os.environ) or "malloc" in os.environ.get(
        "GLIBC_TUNABLES", ""
    )
    if tuned or not sys.platform.startswith("linux"):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    return bool(library.mallopt(MMAP_MAX, 0) and library.mallopt(TRIM_THRESHOLD, -1))


def bound_kernel_caches() -> None:
    """Limit oneDNN's kernel caches to 64 entries instead of 1,024, unless the user has set them.

    oneDNN computes bfloat16 products on a CPU and caches a kernel of about 1 MB for each shape;
    each batch has new shapes. Taskmaster's LSTM on a CPU with AMX, bf16-mixed: 925 instead of 1,921
    MiB after 60 steps, and then constant (unbounded: 4 GiB after 605 steps); the Transformer 958
    instead of 2,255 MiB. A step takes about a sixth longer (CPU time, on a loaded machine). Call it
    before the process's first product: oneDNN reads the variables only then.
    """
    for name in CACHES:
        os.environ.setdefault(name, KERNELS)


def avoid_cudnn_attention() -> None:
    """Leave cuDNN out of the kernels of attention on a GPU.

    For half precision torch prefers it on Hopper and Blackwell, but it builds a plan for each
    shape, which takes longer than a step of a small model, and each batch has new shapes. The other
    kernels take any shape.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)
