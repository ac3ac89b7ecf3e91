/// Windows of a sheet, requested once and kept while they are near.

import { ask, paint, PADDING, UNUSED, NOTHING, type Cells, type Side, type Subject, type Tone } from "../engine";

/// Cells along each edge of a window.
// Cells with texts take the engine longer than bytes, so their windows are smaller: one fits into a frame of the
// screen.
export const CELL_TILE = 16;
export const PAINT_TILE = 64;

/// The least recently used goes first.
class Cache<T> {
  private readonly map = new Map<string, T>();
  constructor(private readonly most: number) {}

  get(key: string): T | undefined {
    const found = this.map.get(key);
    if (found !== undefined) {
      // A Map iterates in the order of insertion, so inserting again makes the entry the newest.
      this.map.delete(key);
      this.map.set(key, found);
    }
    return found;
  }

  set(key: string, value: T): void {
    this.map.set(key, value);
    if (this.map.size > this.most) this.map.delete(this.map.keys().next().value!);
  }

  clear(): void {
    this.map.clear();
  }
}

export interface Painted {
  image: HTMLCanvasElement;
  /// Runs of padding: row, first column, column after the last.
  padding: [row: number, from: number, to: number][];
}

export class Tiles {
  private readonly cellTiles = new Cache<Cells>(400);
  private readonly paintTiles = new Cache<Painted>(600);
  private readonly edges = new Cache<Pick<Cells, "caption" | "row_labels" | "col_labels">>(4000);
  private colors: [number, number, number][] = [];

  constructor(readonly subject: Subject, readonly side: Side) {}

  /// The colours of the page, for cells without text.
  theme(tones: Tone[], dark: boolean, padding: string, unused: string): void {
    this.colors = tones.map((t) => rgb(dark ? t.dark_fill : t.fill));
    this.colors[PADDING] = rgb(padding);
    this.colors[UNUSED] = rgb(unused);
    // Pictures hold colours; texts do not, so their windows stay.
    this.paintTiles.clear();
  }

  /// A window of cells with their texts; null if it is not there and may not be requested now.
  cells(box: number, tileRow: number, tileCol: number, may: boolean): Cells | null {
    const key = `${box}/${tileRow}/${tileCol}`;
    let found = this.cellTiles.get(key);
    if (!found && may) {
      const rows = [tileRow * CELL_TILE, (tileRow + 1) * CELL_TILE];
      const cols = [tileCol * CELL_TILE, (tileCol + 1) * CELL_TILE];
      found = ask<Cells>("cells", { ...this.subject, side: this.side, box, rows, cols });
      this.cellTiles.set(key, found);
    }
    return found ?? null;
  }

  /// The name of a row, where one in `step` is wanted; null as for cells.
  rowLabel(box: number, row: number, step: number, may: boolean): string | null {
    // Where every label is drawn one request gives a window of them; where few are, each is a request of one row.
    const size = step < CELL_TILE ? CELL_TILE : 1;
    const from = Math.floor(row / size) * size;
    const found = this.edge(box, [from, from + size], [0, 1], may);
    return found && (found.row_labels[row - from] ?? "");
  }

  /// The name of a group of columns that begins at `col`.
  colLabel(box: number, col: number, group: number, step: number, may: boolean): string | null {
    const size = step < CELL_TILE ? CELL_TILE : 1;
    const from = Math.floor(col / size) * size;
    const found = this.edge(box, [0, 1], [from, from + size], may);
    return found && (found.col_labels[col / group - Math.ceil(from / group)] ?? "");
  }

  caption(box: number, may: boolean): string | null {
    return this.edge(box, [0, 1], [0, 1], may)?.caption ?? null;
  }

  /// A window one cell wide: its names, and few cells to compute for them.
  private edge(box: number, rows: [number, number], cols: [number, number], may: boolean): Pick<Cells, "caption" | "row_labels" | "col_labels"> | null {
    const key = `${box}/${rows}/${cols}`;
    let found = this.edges.get(key);
    if (!found && may) {
      const { caption, row_labels, col_labels } = ask<Cells>("cells", { ...this.subject, side: this.side, box, rows, cols });
      found = { caption, row_labels, col_labels };
      this.edges.set(key, found);
    }
    return found ?? null;
  }

  /// A window as a picture, one pixel per cell.
  painted(box: number, tileRow: number, tileCol: number, may: boolean): Painted | null {
    const key = `${box}/${tileRow}/${tileCol}`;
    let found = this.paintTiles.get(key);
    if (!found && may) {
      const bytes = paint(this.subject, this.side, box,
        [tileRow * PAINT_TILE, (tileRow + 1) * PAINT_TILE], [tileCol * PAINT_TILE, (tileCol + 1) * PAINT_TILE]);
      found = { image: this.picture(bytes), padding: runs(bytes) };
      this.paintTiles.set(key, found);
    }
    return found ?? null;
  }

  private picture(bytes: Uint8Array): HTMLCanvasElement {
    const image = document.createElement("canvas");
    image.width = image.height = PAINT_TILE;
    const context = image.getContext("2d")!;
    const data = context.createImageData(PAINT_TILE, PAINT_TILE);
    for (let i = 0; i < bytes.length; i++) {
      const byte = bytes[i]!;
      if (byte === NOTHING) continue;
      // Grey for a colour that the page has not been given yet, so that a picture is never a hole.
      const [r, g, b] = this.colors[byte] ?? [128, 128, 128];
      data.data.set([r, g, b, 255], 4 * i);
    }
    context.putImageData(data, 0, 0);
    return image;
  }
}

function runs(bytes: Uint8Array): [number, number, number][] {
  const found: [number, number, number][] = [];
  for (let row = 0; row < PAINT_TILE; row++) {
    for (let col = 0; col < PAINT_TILE; col++) {
      if (bytes[row * PAINT_TILE + col] !== PADDING) continue;
      const from = col;
      while (col < PAINT_TILE && bytes[row * PAINT_TILE + col] === PADDING) col++;
      found.push([row, from, col]);
    }
  }
  return found;
}

function rgb(hex: string): [number, number, number] {
  const n = parseInt(hex.slice(1), 16);
  return [(n >> 16) & 255, (n >> 8) & 255, n & 255];
}
