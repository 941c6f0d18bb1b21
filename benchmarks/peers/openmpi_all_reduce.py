"""All-reduce of OpenMPI through mpi4py: seconds a call. To be started by mpiexec."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

from peers import all_reduce_options


def main() -> None:
    options = all_reduce_options.read(__doc__)
    world = MPI.COMM_WORLD
    if world.Get_size() != options.ranks:
        raise SystemExit(f"{world.Get_size()} ranks were started, not {options.ranks}")
    values = np.zeros(options.num_values, np.float32)
    times = all_reduce_options.time_calls(
        lambda: world.Allreduce(MPI.IN_PLACE, values), world.Barrier, options.iterations
    )
    if world.Get_rank() == 0:
        all_reduce_options.answer(times)


if __name__ == "__main__":
    main()
