"""Three hosts for the tests of a file, each with an sshd."""

import re

import pytest

from tests.machines.hosts import Hosts, why_not


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    refused = why_not()
    if refused:
        pytest.skip(refused)
    with Hosts(["a", "b", "c"], tmp_path_factory.mktemp("hosts")) as made:
        yield made


@pytest.fixture
def own_hosts(tmp_path):
    """Hosts of a test's own: some of them do not survive it."""
    refused = why_not()
    if refused:
        pytest.skip(refused)
    with Hosts(["a", "b", "c"], tmp_path) as made:
        yield made


@pytest.fixture
def folder(hosts, request):
    """A folder that all hosts see."""
    made = hosts.folder / re.sub(r"\W+", "-", request.node.name)
    made.mkdir()
    return made


@pytest.fixture(scope="module")
def named(hosts):
    """The hosts, each of which finds the others by name: torchrun tells names."""
    hosts.know_names()
    return hosts
