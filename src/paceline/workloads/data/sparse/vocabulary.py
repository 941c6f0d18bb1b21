"""Numbers for features as they come: each new one gets the next."""

from __future__ import annotations

from typing import final

import numpy as np

from paceline.workloads.data.sparse.examples import Array

# New keys are merged into the others when they are this many, or a quarter of them.
_LEAST_MERGED = 1 << 18


@final
class FeatureVocabulary:
    """Keys of features, numbered from 0 on in the order in which blocks of rows bring them.

    Memory follows the number of different features, 12 bytes each, not the number of rows.
    """

    def __init__(self, keys: Array) -> None:
        """Begin with keys that have their numbers already: 0, 1, 2 and so on."""
        self._size = len(keys)
        order = np.argsort(keys)
        self._old = _Sorted(keys[order], order.astype(np.uint32))
        self._new = _Sorted(np.zeros(0, np.uint64), np.zeros(0, np.uint32))

    def __len__(self) -> int:
        return self._size

    def numbers(self, keys: Array) -> tuple[Array, Array]:
        """Give the number of each key, and the keys that are new, in the order of their numbers."""
        found, inverse = np.unique(keys, return_inverse=True)
        numbers, is_known = self._old.look_up(found)
        recent, is_recent = self._new.look_up(found)
        numbers = np.where(is_known, numbers, recent)
        is_new = ~(is_known | is_recent)
        added = found[is_new]
        numbers[is_new] = np.arange(self._size, self._size + len(added), dtype=np.uint32)
        self._size += len(added)
        self._new = self._new.with_more(added, numbers[is_new])
        if len(self._new.keys) > max(_LEAST_MERGED, len(self._old.keys) // 4):
            self._old = self._old.with_more(self._new.keys, self._new.numbers)
            self._new = _Sorted(np.zeros(0, np.uint64), np.zeros(0, np.uint32))
        return numbers[inverse.reshape(keys.shape)], added


@final
class _Sorted:
    """Keys in ascending order, and their numbers."""

    def __init__(self, keys: Array, numbers: Array) -> None:
        self.keys = keys
        self.numbers = numbers

    def look_up(self, keys: Array) -> tuple[Array, Array]:
        """The numbers of these keys, and which are there at all."""
        if not len(self.keys):
            return np.zeros(len(keys), np.uint32), np.zeros(len(keys), bool)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return self.numbers[places], self.keys[places] == keys

    def with_more(self, keys: Array, numbers: Array) -> _Sorted:
        """Merge ascending keys in."""
        places = np.searchsorted(self.keys, keys)
        return _Sorted(np.insert(self.keys, places, keys), np.insert(self.numbers, places, numbers))
