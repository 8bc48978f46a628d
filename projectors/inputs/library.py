"""Profiles by name: listings, and each kind loaded by its name (or path)."""

from __future__ import annotations

from projectors.inputs.catalog import Entry, Kind, Origin, entries, find, names
from projectors.inputs.loading import load_cluster, load_framework, load_hardware, load_model, load_network, load_study

model = load_model
hardware = load_hardware
network = load_network
cluster = load_cluster
framework = load_framework
study = load_study

__all__ = [
    "Entry", "Kind", "Origin", "cluster", "entries", "find", "framework", "hardware", "model", "names", "network", "study",
]
