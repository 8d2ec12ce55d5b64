"""What delays copying: interventions, and paired experiments that measure how they move the clocks and the window."""

from twoclocks.core.discovery import import_all
from twoclocks.widen import interventions
from twoclocks.widen.experiment import PairedExperiment, plan_experiment, run_experiment
from twoclocks.widen.findings import Findings, read_findings
from twoclocks.widen.intervention import INTERVENTIONS, Intervention, choose_interventions

import_all(interventions)

__all__ = [
    "INTERVENTIONS",
    "Findings",
    "Intervention",
    "PairedExperiment",
    "choose_interventions",
    "plan_experiment",
    "read_findings",
    "run_experiment",
]
