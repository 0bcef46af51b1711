"""Let faults loose on topologies, and count what is lost, doubled or wrong.

from penstock.testing import chaos

check = chaos.Check("my-topology", build)                 # build(folder) -> Topology
report = chaos.run_matrix(chaos.SCENARIOS, [check], seconds=120)
print(report.table())
assert not report.red
"""

from penstock.testing.chaos.checks import Check
from penstock.testing.chaos.cluster import StandaloneCluster
from penstock.testing.chaos.endings import Ending
from penstock.testing.chaos.families import FAMILIES
from penstock.testing.chaos.faults import Fault
from penstock.testing.chaos.matrix import run_matrix
from penstock.testing.chaos.oracle import Difference, compare
from penstock.testing.chaos.report import Report
from penstock.testing.chaos.scenarios import SCENARIOS
from penstock.testing.chaos.schedules import Scenario, Schedule
from penstock.testing.chaos.trial import Outcome

__all__ = [
    "FAMILIES",
    "SCENARIOS",
    "Check",
    "Difference",
    "Ending",
    "Fault",
    "Outcome",
    "Report",
    "Scenario",
    "Schedule",
    "StandaloneCluster",
    "compare",
    "run_matrix",
]
