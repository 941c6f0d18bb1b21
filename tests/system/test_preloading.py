"""A library loaded beside Python's own imports is there, and what cannot be loaded is no error."""

import subprocess
import sys
import threading

from paceline.system.preloading import Preloading

_LOOK = """
from paceline.system.preloading import Preloading
preloading = Preloading("torch", "lib/libtorch_cpu.so")
preloading.wait()
import sys
assert "torch" not in sys.modules
with open("/proc/self/maps") as file:
    print("libtorch_cpu.so" in file.read())
import torch
print(torch.ones(2).sum().item())
"""


def test_a_library_is_loaded_before_its_package_is_imported():
    done = subprocess.run(
        [sys.executable, "-c", _LOOK], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["True", "2.0"]


def test_what_is_not_there_is_left_to_the_import():
    before = threading.active_count()
    for package, library in (("no_such_package", "lib.so"), ("json", "no_such_library.so")):
        preloading = Preloading(package, library)
        preloading.wait()
        preloading.wait()
    assert threading.active_count() == before
