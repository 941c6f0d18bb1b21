"""What torchrun's environment says, and what is wrong with it."""

import pytest

from paceline.clusters.agents.torchrun.place import forget_place, num_nodes, place_of
from paceline.errors import SpecError

TOLD = {
    "RANK": "1",
    "WORLD_SIZE": "3",
    "LOCAL_WORLD_SIZE": "1",
    "LOCAL_RANK": "0",
    "MASTER_ADDR": "a",
    "MASTER_PORT": "4711",
    "TORCHELASTIC_RUN_ID": "mine",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "TORCHELASTIC_MAX_RESTARTS": "0",
}


def test_a_process_knows_its_place():
    place = place_of(TOLD)
    assert (place.rank, place.num_nodes, place.node) == (1, 3, "node1")
    assert (place.store_host, place.store_port, place.run_id) == ("a", 4711, "mine")
    assert not place.hosts_store


def test_rank_0_keeps_the_store_where_torchrun_does_not():
    assert place_of(TOLD | {"RANK": "0", "TORCHELASTIC_USE_AGENT_STORE": "False"}).hosts_store
    assert not place_of(TOLD | {"TORCHELASTIC_USE_AGENT_STORE": "False"}).hosts_store
    assert not place_of(TOLD | {"RANK": "0"}).hosts_store


@pytest.mark.parametrize("missing", ["RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR"])
def test_without_torchrun_the_command_is_shown(missing):
    with pytest.raises(SpecError, match=f"no {missing}.*torchrun --nnodes N --nproc-per-node 1"):
        place_of({key: value for key, value in TOLD.items() if key != missing})


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"LOCAL_WORLD_SIZE": "2"}, "--nproc-per-node = '2'.*--nproc-per-node 1"),
        ({"TORCHELASTIC_MAX_RESTARTS": "3"}, "--max-restarts = '3'.*--max-restarts 0"),
        ({"MASTER_PORT": "http"}, "MASTER_PORT = 'http': not a number"),
    ],
)
def test_what_cannot_work_is_named(wrong, says):
    with pytest.raises(SpecError, match=says):
        place_of(TOLD | wrong)


@pytest.mark.parametrize(("told", "number"), [("3", 3), ("", 1), ("0", 1), ("many", 1)])
def test_the_number_of_machines(told, number):
    assert num_nodes({"WORLD_SIZE": told}) == number


def test_workers_do_not_inherit_a_rank():
    environ = TOLD | {"HOME": "here", "TORCHELASTIC_ERROR_FILE": "there"}
    forget_place(environ)
    assert environ.keys() == {"HOME", "TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_MAX_RESTARTS"}
