"""Clusters: where the processes of a run live. A new one is one file and one line here.

- the seam: `base`; who sits on which node: `placing`
- any process becomes a seat: `sitting`, with its line (`seat_lines`) and its log (`printed`)
- keepers fork seats and end them: `keeper`, `minding`, `slowing`; the driver's side of them:
  `crew`, `kept`
- torch is imported once: `zygote`, then in its process `zygote_process` and `forking`
- nodes that are not this machine: `site` is the seam, `emulated` has namespaces with shaped links
- real machines: `agents`; a user's files travel as `luggage`, into `sent_folders`
- the clusters that need no more than a file: `inline`, `local`
"""

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
