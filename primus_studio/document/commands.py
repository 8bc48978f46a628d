"""Undo commands: what an edit was, in words."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, get_args

from PySide6.QtGui import QUndoCommand

from projectors.inputs.describe import Frozen, field_title
from projectors.inputs.study import Study

MERGE_SECONDS = 0.8
"""Edits of one field that follow each other faster than this are one step: a dragged or held spin box."""

EDIT_COMMAND = 1
"""Qt merges commands of equal, non-negative id only."""

WHOLE_STUDY = -1


class Change(QUndoCommand):
    """One study in place of another."""

    def __init__(self, show: Callable[[Study, str], None], before: Study, after: Study, path: str, words: str) -> None:
        super().__init__(words)
        self._show, self._before = show, before
        self.after, self.path, self.when = after, path, time.monotonic()

    def undo(self) -> None:
        """Show the study as it was."""
        self._show(self._before, self.path)

    def redo(self) -> None:
        """Show the study as edited."""
        self._show(self.after, self.path)

    def id(self) -> int:
        """Only edits of a field may merge."""
        return EDIT_COMMAND if self.path else WHOLE_STUDY

    def mergeWith(self, other: QUndoCommand) -> bool:
        """Take a quick further edit of the same field into this step."""
        if not isinstance(other, Change) or other.path != self.path or other.when - self.when > MERGE_SECONDS:
            return False
        self.after, self.when = other.after, other.when
        self.setText(other.text())
        self.setObsolete(self.after == self._before)
        return True


def edit_words(path: str, value: Any) -> str:
    """Name of an edit, such as `Set tensor parallel (tp) to 4`, from the field's own title."""
    title = title_of(path)
    if isinstance(value, bool):
        return f"Switch {title} {'on' if value else 'off'}"
    if value is None:
        return f"Reset {title}"
    if isinstance(value, (int, float, str)) and len(str(value)) <= MOST_SHOWN:
        return f"Set {title} to {value}"
    return f"Change {title}"


MOST_SHOWN = 24
"""Characters of a value that still fit a menu entry."""


def title_of(path: str) -> str:
    """Title of the field at a dotted path of a study, in small letters but for acronyms; the key where none is known."""
    model: type[Frozen] | None = Study
    title = path
    for key in path.split("."):
        name = key.partition("[")[0]
        field = model.model_fields.get(name) if model else None
        if field is None:
            return key.replace("_", " ")
        title = field_title(name, field)
        options = (field.annotation, *get_args(field.annotation))
        models = [option for option in options if isinstance(option, type) and issubclass(option, Frozen)]
        model = models[0] if models else None
    first = title.split(" ", 1)[0]
    return title if first.isupper() or not first[:1].isupper() else title[:1].lower() + title[1:]
