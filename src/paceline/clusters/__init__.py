"""Clusters: where the processes of a run live. A new one is one file and one line here."""

from paceline.catalogue import Catalogue, Entry

CLUSTERS = Catalogue(
    "cluster",
    "paceline.clusters.base:Cluster",
    {
        "local": Entry("paceline.clusters.local:Local"),
        "emulated": Entry("paceline.clusters.emulated.describe:Emulated"),
        "ssh": Entry("paceline.clusters.agents.ssh:Ssh"),
        "torchrun": Entry("paceline.clusters.agents.torchrun.describe:Torchrun"),
        "ray": Entry("paceline.clusters.agents.ray.describe:Ray"),
        "manual": Entry("paceline.clusters.agents.manual.describe:Manual"),
        "inline": Entry("paceline.clusters.inline:Inline"),
    },
)
