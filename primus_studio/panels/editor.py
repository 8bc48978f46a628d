"""What all editor panels do: a form follows the document, edits go to it, faults stand beside their fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QStackedWidget, QVBoxLayout, QWidget

from primus_studio.panels.state_pane import Notice
from primus_studio.services.projection_state import ProjectionState, Status
from primus_studio.theme.tokens import SPACE
from primus_studio.widgets.form_controls import TextBox
from primus_studio.widgets.form_fields import FormField, Kind, value_at
from primus_studio.widgets.form_number import NumberBox
from primus_studio.widgets.forms import Form, Group
from primus_studio.widgets.library_box import LibraryBox
from projectors.inputs.errors import InputError
from projectors.inputs.study import Study
from projectors.legality import Violation, legal_values

if TYPE_CHECKING:
    from primus_studio.panels.panel import PanelContext

Companions = Callable[[Study, str, Any], Mapping[str, Any]]
"""Paths and values that an edit sets beside its own, in the same undo step."""

NOTHING_OPEN = "No study is open. Open one or make one with File → New."


class Editor(QStackedWidget):
    """A scrolling form over a part of the study.

    `groups` answers a study with the form's groups. `head` stands above the form, `show` draws a study into it. `sources`
    answers a study and a path with where the figure comes from. `on_switch` adds or removes an optional part; `companions`
    names what an edit sets beside its own value.
    """

    def __init__(
        self,
        context: PanelContext,
        groups: Callable[[Study], tuple[Group, ...]],
        head: Sequence[QWidget],
        show: Callable[[Study, Form], None],
        sources: Callable[[Study, str], str] | None = None,
        on_switch: Callable[[str, bool], None] | None = None,
        companions: Companions = lambda _study, _path, _value: {},
    ) -> None:
        super().__init__()
        self._context, self._groups, self._show, self._sources = context, groups, show, sources
        self._companions = companions
        self._study: Study | None = None
        self._seen, self._stale = True, False
        self._arranged: tuple[Group, ...] = ()
        self._refused: set[str] = set()
        self._judged: list[Violation] = []
        self.form = Form(legal=self._legal)
        self.form.edited.connect(lambda path, value: self.edit(path, self._meant(path, value)))
        if on_switch is not None:
            self.form.part_switched.connect(on_switch)
        self._content = QWidget()
        self._layout = QVBoxLayout(self._content)
        self._layout.setContentsMargins(SPACE, SPACE, SPACE, SPACE)
        self._layout.setSpacing(SPACE)
        for widget in head:
            self._layout.addWidget(widget)
        self._layout.addWidget(self.form)
        self._layout.addStretch(1)
        scroll = QScrollArea(self)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setWidgetResizable(True)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(self._content)
        self._nothing = Notice(self)
        self._nothing.say("info", "muted", NOTHING_OPEN)
        self._nothing.words.setAccessibleName(NOTHING_OPEN)
        self.addWidget(self._nothing)
        self.addWidget(scroll)
        self.setFocusProxy(self.form)
        context.document.study_changed.connect(self._study_changed)
        context.engine.state_changed.connect(self._judge)
        self._study_changed(context.document.study, "")
        self._judge(context.engine.state)

    def edit(self, path: str, value: Any, words: str | None = None) -> InputError | None:
        """Ask the document; a fault is said beside the field where the form has it."""
        if self._study is None:
            return None
        error = self._context.document.edit(path, value, words, self._companions(self._study, path, value))
        if error is not None:
            self._refuse(path, error)
        elif self._context.document.study is self._study:
            self._refused.discard(path)  # nothing changed: what was typed means what was there
            self.form.show_value(self._study)
            self._mark()
        return error

    def choose(self, box: LibraryBox, path: str, name: object, words: str) -> None:
        """Put a profile of the library in place, in one undo step; a fault is said under its box."""
        error = self._context.document.edit(path, name, words)
        if error is not None:
            box.say(fault_words(path, error), next((problem.suggestion for problem in error.problems), None))
        elif self._study is not None:
            self._show(self._study, self.form)

    def _study_changed(self, study: Study | None, _path: str) -> None:
        self._study = study
        self._refused.clear()
        self._stale = not self._seen
        if self._seen:
            self._catch_up()
        elif study is not None:
            self._make_ahead(self.form.make_ahead(self._groups(study)))

    def _make_ahead(self, steps: Iterator[None]) -> None:
        """Make the form while nobody waits for it, a line in each turn of the event loop."""
        if next(steps, self) is None:
            self._context.turns.later(self.form, lambda: self._make_ahead(steps))

    def be_seen(self, seen: bool) -> None:
        """Whether the panel can be looked at. Behind a tab it costs nothing, and follows the study once it is in front."""
        self._seen = seen
        if seen and self._stale:
            self._stale = False
            self._catch_up()

    def _catch_up(self) -> None:
        study = self._study
        if study is None:
            self.setCurrentIndex(0)
            return
        groups = self._groups(study)
        if groups is not self._arranged:
            self._arranged = groups
            self.form.arrange(groups)
        self.form.show_value(study)
        self._show(study, self.form)
        if self._sources is not None:
            sources = self._sources
            self.form.show_sources(lambda path: sources(study, path))
        self.setCurrentIndex(1)
        self._mark()

    def _legal(self, path: str) -> Sequence[int] | None:
        return legal_values(self._study, path) if self._study is not None else None

    def _meant(self, path: str, value: Any) -> Any:
        """Plain data for a value that a rule suggests in words."""
        words = {"true": True, "false": False}
        return words.get(value, value) if self.form.rows[path].field.kind is Kind.SWITCH and isinstance(value, str) else value

    def _refuse(self, path: str, error: InputError) -> None:
        if self._study is None:
            return
        row = self.form.rows.get(path)
        if row is None:
            self.form.show_value(self._study)
            self.form.show_part_problem(path, fault_words(path, error))
            return
        self._refused.add(path)
        if not isinstance(row.control, (NumberBox, TextBox)):  # what was typed stays for mending, a choice goes back
            row.control.show_value(value_at(self._study, path))
        self.form.show_problem(path, fault_words(path, error))

    def _judge(self, state: ProjectionState) -> None:
        """Mark what the engine found illegal; until it answers, the last marks stay."""
        if state.status is Status.BUSY:
            return
        illegal = state.status is Status.ILLEGAL and state.projection is not None
        self._judged = list(state.projection.violations) if illegal and state.projection is not None else []
        if not self._stale:
            self._mark()

    def _mark(self) -> None:
        found: dict[str, list[Violation]] = {}
        for violation in self._judged:
            found.setdefault(violation.fields[0], []).append(violation)
        for path in self.form.rows:
            if path not in self._refused:
                here = found.get(path, [])
                words = "\n".join(violation.reason for violation in here)
                self.form.show_problem(path, words, next((violation.nearest for violation in here), None))


def fault_words(path: str, error: InputError) -> str:
    """Why an edit was refused: what was found and what is allowed, with the key where it is another one."""
    return "\n".join(
        f"{'' if problem.where == path else f'{problem.where}: '}{problem.found} is not possible, allowed is {problem.allowed}"
        for problem in error.problems
    )


def rest(fields: dict[str, FormField], named: Sequence[str]) -> tuple[FormField, ...]:
    """Fields of a model that no group names, so that a new one is never lost."""
    return tuple(field for name, field in fields.items() if name not in named)
