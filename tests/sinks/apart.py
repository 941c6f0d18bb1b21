"""A cluster whose seats are processes of this machine, and do not see the run's folder."""

from paceline.clusters.base import Cluster, Crew, Job
from paceline.clusters.crew import KeptCrew


class Apart(Cluster):
    """As `local`, but all that a seat keeps goes to the driver over its line."""

    def start(self, job: Job) -> Crew:
        orders = job.orders(medium="unix", encrypts=False, sees_folder=False)
        return KeptCrew(job, orders, shares_memory=True)
