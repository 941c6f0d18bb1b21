"""Workloads: model, data, loss and metric. A new one is one file and one line here."""

from paceline.catalogue import Catalogue, Entry

WORKLOADS = Catalogue(
    "workload",
    "paceline.workloads.base:Workload",
    {
        "logistic-mnist": Entry("paceline.workloads.mnist:LogisticMnist"),
        "lenet-mnist": Entry("paceline.workloads.mnist:LenetMnist"),
        "logistic-criteo": Entry("paceline.workloads.criteo:LogisticCriteo"),
        "logistic-libsvm": Entry("paceline.workloads.libsvm:LogisticLibsvm"),
        "synthetic": Entry("paceline.workloads.synthetic:Synthetic"),
    },
)
