"""What a panel is, and what it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from PySide6.QtWidgets import QWidget

from primus_studio.document.state import StudyDocument
from primus_studio.panels.turns import Turns
from primus_studio.services.aside import AsideService
from primus_studio.services.benchmark import BenchmarkService
from primus_studio.services.engine import EngineService


@dataclass(frozen=True, slots=True)
class PanelContext:
    """All that a panel may talk to: the open study, the engine, and what answers longer questions. Never another panel."""

    document: StudyDocument
    engine: EngineService
    turns: Turns = field(default_factory=Turns)  # in which panels draw the engine's answers
    benchmark: BenchmarkService = field(default_factory=BenchmarkService)  # measures on local devices
    aside: AsideService = field(default_factory=AsideService)  # longer questions than a projection


@dataclass(frozen=True, slots=True)
class Panel:
    """One entry of the table of panels."""

    id: str                                     # stable: part of saved layouts and of `screenshot --panel`
    title: str
    icon: str                                   # a name of `theme.icons`
    shortcut: str                               # brings it to the front
    says: str                                   # one line for help, palette and tooltips
    create: Callable[[PanelContext], QWidget]
