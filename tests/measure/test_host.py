from __future__ import annotations

import os

from paceline.measure.environment import disk_seconds
from paceline.measure.host import HostUse


class TestHostUse:
    def test_a_disk_is_counted_on(self, tmp_path):
        before = disk_seconds()
        with (tmp_path / "file").open("wb") as file:
            file.write(os.urandom(1 << 20))
            file.flush()
            os.fsync(file.fileno())
        now = disk_seconds()
        assert now.keys() == before.keys()
        assert all(now[name] >= before[name] for name in now)

    def test_cores_and_disks_are_told_as_parts_of_a_hundred(self):
        use = HostUse()
        sum(range(2_000_000))
        cpu = use.cpu_percent()
        assert cpu is None or 0 <= cpu <= 100
        assert all(0 < each <= 100 for each in use.disk_percent().values())
