"""Large pages are asked for; without them memory is the same."""

import mmap

from paceline.system import huge_pages


def test_memory_is_zero_and_can_be_written():
    memory = huge_pages.zeros(3 << 20)
    assert len(memory) == 3 << 20
    assert memory[:10] == bytes(10)
    memory[-1] = 7
    assert memory[-1] == 7


def test_none_at_all_is_given_too():
    assert len(huge_pages.zeros(0)) == 1


def test_a_kernel_that_refuses_is_no_error(monkeypatch):
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", 10_000, raising=False)
    assert len(huge_pages.zeros(4096)) == 4096
