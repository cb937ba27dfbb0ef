"""What is freed is kept, in a process of its own."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, resource
from dialog.training.allocator import keep_freed_memory
done = keep_freed_memory()
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
def filled():
    place = library.malloc(ctypes.c_size_t(2**26))
    ctypes.memset(place, 1, 2**26)
    library.free(ctypes.c_void_p(place))
filled()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
filled()
print(int(done), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(**environment: str) -> tuple[int, int]:
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=paths | environment, capture_output=True, text=True, check=True)
    kept, pages = done.stdout.split()
    return int(kept), int(pages)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's")
def test_a_large_tensor_that_is_freed_costs_the_next_one_no_page() -> None:
    kept, pages = faults()
    if not kept:
        pytest.skip("another C library")
    assert pages < 100


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"])
def test_what_the_user_has_set_stays(name: str) -> None:
    kept, _ = faults(**{name: {"GLIBC_TUNABLES": "glibc.malloc.arena_max=2"}.get(name, "1000000")})
    assert not kept
