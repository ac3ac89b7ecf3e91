/// The positions of boxes, rows and columns of a sheet, in pixels of its content.

import type { Sheet, Spot } from "../engine";

/// Sizes of a cell that can be chosen.
export const ZOOMS = [1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 15, 16, 17, 20, 24, 28, 34, 40, 48, 60] as const;
/// From this size on cells carry text.
export const TEXT = 17;

const HEADER = 18;
const CAPTION = 20;
const GAP = 16;
/// Browsers lose count past some tens of millions of pixels.
const LONGEST = 8_000_000;

export interface Rect { x: number; y: number; width: number; height: number }
export interface Hit { box: number; row: number; col: number }

export interface Shape {
  sheet: Sheet;
  /// Show this box alone; all of them where it is null.
  only: number | null;
  /// The size of a cell.
  zoom: number;
  /// Pixels that the widest label takes, for cells with text.
  label: number;
  /// Pixels that row labels take.
  left: number;
  /// Whether boxes have captions.
  captions: boolean;
  /// Pixels that can be used without scrolling.
  available: number;
}

export class Geometry {
  readonly cellWidth: number;
  readonly cellHeight: number;
  readonly left: number;
  readonly top: number;
  readonly boxWidth: number;
  readonly boxHeight: number;
  readonly perRow: number;
  readonly count: number;
  readonly width: number;
  readonly height: number;
  readonly only: number | null;
  private readonly sheet: Sheet;

  constructor(shape: Shape) {
    const { sheet, zoom } = shape;
    this.sheet = sheet;
    this.only = shape.only;
    this.cellHeight = cellHeight(zoom, sheet.rows);
    this.cellWidth = cellWidth(zoom, shape.label, sheet.span);
    this.left = sheet.row_title || sheet.rows > 1 ? shape.left : 8;
    this.top = HEADER + (shape.captions ? CAPTION : 0);
    // A caption such as `warpid 10` has room.
    this.boxWidth = Math.max(this.left + sheet.cols * this.cellWidth + 2, shape.captions ? 74 : 0);
    this.boxHeight = this.top + sheet.rows * this.cellHeight + 2;
    this.count = shape.only === null ? sheet.boxes : Math.min(1, sheet.boxes);
    const mesh = sheet.mesh ? 1 + Math.max(...sheet.mesh.map(([, col]) => col)) : 0;
    const fit = Math.max(1, Math.floor((shape.available + GAP) / (this.boxWidth + GAP)));
    this.perRow = Math.max(1, mesh || Math.min(fit, this.count));
    const lines = sheet.mesh ? 1 + Math.max(...sheet.mesh.map(([row]) => row)) : Math.ceil(this.count / this.perRow);
    this.width = this.count === 0 ? 0 : this.perRow * (this.boxWidth + GAP) - GAP;
    this.height = this.count === 0 ? 0 : lines * (this.boxHeight + GAP) - GAP;
  }

  /// The size that a scroll bar can have.
  get scrollWidth(): number {
    return Math.min(this.width, LONGEST);
  }

  get scrollHeight(): number {
    return Math.min(this.height, LONGEST);
  }

  /// Where the cells of a box begin.
  origin(box: number): { x: number; y: number } {
    const place = this.only === null ? this.sheet.mesh?.[box] : [0, 0];
    const [line, column] = place ?? [Math.floor(box / this.perRow), box % this.perRow];
    return {
      x: column! * (this.boxWidth + GAP) + this.left,
      y: line! * (this.boxHeight + GAP) + this.top,
    };
  }

  /// The pixels of a spot; null if its box is not shown.
  rect(spot: Spot): Rect | null {
    if (this.only !== null && spot.box !== this.only) return null;
    const { x, y } = this.origin(spot.box);
    return {
      x: x + spot.col * this.cellWidth,
      y: y + spot.row * this.cellHeight,
      width: spot.span * this.cellWidth,
      height: this.cellHeight,
    };
  }

  /// The cell under a pixel of the content.
  hit(x: number, y: number): Hit | null {
    for (const box of this.visible({ x, y, width: 1, height: 1 })) {
      const origin = this.origin(box);
      const row = Math.floor((y - origin.y) / this.cellHeight);
      const col = Math.floor((x - origin.x) / this.cellWidth);
      if (row >= 0 && col >= 0 && row < this.sheet.rows && col < this.sheet.cols) return { box, row, col };
    }
    return null;
  }

  /// The boxes that a rectangle of the content touches.
  visible(view: Rect): number[] {
    if (this.count === 0) return [];
    if (this.only !== null) return [this.only];
    if (this.sheet.mesh) return this.sheet.mesh.map((_, i) => i);
    const stepX = this.boxWidth + GAP;
    const stepY = this.boxHeight + GAP;
    const boxes: number[] = [];
    const first = Math.max(0, Math.floor(view.y / stepY));
    const last = Math.floor((view.y + view.height) / stepY);
    const left = Math.max(0, Math.floor(view.x / stepX));
    const right = Math.min(this.perRow - 1, Math.floor((view.x + view.width) / stepX));
    for (let line = first; line <= last; line++) {
      for (let column = left; column <= right; column++) {
        const box = line * this.perRow + column;
        if (box < this.count) boxes.push(box);
      }
    }
    return boxes;
  }
}

/// Few rows of narrow cells are drawn taller, so that they can be hit.
function cellHeight(zoom: number, rows: number): number {
  return zoom >= TEXT ? zoom : Math.max(zoom, Math.min(Math.floor(132 / rows), 3 * zoom));
}

/// The width of a column: square without text, as wide as labels with it.
export function cellWidth(zoom: number, label: number, span: number): number {
  return zoom < TEXT ? zoom : Math.max(zoom, Math.ceil(label / Math.max(1, span)));
}
