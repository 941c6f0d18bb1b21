"""Memory in large pages, where the kernel gives them."""

from __future__ import annotations

import mmap


def ask_for(memory: mmap.mmap) -> None:
    """Ask the kernel to use large pages for memory that is read and written here and there.

    A table of many small rows then takes one page fault per 2 MB rather than per 4 KB, and fewer
    of its addresses have to be looked up. A kernel that has none says so, or does nothing.
    """
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if advice is None:
        return
    try:
        memory.madvise(advice)
    except OSError:
        return


def zeros(num_bytes: int) -> mmap.mmap:
    """Give memory of this process alone, all zero; it takes no room before somebody writes."""
    memory = mmap.mmap(-1, max(1, num_bytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    ask_for(memory)
    return memory
