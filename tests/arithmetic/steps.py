"""A step and a link whose arithmetic can be done in one's head."""

from paceline.arithmetic.network import PAYLOAD_SHARE, LinkRate
from paceline.arithmetic.step import ComputeStep

MB = 1_000_000
# Carries 100 MB of payload per second.
LINK = LinkRate(bits_per_s=8 * 100 * MB / PAYLOAD_SHARE)
# One second; the last layer's 100 MB are ready after 0.6 s, the first one's 20 MB at the end.
STEP = ComputeStep.of([(0.2, 0.4, 20 * MB), (0.2, 0.2, 100 * MB)])
