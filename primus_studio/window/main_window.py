"""The main window: it wires document, engine and panels together and decides nothing about numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QByteArray, Qt, QTimer
from PySide6.QtGui import QAction, QCloseEvent, QDragEnterEvent, QDropEvent, QGuiApplication
from PySide6.QtWidgets import QApplication, QDockWidget, QFileDialog, QLabel, QMainWindow, QMenu, QMessageBox, QToolBar

from primus_studio import theme
from primus_studio.actions.build import build_actions, enable, fill_menus, fill_toolbar
from primus_studio.actions.palette import Palette
from primus_studio.actions.sheet import show_sheet
from primus_studio.actions.table import Menu, When
from primus_studio.document.autosave import recoverable
from primus_studio.document.state import StudyDocument
from primus_studio.panels.panel import PanelContext
from primus_studio.panels.table import PANELS
from primus_studio.services.engine import EngineService
from primus_studio.services.projection_state import ProjectionState, Status
from primus_studio.services.settings import Settings
from primus_studio.theme import Mode
from primus_studio.widgets.headline_view import origin_words
from primus_studio.window.about import show_about
from primus_studio.window.banner import Banner, Offer
from primus_studio.window.docks import arrange, make_docks, name_titles
from primus_studio.window.new_study import NewStudy
from projectors import reports
from projectors.inputs import library
from projectors.inputs.errors import InputError
from projectors.inputs.study import Study
from projectors.text import seconds_text

LAYOUT_VERSION = 1
"""Raise it when panels change so that a saved layout no longer fits."""

STUDY_FILTER = "Studies (*.study.yaml *.yaml *.yml);;All files (*)"

HINT_MS = 5000
"""How long a hint stands in the status bar."""

SMALLEST = (960, 600)


class MainWindow(QMainWindow):
    """Docks around nothing: every panel can be moved, floated, closed and brought back."""

    def __init__(self, context: PanelContext, settings: Settings) -> None:
        super().__init__()
        self.setObjectName("main")
        self.setMinimumSize(*SMALLEST)
        self.setAcceptDrops(True)
        self._context, self._settings = context, settings
        self._document = context.document
        self._asks = True
        self.banner = Banner(self)
        self.docks = make_docks(self, context)
        self.actions_by_id = build_actions(self, self._callbacks())
        menus = fill_menus(self, self.actions_by_id)
        self._fill_toolbar()
        self._show_banner_bar()
        self._recent = QMenu("Open &recent", self)
        self._recent.aboutToShow.connect(self._fill_recent)
        self._shipped = QMenu("Open s&hipped study", self)
        self._shipped.aboutToShow.connect(self._fill_shipped)
        for menu in (self._recent, self._shipped):
            menus[Menu.FILE].insertMenu(self.actions_by_id["file.save"], menu)
        menus[Menu.FILE].insertSeparator(self.actions_by_id["file.save"])
        self._panel_actions = self._list_panels(menus[Menu.VIEW])
        self._engine_words, self._place_words = QLabel(self), QLabel(self)
        self._engine_words.setAccessibleName("Engine")
        self._place_words.setAccessibleName("Study file")
        self.statusBar().addWidget(self._engine_words)
        self.statusBar().addPermanentWidget(self._place_words)
        self._connect()
        self._restore_layout()
        self._show_place()
        self._show_state(context.engine.state)

    # -- wiring ----------------------------------------------------------------------------------------------------

    def _callbacks(self) -> dict[str, Callable[[], object]]:
        """What each action of the table does."""
        return {
            "file.new": self._ask_new,
            "file.open": self._ask_open,
            "file.save": self.save,
            "file.save-as": self.save_as,
            "file.picture": self._save_picture,
            "file.close": self._close_study,
            "file.quit": self.close,
            "edit.undo": self._document.undo_stack.undo,
            "edit.redo": self._document.undo_stack.redo,
            "edit.copy-result": self._copy_result,
            "view.palette": lambda: Palette(self, self._every_action()).show(),
            "view.theme-system": lambda: self._dress(Mode.SYSTEM),
            "view.theme-light": lambda: self._dress(Mode.LIGHT),
            "view.theme-dark": lambda: self._dress(Mode.DARK),
            "view.float-panel": lambda: self._with_panel(lambda dock: dock.setFloating(not dock.isFloating())),
            "view.close-panel": lambda: self._with_panel(lambda dock: dock.close()),
            "view.full-screen": lambda: self.setWindowState(self.windowState() ^ Qt.WindowState.WindowFullScreen),
            "view.reset-layout": self.rearrange,
            "help.shortcuts": lambda: show_sheet(self, self._every_action()),
            "help.about": lambda: show_about(self),
        }

    def _connect(self) -> None:
        document, stack = self._document, self._document.undo_stack
        document.study_changed.connect(self._study_changed)
        document.place_changed.connect(self._show_place)
        document.file_changed.connect(self._offer_reload)
        stack.canUndoChanged.connect(lambda _can: self._enable())
        stack.canRedoChanged.connect(lambda _can: self._enable())
        stack.undoTextChanged.connect(lambda words: self._name("edit.undo", "&Undo", words))
        stack.redoTextChanged.connect(lambda words: self._name("edit.redo", "&Redo", words))
        self._context.engine.state_changed.connect(self._show_state)
        self.actions_by_id[f"view.theme-{self._settings.theme}"].setChecked(True)
        self._enable()

    def _every_action(self) -> list[QAction]:
        return [*self.actions_by_id.values(), *self._panel_actions]

    def _list_panels(self, menu: QMenu) -> list[QAction]:
        """An entry per panel that brings it to the front, with its shortcut."""
        before = self.actions_by_id["view.theme-system"]
        added = []
        for panel in PANELS:
            action = QAction(theme.icons.icon(panel.icon), f"Show {panel.title}", self)
            action.setObjectName(f"view.panel-{panel.id}")
            action.setShortcut(panel.shortcut)
            action.setStatusTip(panel.says)
            action.triggered.connect(lambda _checked=False, name=panel.id: self.show_panel(name))
            menu.insertAction(before, action)
            added.append(action)
        menu.insertSeparator(before)
        return added

    def _fill_toolbar(self) -> None:
        toolbar = QToolBar("Actions", self)
        toolbar.setObjectName("toolbar.actions")
        toolbar.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        toolbar.setMovable(False)
        fill_toolbar(toolbar, self.actions_by_id)
        self.addToolBar(toolbar)

    def _show_banner_bar(self) -> None:
        """The banner takes a line of its own under the toolbar."""
        holder = QToolBar("Messages", self)
        holder.setObjectName("toolbar.messages")
        holder.setMovable(False)
        place = holder.addWidget(self.banner)  # a hidden widget's place counts as disabled, and would disable the buttons
        self.banner.shown.connect(place.setVisible)
        self.banner.shown.connect(holder.setVisible)
        holder.toggleViewAction().setVisible(False)
        self._message_bar = holder
        self.addToolBarBreak()
        self.addToolBar(holder)

    # -- what the document and the engine say -------------------------------------------------------------------------

    def _study_changed(self, study: Study | None, _path: str) -> None:
        self._enable()
        if study is None:
            self._context.engine.forget()
        else:
            self._context.engine.request(study)

    def _show_place(self) -> None:
        self.setWindowTitle(f"{self._document.title}[*] — Primus Studio")
        self.setWindowModified(self._document.dirty)
        self._place_words.setText(str(self._document.path) if self._document.path else "not saved in a file")

    def _show_state(self, state: ProjectionState) -> None:
        words = {
            Status.EMPTY: "No study",
            Status.BUSY: "Projecting…",
            Status.DONE: f"Projected in {seconds_text(state.seconds)}" + (
                f" · {origin_words(state.projection)}" if state.projection is not None else ""
            ),
            Status.ILLEGAL: "Illegal recipe",
            Status.FAILED: state.message,
        }
        self._engine_words.setText(words[state.status])

    def _enable(self) -> None:
        stack = self._document.undo_stack
        enable(self.actions_by_id, {
            When.STUDY_OPEN: self._document.study is not None,
            When.CAN_UNDO: stack.canUndo(),
            When.CAN_REDO: stack.canRedo(),
        })

    def _name(self, action: str, title: str, words: str) -> None:
        self.actions_by_id[action].setText(f"{title} {words[:1].lower()}{words[1:]}" if words else title)
        self.actions_by_id[action].setIconText(title.replace("&", ""))

    @property
    def document(self) -> StudyDocument:
        """The open study."""
        return self._context.document

    @property
    def engine(self) -> EngineService:
        """What projects it."""
        return self._context.engine

    # -- files -----------------------------------------------------------------------------------------------------

    def open(self, reference: str) -> None:
        """Open a study file or a shipped study; a fault leaves the open study as it is and says why."""
        if self.may_discard():
            self._tell("This study could not be opened", self._document.open(reference))
            if self._document.path is not None:
                self._settings.add_recent(self._document.path)

    def save(self) -> bool:
        """Save where the study came from, or ask."""
        if self._document.path is None:
            return self.save_as()
        return self._tell("The study could not be saved", self._document.save())

    def save_as(self) -> bool:
        """Ask where to save; False when it was not saved."""
        start = str(self._document.path or Path.cwd() / f"{self._document.title}.study.yaml")
        chosen, _ = QFileDialog.getSaveFileName(self, "Save study", start, STUDY_FILTER)
        if not chosen or not self._tell("The study could not be saved", self._document.save(Path(chosen))):
            return False
        self._settings.add_recent(Path(chosen))
        return True

    def new(self, model: str, cluster: str) -> None:
        """A study of a library model on a library cluster, from a recipe that the engine finds."""
        try:
            card, machine = library.model(model), library.cluster(cluster)
        except InputError as error:
            self._tell("A new study could not be made", error)
            return
        self._context.engine.start_study(card, machine, lambda study: self._document.new(study, f"{model}-{cluster}"))

    def may_discard(self) -> bool:
        """Whether the open study may go: it is saved, or the user says so."""
        if not self._document.dirty:
            return True
        buttons = QMessageBox.StandardButton
        answer = QMessageBox.question(
            self, "Unsaved changes", f"Save the changes to {self._document.title}?",
            buttons.Save | buttons.Discard | buttons.Cancel, buttons.Save,
        )
        return self.save() if answer == buttons.Save else answer == buttons.Discard

    def _ask_new(self) -> None:
        study = self._document.study
        dialog = NewStudy(self, study.model.name if study else "", study.cluster.name if study else "")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.accepted.connect(lambda: self._make_new(dialog.model, dialog.cluster))
        dialog.open()

    def _make_new(self, model: str, cluster: str) -> None:
        if self.may_discard():
            self.new(model, cluster)

    def _ask_open(self) -> None:
        folder = str(self._document.path.parent if self._document.path else Path.cwd())
        chosen, _ = QFileDialog.getOpenFileName(self, "Open study", folder, STUDY_FILTER)
        if chosen:
            self.open(chosen)

    def _close_study(self) -> None:
        if self.may_discard():
            self._document.close()

    def _fill_recent(self) -> None:
        self._recent.clear()
        for path in self._settings.recent:
            action = self._recent.addAction(str(path))
            action.triggered.connect(lambda _checked=False, path=path: self.open(str(path)))
            action.setEnabled(path.exists())
        if self._recent.isEmpty():
            self._recent.addAction("No files yet").setEnabled(False)

    def _fill_shipped(self) -> None:
        self._shipped.clear()
        for name in library.names("studies"):
            action = self._shipped.addAction(name)
            action.triggered.connect(lambda _checked=False, name=name: self.open(name))

    def _tell(self, title: str, error: InputError | None) -> bool:
        """Show what went wrong; whether all is well."""
        if error is not None:
            self.banner.say(title, [problem.brief for problem in error.problems], whole=str(error))
        return error is None

    # -- the rest ----------------------------------------------------------------------------------------------------

    def show_panel(self, name: str) -> None:
        """Bring a panel to the front and give it the keyboard."""
        dock = self.docks[name]
        dock.show()
        dock.raise_()
        content = dock.widget()
        content.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _with_panel(self, run: Callable[[QDockWidget], object]) -> None:
        """Do something with the panel that has the keyboard."""
        focused = QApplication.focusWidget()
        for dock in self.docks.values():
            if focused is not None and dock.isAncestorOf(focused):
                run(dock)
                return
        self.statusBar().showMessage("No panel has the keyboard; Alt+1 to Alt+7 go to one", HINT_MS)

    def _copy_result(self) -> None:
        state = self._context.engine.state
        if state.study is not None and state.projection is not None:
            QGuiApplication.clipboard().setText(reports.projection_text(state.study, state.projection))

    def _save_picture(self) -> None:
        chosen, _ = QFileDialog.getSaveFileName(self, "Save picture", f"{self._document.title}.png", "Pictures (*.png)")
        if chosen and not self.grab().save(chosen, "PNG"):
            self.banner.say("The picture could not be saved", [f"{chosen} cannot be written; choose another folder"])

    def _dress(self, mode: Mode) -> None:
        application = QApplication.instance()
        if isinstance(application, QApplication):
            theme.apply(application, mode)
        self._settings.theme = mode.value

    def rearrange(self) -> None:
        """Put every panel back in its place."""
        arrange(self, self.docks)

    def _restore_layout(self) -> None:
        """The last geometry and layout, or the first ones; nothing saved by an older layout is used."""
        if not self.restoreGeometry(QByteArray(self._settings.geometry)):
            self.resize(1280, 800)
        arrange(self, self.docks)
        self.restoreState(QByteArray(self._settings.layout), LAYOUT_VERSION)
        name_titles(self.docks)
        self._message_bar.setVisible(bool(self.banner.text))

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """A single local file may be dropped."""
        if len(event.mimeData().urls()) == 1 and event.mimeData().urls()[0].isLocalFile():
            self.statusBar().showMessage("Drop to open this study")
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Open the file, after the drop has ended."""
        path = event.mimeData().urls()[0].toLocalFile()
        self.statusBar().clearMessage()
        event.acceptProposedAction()
        QTimer.singleShot(0, self, lambda: self.open(path))

    def offer_recovery(self) -> None:
        """Offer what was not saved when the program last ended, newest first."""
        left_behind = recoverable()
        if left_behind:
            newest = left_behind[0]
            restore = Offer("Restore", lambda: self._tell("It could not be restored", self._document.recover(newest)))
            discard = Offer("Discard", newest.discard)
            self.banner.say("Primus Studio ended with unsaved changes.", [newest.words], [restore, discard], symbol="info")

    def _offer_reload(self) -> None:
        """The open file was written by another program: nothing is taken over, or lost, unasked."""
        loses = ["Reloading drops the unsaved changes made here."] if self._document.dirty else []
        reload = Offer("Reload", lambda: self._tell("It could not be reloaded", self._document.reload()))
        keep = Offer("Keep mine", self._document.keep_mine)
        self.banner.say(f"{self._document.title} was changed by another program.", loses, [reload, keep], symbol="info")

    def leave(self) -> None:
        """Close without questions and without remembering anything."""
        self._document.close()
        self._context.engine.shutdown()
        self._context.aside.shutdown()
        self._context.benchmark.shutdown()
        self._asks = False
        self.close()

    def closeEvent(self, event: QCloseEvent) -> None:
        """Ask about unsaved changes, remember the layout, end the engine."""
        if self._asks:
            if not self.may_discard():
                event.ignore()
                return
            self._settings.geometry = bytes(self.saveGeometry().data())
            self._settings.layout = bytes(self.saveState(LAYOUT_VERSION).data())
            self._context.engine.shutdown()
            self._context.aside.shutdown()
            self._context.benchmark.shutdown()
        for dock in self.docks.values():
            dock.hide()  # a floating one would outlive the window
        event.accept()
