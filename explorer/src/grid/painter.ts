/// Draws what can be seen of a sheet.

import type { Cell, Sheet, Side, Spot, Tone } from "../engine";
import type { Palette } from "../theme";
import { TEXT, type Geometry, type Hit, type Rect } from "./geometry";
import { CELL_TILE, PAINT_TILE, type Tiles } from "./tiles";

/// Something to show on top of cells.
export interface Mark {
  side: Side;
  spot: Spot;
  style: "hover" | "pick" | "lane" | "found" | "differs" | "done" | "now";
  text?: string;
}

/// Everything that one frame shows.
export interface Frame {
  sheet: Sheet;
  geometry: Geometry;
  tiles: Tiles;
  tones: Tone[];
  marks: Mark[];
  /// The cells that are filled, by [`cellKey`]; all others are drawn pale. None where all are drawn as they are.
  filled: Set<number> | null;
  zoom: number;
  colors: Palette;
  /// Where the keyboard is, while it is here.
  cursor: Hit | null;
}

/// The number of a cell among those of all boxes of a sheet.
export const cellKey = (sheet: Sheet, box: number, row: number, col: number): number => (box * sheet.rows + row) * sheet.cols + col;

/// Milliseconds of a frame that may go into asking for windows.
const BUDGET = 9;
const FONT = "ui-monospace, 'JetBrains Mono', 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace";

export class Painter {
  constructor(private readonly context: CanvasRenderingContext2D, private readonly frame: Frame) {}

  /// Draws a rectangle of the content; false while something is still missing.
  paint(view: Rect): boolean {
    const { sheet, geometry: g } = this.frame;
    const until = performance.now() + BUDGET;
    let missing = false;
    for (const box of g.visible(view)) {
      const origin = g.origin(box);
      const x = origin.x - view.x;
      const y = origin.y - view.y;
      const rows = span(-y, view.height - y, g.cellHeight, sheet.rows);
      const cols = span(-x, view.width - x, g.cellWidth, sheet.cols);
      if (rows[0] >= rows[1] || cols[0] >= cols[1]) continue;
      const done = this.frame.zoom >= TEXT
        ? this.drawCells(box, x, y, rows, cols, until)
        : this.drawPaint(box, x, y, rows, cols, until);
      if (this.frame.filled) this.drawVeil(box, x, y, rows, cols, this.frame.filled);
      this.drawMarks(box, x, y);
      const named = this.drawEdges(box, x, y, rows, cols, until);
      missing ||= !done || !named;
    }
    return !missing;
  }

  private drawPaint(box: number, x: number, y: number, rows: Span, cols: Span, until: number): boolean {
    const { tiles, sheet, geometry: g } = this.frame;
    const { context } = this;
    context.imageSmoothingEnabled = false;
    let done = true;
    for (let r = Math.floor(rows[0] / PAINT_TILE); r * PAINT_TILE < rows[1]; r++) {
      for (let c = Math.floor(cols[0] / PAINT_TILE); c * PAINT_TILE < cols[1]; c++) {
        const painted = tiles.painted(box, r, c, performance.now() < until);
        const [px, py] = [x + c * PAINT_TILE * g.cellWidth, y + r * PAINT_TILE * g.cellHeight];
        if (painted) {
          context.drawImage(painted.image, px, py, PAINT_TILE * g.cellWidth, PAINT_TILE * g.cellHeight);
          if (g.cellWidth >= 3) this.hatch(painted.padding, px, py);
        } else {
          done = false;
          context.fillStyle = this.frame.colors.unused;
          context.fillRect(px, py, Math.min(PAINT_TILE, sheet.cols - c * PAINT_TILE) * g.cellWidth,
            Math.min(PAINT_TILE, sheet.rows - r * PAINT_TILE) * g.cellHeight);
        }
      }
    }
    if (g.cellWidth >= 6) {
      context.fillStyle = this.frame.colors.surface;
      const [left, right] = [x + cols[0] * g.cellWidth, x + cols[1] * g.cellWidth];
      const [top, bottom] = [y + rows[0] * g.cellHeight, y + rows[1] * g.cellHeight];
      for (let r = rows[0]; r <= rows[1]; r++) context.fillRect(left, y + r * g.cellHeight - 0.5, right - left, 1);
      for (let c = cols[0]; c <= cols[1]; c++) {
        if (c % sheet.span === 0) context.fillRect(x + c * g.cellWidth - 0.5, top, 1, bottom - top);
      }
    }
    return done;
  }

  /// Makes the cells pale that are not filled yet.
  private drawVeil(box: number, x: number, y: number, rows: Span, cols: Span, filled: Set<number>): void {
    const { sheet, geometry: g, colors } = this.frame;
    const { context } = this;
    context.fillStyle = colors.surface;
    // Pale and not empty: what a cell will hold can still be read.
    context.globalAlpha = 0.8;
    for (let row = rows[0]; row < rows[1]; row++) {
      // One rectangle for a run of cells, as there may be many thousands of them.
      for (let col = cols[0]; col < cols[1]; col++) {
        const from = col;
        while (col < cols[1] && !filled.has(cellKey(sheet, box, row, col))) col++;
        if (col > from) context.fillRect(x + from * g.cellWidth, y + row * g.cellHeight, (col - from) * g.cellWidth, g.cellHeight);
      }
    }
    context.globalAlpha = 1;
  }

  /// Lines over runs of padding.
  private hatch(runs: [row: number, from: number, to: number][], x: number, y: number): void {
    const { colors, geometry: g } = this.frame;
    const { context } = this;
    if (runs.length === 0) return;
    context.save();
    context.beginPath();
    for (const [row, from, to] of runs) {
      context.rect(x + from * g.cellWidth, y + row * g.cellHeight, (to - from) * g.cellWidth, g.cellHeight);
    }
    context.fillStyle = colors.unused;
    context.fill();
    context.clip();
    context.strokeStyle = colors.hatch;
    context.lineWidth = 1;
    context.beginPath();
    const [left, top] = [x, y];
    const size = PAINT_TILE * Math.max(g.cellWidth, g.cellHeight);
    for (let d = -size; d < size; d += 5) {
      context.moveTo(left + d, top + size);
      context.lineTo(left + d + size, top);
    }
    context.stroke();
    context.restore();
  }

  private drawCells(box: number, x: number, y: number, rows: Span, cols: Span, until: number): boolean {
    const { tiles, geometry: g } = this.frame;
    const { context } = this;
    let done = true;
    const seen = new Set<string>();
    for (let r = Math.floor(rows[0] / CELL_TILE); r * CELL_TILE < rows[1]; r++) {
      for (let c = Math.floor(cols[0] / CELL_TILE); c * CELL_TILE < cols[1]; c++) {
        const tile = tiles.cells(box, r, c, performance.now() < until);
        if (!tile) {
          done = false;
          continue;
        }
        for (const cell of tile.cells) {
          // A wide element may belong to two windows.
          if (cell.span > 1) {
            const key = `${cell.row}/${cell.col}`;
            if (seen.has(key)) continue;
            seen.add(key);
          }
          this.drawCell(cell, x + cell.col * g.cellWidth, y + cell.row * g.cellHeight, cell.span * g.cellWidth, g.cellHeight);
        }
      }
    }
    context.textAlign = "left";
    return done;
  }

  private drawCell(cell: Cell, x: number, y: number, width: number, height: number): void {
    const { colors } = this.frame;
    const { context } = this;
    const [px, py, w, t] = [x + 0.5, y + 0.5, width - 1, height - 1];
    if (cell.kind !== "element") {
      context.fillStyle = colors.unused;
      round(context, px, py, w, t, 2);
      context.fill();
      if (cell.kind === "padding") {
        context.save();
        round(context, px, py, w, t, 2);
        context.clip();
        context.strokeStyle = colors.hatch;
        context.lineWidth = 1;
        context.beginPath();
        for (let d = -t; d < w; d += 5) {
          context.moveTo(px + d, py + t);
          context.lineTo(px + d + t, py);
        }
        context.stroke();
        context.restore();
      }
      return;
    }
    const tones = this.frame.tones;
    const count = Math.min(cell.colors.length, 4);
    for (let i = 0; i < count; i++) {
      const tone = tones[cell.colors[i]!]!;
      context.fillStyle = colors.dark ? tone.dark_fill : tone.fill;
      if (count === 1) {
        round(context, px, py, w, t, 2);
        context.fill();
      } else {
        context.fillRect(px + (i * w) / count, py, w / count, t);
      }
    }
    const tone = tones[cell.colors[0] ?? 0];
    if (tone) context.fillStyle = colors.dark ? tone.dark_ink : tone.ink;
    this.text(cell.label, x + width / 2, y + height / 2, width - 3, height);
  }

  /// A label in the middle of a cell, on two lines where that helps, smaller where it must be.
  private text(label: string, x: number, y: number, width: number, height: number): void {
    const { context } = this;
    context.textAlign = "center";
    context.textBaseline = "middle";
    const size = Math.min(11, height * 0.56);
    const need = (text: string) => text.length * size * 0.605;
    context.font = `${size}px ${FONT}`;
    if (need(label) <= width) {
      context.fillText(label, x, y + 0.5);
      return;
    }
    const words = label.split(" ");
    if (words.length === 2 && height >= 2 * size + 4 && words.every((w) => need(w) <= width)) {
      context.fillText(words[0]!, x, y - size * 0.55);
      context.fillText(words[1]!, x, y + size * 0.6);
    } else {
      const smaller = (width / (label.length * 0.605));
      if (smaller < 6) return;
      context.font = `${smaller}px ${FONT}`;
      context.fillText(label, x, y + 0.5);
    }
  }

  private drawMarks(box: number, x: number, y: number): void {
    const { colors, geometry: g } = this.frame;
    const { context } = this;
    for (const mark of this.frame.marks) {
      if (mark.spot.box !== box) continue;
      const px = x + mark.spot.col * g.cellWidth;
      const py = y + mark.spot.row * g.cellHeight;
      const w = mark.spot.span * g.cellWidth;
      const t = g.cellHeight;
      if (mark.style === "done") {
        context.fillStyle = colors.done;
        context.fillRect(px, py, w, t);
        continue;
      }
      const color = { hover: colors.ink, pick: colors.accent, lane: colors.ink, found: colors.accent, differs: colors.bad, now: colors.accent, done: colors.done }[mark.style];
      if (mark.style === "differs" || mark.style === "found" || (mark.style === "lane" && w < 8)) {
        // Inside its cell, as there may be many: none covers its neighbour, nor the colours.
        const line = w < TEXT ? 1 : 2;
        context.lineWidth = line;
        context.strokeStyle = color;
        context.strokeRect(px + line / 2, py + line / 2, Math.max(w - line, 1), Math.max(t - line, 1));
        continue;
      }
      const grow = w < 8 ? 2 : 0;
      context.lineWidth = mark.style === "hover" || mark.style === "lane" ? 1.5 : 2.5;
      context.strokeStyle = colors.surface;
      context.strokeRect(px - grow - 1, py - grow - 1, w + 2 * grow + 2, t + 2 * grow + 2);
      context.strokeStyle = color;
      context.strokeRect(px - grow + 0.5, py - grow + 0.5, w + 2 * grow - 1, t + 2 * grow - 1);
      if (mark.text && t >= 10) {
        const size = Math.min(10, t * 0.6, w * 0.7);
        context.font = `600 ${size}px ${FONT}`;
        context.textAlign = "center";
        context.textBaseline = "middle";
        const room = mark.text.length * size * 0.62 + 4;
        if (this.frame.zoom < TEXT ? w >= 9 : w > room + 20) {
          const cx = this.frame.zoom < TEXT ? px + w / 2 : px + w - room / 2 - 1;
          context.fillStyle = colors.ink;
          context.globalAlpha = 0.85;
          context.fillRect(cx - room / 2, py + t / 2 - size / 2 - 1, room, size + 2);
          context.globalAlpha = 1;
          context.fillStyle = colors.surface;
          context.fillText(mark.text, cx, py + t / 2 + 0.5);
        }
      }
    }
    const cursor = this.frame.cursor;
    if (cursor?.box === box) {
      context.setLineDash([3, 2]);
      context.lineWidth = 1.5;
      context.strokeStyle = colors.ink;
      context.strokeRect(x + cursor.col * g.cellWidth - 0.5, y + cursor.row * g.cellHeight - 0.5, g.cellWidth + 1, g.cellHeight + 1);
      context.setLineDash([]);
    }
  }

  /// Labels of rows and columns; those of a single box stay in view.
  private drawEdges(box: number, x: number, y: number, rows: Span, cols: Span, until: number): boolean {
    const { colors, tiles, sheet, geometry: g } = this.frame;
    const { context } = this;
    const may = () => performance.now() < until;
    let done = true;
    const single = g.count === 1;
    const [left, top] = single ? [0, 0] : [x - g.left, y - g.top];
    const edgeX = left + g.left;
    const edgeY = top + g.top;
    const [right, bottom] = [x + cols[1] * g.cellWidth, y + rows[1] * g.cellHeight];
    context.fillStyle = colors.surface;
    context.fillRect(left, top, Math.max(right, edgeX) - left + (single ? 9999 : 0), g.top);
    context.fillRect(left, top, g.left, Math.max(bottom, edgeY) - top + (single ? 9999 : 0));
    context.font = `10px ${FONT}`;
    context.fillStyle = colors.faint;
    context.textBaseline = "middle";
    context.textAlign = "right";
    const everyRow = Math.max(1, Math.ceil(13 / g.cellHeight));
    const stepRow = everyRow === 1 ? 1 : 2 ** Math.ceil(Math.log2(everyRow));
    for (let r = Math.ceil(rows[0] / stepRow) * stepRow; r < rows[1]; r += stepRow) {
      const label = tiles.rowLabel(box, r, stepRow, may());
      done &&= label !== null;
      const py = y + (r + 0.5) * g.cellHeight;
      if (label && py > edgeY) context.fillText(label, left + g.left - 6, Math.max(py, edgeY + 5));
    }
    context.textAlign = "center";
    const group = sheet.col_group;
    const longest = String(Math.ceil(sheet.cols / group)).length * 6 + 8;
    const every = Math.max(1, Math.ceil(Math.max(longest, g.cellWidth >= TEXT ? 22 : 14) / (group * g.cellWidth)));
    const step = group * (every === 1 ? 1 : 2 ** Math.ceil(Math.log2(every)));
    for (let c = Math.ceil(cols[0] / step) * step; c < cols[1]; c += step) {
      const label = tiles.colLabel(box, c, group, step, may());
      done &&= label !== null;
      const px = x + c * g.cellWidth + (group * g.cellWidth) / 2;
      if (label && px > edgeX) context.fillText(label, px, edgeY - 9);
    }
    context.textAlign = "left";
    if (!single && g.top > 18) {
      const caption = tiles.caption(box, may());
      done &&= caption !== null;
      context.font = `600 11px ${FONT}`;
      context.fillStyle = colors.ink;
      if (caption) context.fillText(caption, left + 2, top + 9);
    }
    const title = [sheet.row_title, sheet.col_title].filter(Boolean).join(" \\ ");
    if (title && single && title.length * 5.4 < g.left - 2) {
      context.font = `9px ${FONT}`;
      context.fillStyle = colors.faint;
      context.fillText(title, 2, g.top - 9);
    }
    return done;
  }
}

type Span = [number, number];

/// The cells of an axis between two pixels.
function span(from: number, to: number, size: number, count: number): Span {
  return [Math.max(0, Math.floor(from / size)), Math.min(count, Math.ceil(to / size))];
}

function round(context: CanvasRenderingContext2D, x: number, y: number, w: number, h: number, r: number): void {
  context.beginPath();
  context.roundRect(x, y, w, h, r);
}
