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
        "alexnet-cifar10": Entry("paceline.workloads.cifar:AlexnetCifar10"),
        "vgg16-cifar10": Entry("paceline.workloads.cifar:VggCifar10", {"depth": 16}),
        "vgg19-cifar10": Entry("paceline.workloads.cifar:VggCifar10", {"depth": 19}),
        "resnet50-cifar10": Entry("paceline.workloads.cifar:ResnetCifar10", {"depth": 50}),
        "resnet152-cifar10": Entry("paceline.workloads.cifar:ResnetCifar10", {"depth": 152}),
        "resnet20-cifar10": Entry("paceline.workloads.cifar:Resnet20Cifar10"),
        "imagefolder": Entry("paceline.workloads.imagefolder:ImageFolder"),
        "synthetic": Entry("paceline.workloads.synthetic:Synthetic"),
    },
    whole_file=Entry("paceline.workloads.script:Script"),
)
