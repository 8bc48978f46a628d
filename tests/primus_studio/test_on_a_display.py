"""The one test with a real (virtual) X display: all others draw offscreen, which has no window system to disagree with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

STUDY = "mixtral-8x22b-mi355x-4x8"

SHADES_OF_A_PAINTED_WINDOW = 16
"""An unpainted window has one or two colors; text alone brings dozens of anti-aliased shades."""

DRIVER = f"""
import json, sys
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

run_event_loop = QApplication.exec
POLL_MS, PATIENCE_MS = 100, 20_000

def shades(window):
    image = window.screen().grabWindow(window.winId()).toImage()
    return len({{image.pixel(x, y) for x in range(0, image.width(), 3) for y in range(0, image.height(), 3)}})

def watch(waited=0):
    windows = [widget for widget in QApplication.topLevelWidgets() if widget.isWindow() and widget.isVisible()]
    seen = max(map(shades, windows), default=0)
    if seen < {SHADES_OF_A_PAINTED_WINDOW} and waited < PATIENCE_MS:
        QTimer.singleShot(POLL_MS, lambda: watch(waited + POLL_MS))
        return
    print(json.dumps({{"platform": QApplication.platformName(), "shades": seen, "titles": [w.windowTitle() for w in windows]}}))
    QApplication.closeAllWindows()
    QApplication.quit()

def watched(*_):
    QTimer.singleShot(POLL_MS, watch)
    return run_event_loop()

QApplication.exec = staticmethod(watched)

if __name__ == "__main__":
    from primus_studio.cli import run
    sys.exit(run([{STUDY!r}]))
"""


def test_the_window_opens_paints_and_closes_on_an_x_display(tmp_path: Path) -> None:
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER, encoding="utf-8")
    environment = os.environ | {"QT_QPA_PLATFORM": "xcb", "PYTHONPATH": str(ROOT)}
    command = ["xvfb-run", "-a", "-s", "-screen 0 1440x900x24", sys.executable, str(driver)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    seen = json.loads(result.stdout.splitlines()[-1])
    assert seen["platform"] == "xcb"
    assert seen["shades"] >= SHADES_OF_A_PAINTED_WINDOW
    assert any(STUDY in title or "Primus Studio" in title for title in seen["titles"])
