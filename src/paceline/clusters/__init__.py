"""Clusters: where the processes of a run live. A new one is one file and one line here."""

from paceline.catalogue import Catalogue, Entry

CLUSTERS = Catalogue(
    "cluster",
    "paceline.clusters.base:Cluster",
    {
        "local": Entry("paceline.clusters.local:Local"),
        "emulated": Entry("paceline.clusters.emulated.describe:Emulated"),
        "inline": Entry("paceline.clusters.inline:Inline"),
    },
)
