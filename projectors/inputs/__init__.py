"""The four inputs as frozen typed models, and how they are loaded, changed and saved."""
from __future__ import annotations

from projectors.inputs.cluster import ClusterSpec, NetworkProfile, Tier, Topology
from projectors.inputs.errors import InputError, InputProblem
from projectors.inputs.hardware import HardwareProfile, Precision
from projectors.inputs.loading import load_study
from projectors.inputs.model_card import ModelCard
from projectors.inputs.recipe import Recipe
from projectors.inputs.study import Study

__all__ = [
    "ClusterSpec", "HardwareProfile", "InputError", "InputProblem", "ModelCard", "NetworkProfile", "Precision",
    "Recipe", "Study", "Tier", "Topology", "load_study",
]
