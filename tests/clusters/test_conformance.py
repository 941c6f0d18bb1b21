from paceline.clusters.inline import Inline
from paceline.clusters.local import Local
from paceline.testing import ClusterConformance


class TestInline(ClusterConformance):
    cluster = Inline()


class TestLocal(ClusterConformance):
    cluster = Local()
