"""How lanes are painted: crowded parts as exact mean colors per pixel, roomy parts as boxes with microbatch numbers.

The cost of a frame grows with lanes times pixels times log(events), not with events.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QImage, QPainter, QPen
from shiboken6 import Shiboken

from primus_studio.theme.contrast import ink_on
from primus_studio.theme.marks import PASS_HUES, mark, shade
from primus_studio.theme.tokens import Tokens, mixed
from primus_studio.widgets.timeline_lanes import ColorSums, Lanes, pixel_colors
from primus_studio.widgets.timeline_window import TimeWindow
from projectors.pipeline.timeline import PassKind

CROWDED = 0.35
"""Events per pixel from which a lane is painted as mean colors."""

GAP_FROM = 4.0
"""Width in device-independent pixels from which a box leaves a gap to its neighbor."""

NUMBER_ROOM = 4.0
"""Room beside a microbatch number inside its box, in device-independent pixels."""

FADED = 0.82
"""How far passes that are not brought out go towards the ground."""

Rects = NDArray[np.float64]
"""[n, 4]: left, top, width, height in device-independent pixels; the memory of n QRectF."""


@dataclass(frozen=True, slots=True)
class LaneArea:
    """Where lanes lie on the paint device, in device-independent pixels."""

    left: float
    width: float
    tops: tuple[float, ...]  # of each lane's boxes
    height: float
    first: int  # rank of the first of `tops`
    ratio: float  # device pixels per device-independent pixel


def class_colors(chunks: int, colors: Tokens, kind: object) -> tuple[str, ...]:
    """Color of each class (kind * chunks + chunk); with a `kind`, all others fade."""
    found = []
    for one in PassKind:
        for chunk in range(chunks):
            color = shade(mark(PASS_HUES[one], colors.scheme), chunk, chunks, colors.scheme)
            found.append(color if kind is None or one is kind else mixed(color, colors.panel, FADED))
    return tuple(found)


def palette_array(colors: tuple[str, ...]) -> NDArray[np.float64]:
    """Colors as [n, 3] from 0 to 255."""
    return np.array([[int(color[at : at + 2], 16) for at in (1, 3, 5)] for color in colors], dtype=np.float64)


def paint_lanes(
    painter: QPainter,
    lanes: Lanes,
    sums: ColorSums,
    palette: tuple[str, ...],
    area: LaneArea,
    window: TimeWindow,
    ground: str,
    font: QFont,
) -> None:
    """Paint the lanes of `area` over a ground that the caller has painted."""
    device_pixels = max(1, round(area.width * area.ratio))
    edges = np.linspace(window.begin, window.end, device_pixels + 1)
    ground_color = palette_array((ground,))[0]
    boxes: list[Rects] = []
    events: list[NDArray[np.intp]] = []
    for number, top in enumerate(area.tops):
        rank = area.first + number
        seen = lanes.visible(rank, window.begin, window.end)
        if seen.stop - seen.start > CROWDED * device_pixels:
            _paint_crowded(
                painter, pixel_colors(lanes, sums, rank, edges, ground_color), QRectF(area.left, top, area.width, area.height)
            )
        elif seen.stop > seen.start:
            boxes.append(_boxes(lanes, seen, area, window, top))
            events.append(np.arange(seen.start, seen.stop))
    if boxes:
        _paint_boxes(painter, lanes, np.concatenate(boxes), np.concatenate(events), palette, font)


def paint_events(
    painter: QPainter,
    lanes: Lanes,
    chosen: NDArray[np.intp],
    palette: tuple[str, ...],
    area: LaneArea,
    window: TimeWindow,
    ink: str,
    font: QFont,
) -> None:
    """Paint some events again, outlined: those of one microbatch."""
    timeline = lanes.timeline
    shown = chosen[(timeline.end[chosen] > window.begin) & (timeline.start[chosen] < window.end)]
    rows = timeline.rank[shown] - area.first
    inside = (rows >= 0) & (rows < len(area.tops))
    shown, rows = shown[inside], rows[inside]
    if not len(shown):
        return
    boxes = _boxes(lanes, shown, area, window, np.array(area.tops)[rows])
    _paint_boxes(painter, lanes, boxes, shown, palette, font)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(ink), 1.5))
    _draw_rects(painter, boxes)


def _boxes(
    lanes: Lanes, events: slice | NDArray[np.intp], area: LaneArea, window: TimeWindow, top: float | NDArray[np.float64]
) -> Rects:
    """Boxes of events, on whole device pixels and at least one wide."""
    scale = area.width / window.span
    timeline = lanes.timeline
    left = area.left + (np.maximum(timeline.start[events], window.begin) - window.begin) * scale
    right = area.left + (np.minimum(timeline.end[events], window.end) - window.begin) * scale
    left, right = np.floor(left * area.ratio + 0.5) / area.ratio, np.floor(right * area.ratio + 0.5) / area.ratio
    width = right - left
    width = np.where(width > GAP_FROM, width - 1 / area.ratio, np.maximum(width, 1 / area.ratio))
    boxes = np.empty((len(left), 4))
    boxes[:, 0], boxes[:, 1], boxes[:, 2], boxes[:, 3] = left, top, width, area.height
    return boxes


def _paint_crowded(painter: QPainter, colors: NDArray[np.uint8], target: QRectF) -> None:
    row = np.full((1, len(colors), 4), 255, dtype=np.uint8)
    row[0, :, :3] = colors[:, ::-1]  # QImage's RGB32 is blue, green, red in memory
    image = QImage(row.data, len(colors), 1, row.strides[0], QImage.Format.Format_RGB32)
    painter.drawImage(target, image)  # `row` outlives the image: both end here


def _paint_boxes(
    painter: QPainter, lanes: Lanes, boxes: Rects, events: NDArray[np.intp], palette: tuple[str, ...], font: QFont
) -> None:
    painter.setPen(Qt.PenStyle.NoPen)
    classes = lanes.classes[events]
    for found in np.unique(classes):
        painter.setBrush(QColor(palette[found]))
        _draw_rects(painter, np.ascontiguousarray(boxes[classes == found]))
    metrics = QFontMetricsF(font)
    if metrics.height() > boxes[0, 3] + 2:
        return
    numbers = lanes.timeline.microbatch[events]
    digits = np.floor(np.log10(np.maximum(numbers, 1))).astype(np.intp) + 1
    widths = digits * metrics.horizontalAdvance("0")
    roomy = np.flatnonzero(widths + NUMBER_ROOM <= boxes[:, 2])
    if not len(roomy):
        return
    painter.setFont(font)
    left = boxes[roomy, 0] + (boxes[roomy, 2] - widths[roomy]) / 2
    base = boxes[roomy, 1] + (boxes[roomy, 3] + metrics.ascent() - metrics.descent()) / 2
    inks = np.array([ink_on(color) for color in palette])
    texts = numbers[roomy]
    for ink in np.unique(inks[classes[roomy]]):
        painter.setPen(QColor(str(ink)))
        mine = inks[classes[roomy]] == ink
        for x, y, number in zip(left[mine].tolist(), base[mine].tolist(), texts[mine].tolist(), strict=True):
            painter.drawText(QPointF(x, y), str(number))


def _draw_rects(painter: QPainter, boxes: Rects) -> None:
    """All boxes in one call: the array's memory is that of as many QRectF."""
    if len(boxes):
        painter.drawRects(Shiboken.wrapInstance(boxes.ctypes.data, QRectF), len(boxes))  # type: ignore[call-overload]  # pointer and count
