"""The document: one immutable study; every edit is an undo command that replaces a part of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QUndoStack

from primus_studio.document.autosave import Autosave, Recovery
from primus_studio.document.commands import Change, edit_words
from primus_studio.document.watch import FileWatch
from projectors.inputs.changing import replace
from projectors.inputs.errors import InputError
from projectors.inputs.loading import load_study
from projectors.inputs.saving import save_study
from projectors.inputs.study import Study

UNTITLED = "untitled"


class StudyDocument(QObject):
    """The open study and its file. Whatever fails leaves the open study as it is and answers with the reason."""

    study_changed = Signal(object, str)  # the new study (None when closed) and the dotted path that changed, "" for all
    place_changed = Signal()             # file or unsaved mark changed
    file_changed = Signal()              # another program wrote the open file

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._study: Study | None = None
        self._path: Path | None = None
        self._title = UNTITLED
        self._autosave = Autosave(self)
        self._watch = FileWatch(self)
        self._watch.changed.connect(self.file_changed)
        self.undo_stack = QUndoStack(self)
        self.undo_stack.cleanChanged.connect(self._place_changed)

    @property
    def study(self) -> Study | None:
        """The open study."""
        return self._study

    @property
    def path(self) -> Path | None:
        """Where it is saved; None for a new or shipped study."""
        return self._path

    @property
    def dirty(self) -> bool:
        """Whether there is something to save."""
        return self._study is not None and not self.undo_stack.isClean()

    @property
    def title(self) -> str:
        """Name to show."""
        return self._title

    def edit(
        self, path: str, value: Any, words: str | None = None, also: Mapping[str, Any] | None = None
    ) -> InputError | None:
        """Replace the value at a dotted path, such as recipe.tp, by plain data; None when it was taken.

        Edits of one path in quick succession become one undo step. `words` names the step; made from the field if None.
        `also`: further paths that change in the same step.
        """
        if self._study is None:
            return None
        try:
            changed = replace(self._study, path, value)
            for other, its_value in (also or {}).items():
                changed = replace(changed, other, its_value)
        except InputError as error:
            return error
        if changed != self._study:
            self.undo_stack.push(Change(self._show, self._study, changed, path, words or edit_words(path, value)))
        return None

    def put(self, study: Study, words: str) -> None:
        """Replace everything in one undo step, named by `words`."""
        if self._study is None:
            self.new(study, words)
        elif study != self._study:
            self.undo_stack.push(Change(self._show, self._study, study, "", words))

    def new(self, study: Study, title: str = UNTITLED) -> None:
        """Open a study that has no file yet. It counts as saved until it is edited."""
        self._open(study, None, title)

    def open(self, reference: str | Path) -> InputError | None:
        """Open a file, or a shipped study by its name; a shipped one has no file of the user's, so saving asks where."""
        try:
            study = load_study(reference)
        except InputError as error:
            return error
        path = Path(reference)
        if path.exists():
            self._open(study, path.resolve(), path.name.removesuffix(".yaml").removesuffix(".study"))
        else:
            self._open(study, None, str(reference))
        return None

    def recover(self, found: Recovery) -> InputError | None:
        """Open what autosave kept, as unsaved changes of the file it belongs to."""
        try:
            study = load_study(found.path)
        except InputError as error:
            return error
        self._open(study, found.of, found.title)
        self.undo_stack.resetClean()
        found.discard()
        self._autosave.keep_soon(study, self._path, self._title)
        return None

    def save(self, path: Path | None = None) -> InputError | None:
        """Save to `path`, or to the study's file."""
        target = path or self._path
        if self._study is None or target is None:
            return None
        try:
            save_study(self._study, target)
        except InputError as error:
            return error
        self._path = target.resolve()
        self._title = target.name.removesuffix(".yaml").removesuffix(".study")
        self._watch.follow(self._path)
        self.undo_stack.setClean()
        self._autosave.forget()
        self._place_changed()
        return None

    def reload(self) -> InputError | None:
        """Take what another program wrote into the file; unsaved changes here go."""
        return self.open(self._path) if self._path is not None else None

    def keep_mine(self) -> None:
        """Stay with the open study, which from now on counts as unsaved: the file differs."""
        self.undo_stack.resetClean()

    def close(self) -> None:
        """Close the study without saving."""
        self._open(None, None, UNTITLED)

    def keep_now(self) -> None:
        """Put unsaved changes aside at once, before something worse happens."""
        self._autosave.keep()

    def _open(self, study: Study | None, path: Path | None, title: str) -> None:
        self._autosave.forget()
        self._path, self._title = path, title
        self._watch.follow(path)
        self.undo_stack.clear()
        self._study = study
        self.study_changed.emit(study, "")
        self._place_changed()

    def _show(self, study: Study, path: str) -> None:
        """What an undo command does, either way."""
        self._study = study
        self.study_changed.emit(study, path)
        self._autosave.keep_soon(study, self._path, self._title)

    def _place_changed(self, _clean: bool = True) -> None:
        if not self.dirty:
            self._autosave.forget()
        self.place_changed.emit()
