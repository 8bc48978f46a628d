"""Panel: nodes, network and accelerator."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from primus_studio.panels.editor import Editor
from primus_studio.widgets.form_fields import form_fields
from primus_studio.widgets.forms import Form, Group
from primus_studio.widgets.library_box import LibraryBox
from projectors.inputs import library
from projectors.inputs.changing import follows_network
from projectors.inputs.cluster import ClusterSpec, Tier
from projectors.inputs.hardware import Efficiency, FrameworkOverhead, HardwareProfile, PeakThroughput
from projectors.inputs.study import Study

if TYPE_CHECKING:
    from primus_studio.panels.panel import PanelContext

USUAL = "usual of the accelerator"
"""What a cluster without a named network shows while its tiers are the usual ones."""

TIER_SAYS = "A level of the network; tier 1 is the innermost"

STATED = "as stated below"


def create(context: PanelContext) -> QWidget:
    """The panel, editing the cluster of the document of `context`."""
    cluster = LibraryBox(
        "Start from", "A cluster of the library, HARDWARE-NODESxGPUS such as h200-16x8, or the path of one",
        library.names("clusters"),
    )
    hardware = LibraryBox("Accelerator", "A hardware profile of the library, or the path of one", library.names("hardware"))
    network = LibraryBox(
        "Network", "A network of the library, or the path of one; it brings its tiers", [USUAL, *library.names("networks")]
    )

    def show(study: Study, _form: Form) -> None:
        spec = study.cluster
        cluster.show_name(spec.name, f"{spec.gpus:,} GPUs")
        hardware.show_name(spec.hardware.name, "\n".join((spec.hardware.title, *spec.hardware.notes)))
        network.show_name(spec.network or (USUAL if follows_network(spec) else STATED))

    panel = Editor(context, lambda study: cluster_groups(len(study.cluster.tiers)),
                   [cluster, hardware, network], show, source)
    cluster.chosen.connect(lambda name: panel.choose(cluster, "cluster", name, f"Start from {name}"))
    hardware.chosen.connect(lambda name: panel.choose(hardware, "cluster.hardware", name, f"Change the accelerator to {name}"))
    network.chosen.connect(
        lambda name: panel.choose(network, "cluster.network", None if name == USUAL else name, f"Change the network to {name}")
    )
    return panel


@lru_cache(maxsize=32)
def cluster_groups(tiers: int) -> tuple[Group, ...]:
    """The form of a cluster with so many network tiers."""
    spec, hardware = form_fields(ClusterSpec, "cluster"), form_fields(HardwareProfile, "cluster.hardware")
    levels = tuple(
        Group(f"Network tier {place + 1}", tuple(form_fields(Tier, f"cluster.tiers[{place}]").values()), says=TIER_SAYS)
        for place in range(tiers)
    )
    nested = ((PeakThroughput, "peak_tflops"), (Efficiency, "efficiency"), (FrameworkOverhead, "framework"))
    titles = {name: HardwareProfile.model_fields[name].description or name for _, name in nested}
    details = tuple(Group(titles[name], tuple(form_fields(model, f"cluster.hardware.{name}").values())) for model, name in nested)
    return (
        Group("Cluster", tuple(field for name, field in spec.items() if name != "network")),
        *levels,
        Group("Accelerator figures", tuple(hardware.values()), folded=True, groups=details),
    )


def source(study: Study, path: str) -> str:
    """Where a figure of the cluster comes from, empty where nothing is noted."""
    spec = study.cluster
    inner = path.removeprefix("cluster.")
    if inner.startswith("hardware."):
        return spec.hardware.sources.get(inner.removeprefix("hardware."), "")
    if inner.startswith("tiers["):
        place, _, name = inner.removeprefix("tiers[").partition("].")
        return spec.tiers[int(place)].sources.get(name, "")
    return ""
