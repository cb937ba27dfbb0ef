"""Freed memory is kept and kernel caches are bounded, measured in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dialog.training.optimization.allocator import (
    CACHES,
    KERNELS,
    bound_kernel_caches,
    tune_process,
)
from dialog.training.optimization.precision import has_bfloat16

PROGRAM = """
import ctypes, resource
from dialog.training.optimization.allocator import keep_freed_memory
kept = keep_freed_memory()
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
def fill():
    block = library.malloc(ctypes.c_size_t(2**26))
    ctypes.memset(block, 1, 2**26)
    library.free(ctypes.c_void_p(block))
fill()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
fill()
print(int(kept), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(**environment: str) -> tuple[int, int]:
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        command, env=paths | environment, capture_output=True, text=True, check=True
    )
    kept, pages = done.stdout.split()
    return int(kept), int(pages)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs glibc")
def test_freed_memory_is_reused_without_page_faults() -> None:
    kept, pages = faults()
    if not kept:
        pytest.skip("another C library")
    assert pages < 100


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"])
def test_the_users_malloc_settings_stay(name: str) -> None:
    kept, _ = faults(**{name: {"GLIBC_TUNABLES": "glibc.malloc.arena_max=2"}.get(name, "1000000")})
    assert not kept


GROWTH = """
import re, sys
import torch
from torch.nn.functional import linear
from dialog.training.optimization.allocator import bound_kernel_caches
from dialog.training.optimization.precision import matmul_speed
if sys.argv[1] == "bounded":
    matmul_speed()  # measures, with an empty cache
    bound_kernel_caches()
def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
weight = torch.ones(512, 512, dtype=torch.bfloat16)
for rows in range(500, 2000, 5):
    linear(torch.ones(rows, 512, dtype=torch.bfloat16), weight)
    if rows == 1000:
        before = resident()
print(resident() - before)
"""


def growth(mode: str, cache: Path) -> float:
    environment = {name: value for name, value in os.environ.items() if name not in CACHES}
    environment |= {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "OMP_NUM_THREADS": "1",
        "DIALOG_CACHE": str(cache),
    }
    # constant: tensors take no memory once they are freed
    environment["MALLOC_MMAP_THRESHOLD_"] = "65536"
    command = [sys.executable, "-c", GROWTH, mode]
    return float(
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    )


# oneDNN caches such kernels only with bfloat16 in hardware; memory is read from Linux's /proc
@pytest.mark.endurance
@pytest.mark.skipif(
    not (sys.platform.startswith("linux") and has_bfloat16("cpu")),
    reason="needs Linux and a CPU with bfloat16",
)
def test_kernels_of_old_shapes_are_evicted(tmp_path: Path) -> None:
    assert growth("bounded", tmp_path) < growth("unbounded", tmp_path) / 2


@pytest.mark.parametrize("name", CACHES)
def test_the_users_cache_capacity_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in CACHES:
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(name, "1024")
    bound_kernel_caches()
    assert [os.environ[each] for each in CACHES] == [
        "1024" if each == name else KERNELS for each in CACHES
    ]


def test_attention_on_a_gpu_leaves_out_cudnn() -> None:
    before = torch.backends.cuda.cudnn_sdp_enabled()
    try:
        torch.backends.cuda.enable_cudnn_sdp(True)
        tune_process()
        assert not torch.backends.cuda.cudnn_sdp_enabled()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)
