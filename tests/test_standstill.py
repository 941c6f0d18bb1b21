"""A machine that stands still is noticed; one that does not, is not."""

import time

import psutil

from tests.standstill import LATE_S, Standstills


def test_a_pause_is_noticed_and_can_be_forgotten():
    before = {each.pid for each in psutil.Process().children()}
    standstills = Standstills()
    (looking,) = (each for each in psutil.Process().children() if each.pid not in before)
    looking.suspend()  # as all are, when the machine is
    time.sleep(LATE_S + 0.5)
    looking.resume()
    stood_s = standstills.newest()
    standstills.close()
    assert max(stood_s) >= LATE_S
    assert not looking.is_running()
