"""A form made from typed models: groups of labelled controls that show a model and say what the user changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import BaseModel
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QToolButton, QVBoxLayout, QWidget

from primus_studio.theme.fonts import Size, sized
from primus_studio.theme.icons import icon
from primus_studio.theme.tokens import SPACE
from primus_studio.widgets.form_controls import CheckBox, ChoicesBox, control_for
from primus_studio.widgets.form_fields import FormField, value_at
from primus_studio.widgets.form_number import LegalValues
from primus_studio.widgets.form_row import Reason, Row

LABEL_SHARE = 0.57
"""Most of the width that labels take; longer ones are cut."""

ROW_GAP = 3
"""Between the rows of a group, in device-independent pixels."""

INDENT = SPACE
"""Of what stands inside a group."""

MORE = "More"
"""Title of the folded part that holds the advanced fields of a group."""


@dataclass(frozen=True, slots=True)
class Group:
    """A titled part of a form. With `part`, the path of a model that may be null, a check box makes or removes it."""

    title: str
    fields: tuple[FormField, ...]
    folded: bool = False
    part: str = ""
    says: str = ""
    groups: tuple[Group, ...] = ()  # inside this one


class Header(QToolButton):
    """Title of a group that folds it."""

    def __init__(self, title: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setText(title)
        self.setAccessibleName(title)
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setFont(sized(self.font(), Size.BODY, bold=title != MORE))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)


class Section(QWidget):
    """One group on screen: its header, its rows, the groups inside it."""

    part_switched = Signal(str, bool)

    def __init__(self, group: Group, rows: Iterable[Row], inner: Sequence[Section], level: int) -> None:
        super().__init__()
        self.group, self.rows, self.inner, self.level = group, list(rows), list(inner), level
        self.body = QWidget(self)
        self.header = self._part_switch() if group.part else self._fold_button()
        self.header.setToolTip(group.says)
        self.header.setAccessibleDescription(group.says)
        self.grid = QGridLayout()
        self.grid.setHorizontalSpacing(SPACE)
        self.grid.setVerticalSpacing(ROW_GAP)
        self.grid.setColumnStretch(1, 1)
        for place, row in enumerate(self.rows):
            self._add(row, 3 * place)
        content = QVBoxLayout(self.body)
        content.setContentsMargins(INDENT, 0, 0, SPACE // 2)
        content.setSpacing(SPACE // 2)
        content.addLayout(self.grid)
        for section in self.inner:
            content.addWidget(section)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(SPACE // 4)
        top = QHBoxLayout()
        top.setContentsMargins(INDENT if group.part else 0, 0, 0, 0)
        top.addWidget(self.header)
        top.addStretch(1)
        layout.addLayout(top)
        self.reason = Reason(group.title, lambda _nearest: None, self)
        layout.addWidget(self.reason)
        layout.addWidget(self.body)
        self._unfold(not group.folded)

    @property
    def unfolded(self) -> bool:
        """Whether the rows are to be seen."""
        return not self.body.isHidden()

    def reveal(self) -> None:
        """Unfold."""
        self._unfold(True)

    def show_part(self, present: bool) -> None:
        """Show whether the part of the model is there."""
        if isinstance(self.header, CheckBox):
            self.header.setChecked(present)
            self.body.setVisible(present)
            self.reason.say("", None)

    def sections_below(self) -> Iterator[Section]:
        """The section and those inside it."""
        yield self
        for section in self.inner:
            yield from section.sections_below()

    def rows_below(self) -> list[Row]:
        """Rows of the section and of those inside it."""
        return [row for section in self.sections_below() for row in section.rows]

    def label_widths(self) -> Iterator[int]:
        """Width that each label below takes, with its indent."""
        for section in self.sections_below():
            yield from (row.label.sizeHint().width() + section.level * INDENT for row in section.rows if not _is_wide(row))

    def _add(self, row: Row, line: int) -> None:
        if isinstance(row.control, ChoicesBox):
            self.grid.addWidget(row.label, line, 0, 1, 2)
            self.grid.addWidget(row.outline, line + 1, 0, 1, 2)
        else:
            self.grid.addWidget(row.label, line, 0)
            self.grid.addWidget(row.outline, line, 1)
        self.grid.addWidget(row.reason, line + 2, 0, 1, 2)

    def _fold_button(self) -> QToolButton:
        button = Header(self.group.title, self)
        button.clicked.connect(lambda: self._unfold(not self.unfolded))
        return button

    def _part_switch(self) -> CheckBox:
        box = CheckBox(self.group.title, self)
        box.setFont(sized(box.font(), Size.BODY, bold=True))
        box.setAccessibleName(self.group.title)
        box.clicked.connect(lambda wanted: self.part_switched.emit(self.group.part, wanted))
        return box

    def _unfold(self, unfolded: bool) -> None:
        self.body.setVisible(unfolded)
        if isinstance(self.header, QToolButton):
            self.header.setIcon(icon("chevron-down" if unfolded else "chevron-right"))


class Form(QWidget):
    """Groups of fields of a study. Knows no document: says what was edited, shows what it is given.

    `edited` carries a dotted path and plain data, as typed: whether it is legal is for others to say, with `show_problem`.
    `part_switched` carries the path of an optional part and whether it is wanted. `legal` is asked when a value is stepped.
    """

    edited = Signal(str, object)
    part_switched = Signal(str, bool)

    def __init__(self, groups: Sequence[Group] = (), legal: LegalValues | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._legal: LegalValues = legal or (lambda _path: None)
        self.rows: dict[str, Row] = {}
        self._made: dict[Group, Section] = {}
        self._ahead: dict[FormField, Row] = {}
        self._widest = 0
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(SPACE)
        self.arrange(groups)

    def arrange(self, groups: Sequence[Group]) -> None:
        """Show these groups in this order. Those made before are kept, so that coming and going costs nothing."""
        wanted = [self._made.get(group) or self._section(group, 1) for group in groups]
        self._made |= dict(zip(groups, wanted, strict=True))
        for place, section in enumerate(wanted):
            self._layout.insertWidget(place, section)
        for section in self._made.values():
            section.setVisible(section in wanted)
        self.rows = {row.field.path: row for section in wanted for row in section.rows_below()}
        self._widest = max((width for section in wanted for width in section.label_widths()), default=0)
        if self.rows:
            self.setFocusProxy(next(iter(self.rows.values())).control)
        self._align()

    def make_ahead(self, groups: Sequence[Group]) -> Iterator[None]:
        """Make what groups consist of before they are shown, a line of the form or a group at each step."""
        for group in groups:
            if group not in self._made:
                for field in _fields(group):
                    if field not in self._ahead:
                        self._ahead[field] = self._make_row(field)
                        yield
                self._made[group] = section = self._section(group, 1)
                section.hide()
                self._layout.addWidget(section)
                yield

    @property
    def sections(self) -> list[Section]:
        """Every group on screen, those inside others too."""
        shown = [section for section in self._made.values() if not section.isHidden()]
        return [below for section in shown for below in section.sections_below()]

    def show_value(self, root: BaseModel) -> None:
        """Show the values of a study at the fields' paths."""
        for section in self.sections:
            if section.group.part:
                section.show_part(value_at(root, section.group.part) is not None)
        for path, row in self.rows.items():
            value = value_at(root, path)
            if value is not None or row.field.null is not None:
                row.control.show_value(value)

    def show_problem(self, path: str, words: str, nearest: object | None = None) -> None:
        """Say under a field what is wrong with it, and unfold what hides it."""
        row = self.rows[path]
        row.say(words, nearest)
        if words:
            for section in self.sections:
                if not section.group.part and row in section.rows_below():
                    section.reveal()

    def show_part_problem(self, path: str, words: str) -> None:
        """Say under the title of an optional part why it could not be added or removed."""
        for section in self.sections:
            if section.group.part == path:
                section.reason.say(words, None)

    def enable(self, path: str, enabled: bool) -> None:
        """Let a field be edited, or show that it means nothing beside the other values."""
        self.rows[path].label.setEnabled(enabled)
        self.rows[path].label.set_role("text" if enabled else "muted")
        self.rows[path].control.setEnabled(enabled)

    def show_sources(self, sources: Callable[[str], str]) -> None:
        """Put where each figure comes from into the tooltips; `sources` answers a path with words or nothing."""
        for path, row in self.rows.items():
            row.explain(sources(path))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Labels of all groups end on one line."""
        super().resizeEvent(event)
        self._align()

    def _align(self) -> None:
        width = min(self._widest, int(self.width() * LABEL_SHARE))
        for section in self.sections:
            for row in section.rows:
                if not _is_wide(row):
                    row.label.setFixedWidth(max(width - section.level * INDENT, 1))

    def _section(self, group: Group, level: int) -> Section:
        plain = [field for field in group.fields if not field.advanced]
        advanced = tuple(field for field in group.fields if field.advanced)
        if not plain:
            plain, advanced = list(advanced), ()
        folded = (Group(MORE, advanced, folded=True),) if advanced else ()
        inner = [self._section(within, level + 1) for within in (*group.groups, *folded)]
        section = Section(group, [self._row(field) for field in plain], inner, level)
        section.part_switched.connect(self.part_switched)
        return section

    def _row(self, field: FormField) -> Row:
        return self._ahead.pop(field, None) or self._make_row(field)

    def _make_row(self, field: FormField) -> Row:
        tell = partial(self._tell, field.path)
        control = control_for(field, self._legal)
        control.edited.connect(tell)
        return Row(field, control, tell)

    def _tell(self, path: str, value: Any) -> None:
        self.edited.emit(path, value)


def _fields(group: Group) -> Iterator[FormField]:
    yield from group.fields
    for inner in group.groups:
        yield from _fields(inner)


def _is_wide(row: Row) -> bool:
    return isinstance(row.control, ChoicesBox)
