"""Every action of the window as data: menus, toolbar, palette, shortcut sheet and help are made from this table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Menu(StrEnum):
    """Menus, in their order."""

    FILE = "&File"
    EDIT = "&Edit"
    VIEW = "&View"
    HELP = "&Help"


class When(StrEnum):
    """What must hold for an action to be enabled."""

    ALWAYS = "always"
    STUDY_OPEN = "a study is open"
    CAN_UNDO = "there is something to undo"
    CAN_REDO = "there is something to redo"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing the user can ask for. `group` separates entries of a menu; `choice` makes actions exclude each other."""

    id: str
    title: str
    menu: Menu
    group: int
    shortcut: str = ""
    icon: str = ""
    when: When = When.ALWAYS
    toolbar: bool = False
    choice: str = ""
    says: str = ""


ACTIONS = (
    Action(
        "file.new", "&New study…", Menu.FILE, 0, "Ctrl+N", "new", toolbar=True,
        says="Start from any shipped model and cluster",
    ),
    Action("file.open", "&Open…", Menu.FILE, 0, "Ctrl+O", "open", toolbar=True, says="Open a study file"),
    Action("file.save", "&Save", Menu.FILE, 1, "Ctrl+S", "save", When.STUDY_OPEN, toolbar=True, says="Save the study"),
    Action(
        "file.save-as", "Save &as…", Menu.FILE, 1, "Ctrl+Shift+S", "save-as", When.STUDY_OPEN,
        says="Save the study under a new name",
    ),
    Action(
        "file.picture", "Save &picture…", Menu.FILE, 1, "Ctrl+Shift+G", "fit", When.STUDY_OPEN,
        says="Save the window as a PNG",
    ),
    Action(
        "file.close", "&Close study", Menu.FILE, 2, "Ctrl+W", "close", When.STUDY_OPEN,
        says="Close the study, keep the window",
    ),
    Action("file.quit", "&Quit", Menu.FILE, 2, "Ctrl+Q", says="Leave Primus Studio"),
    Action("edit.undo", "&Undo", Menu.EDIT, 0, "Ctrl+Z", "undo", When.CAN_UNDO, toolbar=True, says="Take the last edit back"),
    Action("edit.redo", "&Redo", Menu.EDIT, 0, "Ctrl+Shift+Z", "redo", When.CAN_REDO, toolbar=True, says="Do the edit again"),
    Action("edit.copy-result", "&Copy result as text", Menu.EDIT, 1, "Ctrl+Shift+C", "copy", When.STUDY_OPEN,
           says="Copy the projection as the command line prints it"),
    Action(
        "view.palette", "&Command palette…", Menu.VIEW, 0, "Ctrl+Shift+P", "command", toolbar=True,
        says="Find and run any action by name",
    ),
    Action(
        "view.theme-system", "Follow the s&ystem", Menu.VIEW, 2, "", "system", choice="theme",
        says="Light or dark as the desktop is",
    ),
    Action("view.theme-light", "&Light", Menu.VIEW, 2, "", "light", choice="theme", says="Light colors"),
    Action("view.theme-dark", "&Dark", Menu.VIEW, 2, "", "dark", choice="theme", says="Dark colors"),
    Action("view.float-panel", "F&loat panel", Menu.VIEW, 3, "Ctrl+Shift+F", "float",
           says="Take the panel that has the keyboard out of the window, or put it back"),
    Action("view.close-panel", "&Close panel", Menu.VIEW, 3, "Ctrl+Shift+W", "close",
           says="Close the panel that has the keyboard"),
    Action("view.full-screen", "&Full screen", Menu.VIEW, 3, "F11", "full-screen", says="Fill the screen, and back"),
    Action("view.reset-layout", "&Reset layout", Menu.VIEW, 3, "", "layout", says="Put every panel back in its place"),
    Action("help.shortcuts", "&Keyboard shortcuts", Menu.HELP, 0, "F1", "help", says="Every shortcut of the window"),
    Action("help.about", "&About Primus Studio", Menu.HELP, 1, "", "info", says="Version, licence, where the figures come from"),
)
