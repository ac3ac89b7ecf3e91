/// One sheet on a canvas: scrolled, zoomed, pointed at. Cells are requested when they become visible.

import { h } from "../dom";
import type { Sheet, Sheets, Side, Spot, Subject } from "../engine";
import { palette, type Palette } from "../theme";
import { Geometry, ZOOMS, cellWidth, type Hit, type Rect } from "./geometry";
import { cellKey, Painter, type Mark } from "./painter";
import { CELL_TILE, Tiles } from "./tiles";

export type { Mark } from "./painter";

export interface GridEvents {
  hover(side: Side, hit: Hit | null): void;
  pick(side: Side, hit: Hit): void;
  /// Cells were drawn over with the button held.
  drag?(side: Side, hit: Hit, first: boolean): void;
  /// The drawing changed, and the marks over it must follow.
  drawn?(): void;
}

export class Grid {
  readonly element: HTMLElement;
  readonly scroller: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly spacer: HTMLElement;
  private readonly heading: HTMLElement;
  private readonly zoomText: HTMLElement;
  private readonly context: CanvasRenderingContext2D;
  private readonly events: GridEvents;
  private most: number;
  private tiles: Tiles | null = null;
  private info: Sheets | null = null;
  private sheet: Sheet | null = null;
  private geometry: Geometry | null = null;
  private marks: Mark[] = [];
  private filled: Set<number> | null = null;
  private only: number | null = null;
  private zoom = 0;
  private fitted = 0;
  private label = 0;
  private left = 40;
  private hit: Hit | null = null;
  private cursor: Hit = { box: 0, row: 0, col: 0 };
  private frame = 0;
  private colors: Palette = palette();
  private width = 0;
  private drawing = false;

  /// `most` is the greatest height in pixels; `role` names the sheet, where two are alike.
  constructor(name: string, events: GridEvents, most: number, private readonly role = "") {
    this.events = events;
    this.most = most;
    this.canvas = h("canvas");
    this.context = this.canvas.getContext("2d")!;
    this.spacer = h("div", { class: "spacer" }, this.canvas);
    this.scroller = h("div", {
      class: "scroller", tabindex: 0, role: "application", "aria-label": name,
      "aria-roledescription": "grid of cells",
    }, this.spacer);
    this.heading = h("h2", {}, name);
    this.zoomText = h("span", { class: "zoom-text" });
    const button = (text: string, label: string, act: () => void) =>
      h("button", { class: "quiet", type: "button", "aria-label": label, title: label, onclick: act }, text);
    this.element = h("section", { class: "grid-card", "data-grid": name },
      h("div", { class: "grid-head" }, this.heading,
        h("div", { class: "zoom" },
          button("−", `Zoom out: ${name}`, () => this.step(-1)),
          this.zoomText,
          button("+", `Zoom in: ${name}`, () => this.step(1)),
          button("Fit", `Fit: ${name}`, () => this.setZoom(this.fitted)))),
      this.scroller);
    this.listen();
    // After the frame: a drawing that sets its own height is no loop then.
    new ResizeObserver(() => requestAnimationFrame(() => this.resized())).observe(this.scroller);
  }

  /// Shows a sheet of a layout; `only` is the one box to show.
  show(subject: Subject, info: Sheets, side: Side, only: number | null): void {
    const sheet = info.sheets.find((s) => s.side === side) ?? null;
    const same = this.sheet && sheet && this.sheet.rows === sheet.rows && this.sheet.cols === sheet.cols &&
      this.sheet.boxes === sheet.boxes && this.sheet.span === sheet.span && this.zoom > 0;
    this.info = info;
    this.sheet = sheet;
    this.only = only;
    this.hit = null;
    this.element.hidden = !sheet;
    if (!sheet) return;
    this.tiles = new Tiles(subject, side);
    this.themed(false);
    // An atom has threads and values, and no memory.
    const atom = side === "logical" ? `Threads × values (${info.shape.join(" × ")})` : "Numbers";
    const own = info.indices ? atom : sheet.title;
    const title = this.role ? `${this.role} · ${own}` : own;
    this.heading.textContent = title;
    this.scroller.setAttribute("aria-label",
      `${title}: ${sheet.rows} rows, ${sheet.cols} columns${sheet.boxes > 1 ? `, ${sheet.boxes} boxes` : ""}. Arrow keys move, Enter picks.`);
    this.measure();
    // Only a size that was chosen is kept.
    const chosen = this.zoom !== this.fitted;
    this.fitted = this.fit();
    if (!same || !chosen) this.zoom = this.fitted;
    if (!same) {
      this.cursor = { box: only ?? 0, row: 0, col: 0 };
    } else {
      this.cursor.box = only ?? Math.min(this.cursor.box, sheet.boxes - 1);
    }
    this.arrange();
    if (!same) this.scroller.scrollTo(0, 0);
  }

  /// Where the page's colours changed. Paper does not wait for a frame.
  themed(redraw = true): void {
    this.colors = palette();
    if (this.tiles && this.info) this.tiles.theme(this.info.tones, this.colors.dark, this.colors.padding, this.colors.unused);
    if (redraw) this.draw();
  }

  mark(marks: Mark[]): void {
    const side = this.sheet?.side;
    this.marks = marks.filter((m) => m.side === side);
    this.later();
  }

  /// Draws the cells of these spots as they are and all others pale; without spots all are as they are.
  setFilled(spots: Spot[] | null): void {
    const { sheet } = this;
    this.filled = sheet && spots && new Set(spots.flatMap((s) => Array.from({ length: s.span }, (_, i) => cellKey(sheet, s.box, s.row, s.col + i))));
    this.later();
  }

  /// The greatest height in pixels.
  setMost(most: number): void {
    if (most === this.most) return;
    this.most = most;
    if (this.sheet) this.refit();
  }

  setOnly(only: number): void {
    this.only = only;
    this.cursor.box = only;
    this.arrange();
  }

  /// The spot in pixels of the window, if it can be seen.
  onScreen(spot: Spot): Rect | null {
    const rect = this.geometry?.rect(spot);
    if (!rect || !this.geometry) return null;
    const { x, y } = this.offset();
    const box = this.canvas.getBoundingClientRect();
    const seen = { x: rect.x - x, y: rect.y - y };
    const sticky = this.geometry.count === 1;
    const inside = seen.x + rect.width > (sticky ? this.geometry.left : 0) && seen.y + rect.height > (sticky ? this.geometry.top : 0) &&
      seen.x < box.width && seen.y < box.height;
    return inside ? { x: box.x + seen.x, y: box.y + seen.y, width: rect.width, height: rect.height } : null;
  }

  /// Scrolls a spot into view.
  reveal(spot: Spot): void {
    const rect = this.geometry?.rect(spot);
    if (!rect || !this.geometry) return;
    const { x, y } = this.offset();
    const width = this.scroller.clientWidth;
    const height = this.scroller.clientHeight;
    const left = rect.x - x < this.geometry.left || rect.x + rect.width - x > width;
    const top = rect.y - y < this.geometry.top || rect.y + rect.height - y > height;
    if (left || top) this.scrollTo(left ? rect.x - width / 2 : x, top ? rect.y - height / 2 : y);
  }

  setZoom(zoom: number): void {
    const before = this.geometry;
    if (!before || !this.sheet) return;
    const { x, y } = this.offset();
    const centre = before.hit(x + this.scroller.clientWidth / 2, y + this.scroller.clientHeight / 2);
    this.zoom = zoom;
    this.arrange();
    const rect = centre && this.geometry?.rect({ ...centre, span: 1 });
    if (rect) this.scrollTo(rect.x - this.scroller.clientWidth / 2, rect.y - this.scroller.clientHeight / 2);
  }

  /// Whether the pointer and Enter draw an access, and do not pick.
  get dragging(): boolean {
    return this.drawing;
  }

  set dragging(on: boolean) {
    this.drawing = on;
    // A finger that draws does not scroll.
    this.canvas.style.touchAction = on ? "none" : "";
  }

  get zoomNow(): number {
    return this.zoom;
  }

  /// The drawing as it is on the screen, for a picture.
  get picture(): HTMLCanvasElement {
    return this.canvas;
  }

  private step(by: number): void {
    const at = ZOOMS.findIndex((z) => z >= this.zoom);
    this.setZoom(ZOOMS[Math.max(0, Math.min(ZOOMS.length - 1, at + by))]!);
  }

  /// How wide texts are, from the first and last windows.
  private measure(): void {
    const { sheet, tiles } = this;
    if (!sheet || !tiles || sheet.boxes === 0) return;
    const box = this.only ?? 0;
    const last = { row: Math.floor((sheet.rows - 1) / CELL_TILE), col: Math.floor((sheet.cols - 1) / CELL_TILE) };
    let label = 2;
    let left = 2;
    for (const [row, col] of [[0, 0], [last.row, last.col]] as const) {
      const found = tiles.cells(box, row, col, true);
      for (const cell of found?.cells ?? []) label = Math.max(label, cell.label.length);
      for (const text of found?.row_labels ?? []) left = Math.max(left, text.length);
    }
    // One letter of the font is 0.6 of its size of 10 pixels.
    this.label = Math.ceil(label * 6.05) + 8;
    this.left = Math.ceil(left * 6.05) + 14;
  }

  /// The largest cells with which everything is seen; small ones where nothing helps.
  private fit(): number {
    const sheet = this.sheet!;
    const width = this.scroller.clientWidth || this.element.clientWidth || 600;
    for (const zoom of [...ZOOMS].reverse()) {
      if (zoom > 40 || zoom < 3) continue;
      const g = this.make(zoom, width);
      const wide = cellWidth(zoom, this.label, sheet.span) > 3 * zoom;
      if (g.width <= width && g.height <= this.most && !wide) return zoom;
    }
    // Everything cannot be seen at once: cells that can still be told apart.
    const rowsFit = ZOOMS.filter((z) => this.make(z, width).width <= width);
    return Math.max(4, ...rowsFit.filter((z) => z <= 12));
  }

  private make(zoom: number, available: number): Geometry {
    const sheet = this.sheet!;
    return new Geometry({
      sheet, zoom, available, only: this.only, label: this.label, left: this.left,
      captions: this.only === null && sheet.boxes > 1,
    });
  }

  private arrange(): void {
    if (!this.sheet) return;
    const width = this.scroller.clientWidth || 600;
    this.width = width;
    this.geometry = this.make(this.zoom, width);
    const bar = this.geometry.width > width ? 14 : 0;
    this.scroller.style.height = `${Math.max(56, Math.min(this.most, this.geometry.height + bar + 2))}px`;
    this.spacer.style.width = `${Math.max(this.geometry.scrollWidth, 10)}px`;
    this.spacer.style.height = `${Math.max(this.geometry.scrollHeight, 10)}px`;
    this.zoomText.textContent = `${this.zoom} px`;
    this.later();
  }

  private resized(): void {
    if (!this.sheet || !this.scroller.clientWidth) return;
    if (this.scroller.clientWidth === this.width) {
      this.later();
      return;
    }
    this.refit();
  }

  /// Sizes for the room that there is; one that was chosen stays.
  private refit(): void {
    const chosen = this.zoom !== this.fitted;
    this.fitted = this.fit();
    if (!chosen) this.zoom = this.fitted;
    this.arrange();
  }

  /// The content at the corner of the view. Past the longest scroll bar, pixels stand for more.
  private offset(): { x: number; y: number } {
    const g = this.geometry!;
    const s = this.scroller;
    const scale = (at: number, bar: number, all: number, view: number) =>
      all <= bar || bar <= view ? at : at * ((all - view) / (bar - view));
    return {
      x: scale(s.scrollLeft, g.scrollWidth, g.width, s.clientWidth),
      y: scale(s.scrollTop, g.scrollHeight, g.height, s.clientHeight),
    };
  }

  private scrollTo(x: number, y: number): void {
    const g = this.geometry!;
    const s = this.scroller;
    const scale = (at: number, bar: number, all: number, view: number) =>
      all <= bar || all <= view ? at : at * ((bar - view) / (all - view));
    s.scrollTo(scale(x, g.scrollWidth, g.width, s.clientWidth), scale(y, g.scrollHeight, g.height, s.clientHeight));
  }

  private locate(event: PointerEvent | MouseEvent): Hit | null {
    if (!this.geometry) return null;
    const box = this.canvas.getBoundingClientRect();
    const [px, py] = [event.clientX - box.x, event.clientY - box.y];
    if (this.geometry.count === 1 && (px < this.geometry.left || py < this.geometry.top)) return null;
    const { x, y } = this.offset();
    return this.geometry.hit(px + x, py + y);
  }

  private listen(): void {
    const side = () => this.sheet?.side ?? "logical";
    this.scroller.addEventListener("scroll", () => this.later(), { passive: true });
    let held = false;
    const move = (e: PointerEvent) => {
      const hit = this.locate(e);
      if (hit?.box === this.hit?.box && hit?.row === this.hit?.row && hit?.col === this.hit?.col) return;
      this.hit = hit;
      if (held && hit && this.dragging) this.events.drag?.(side(), hit, false);
      else this.events.hover(side(), hit);
    };
    this.canvas.addEventListener("pointermove", (e) => {
      // A quick stroke is a few events with many points each; no cell under it is left out.
      const points = held && this.dragging ? e.getCoalescedEvents() : [];
      for (const point of points.length ? points : [e]) move(point);
    });
    this.canvas.addEventListener("pointerleave", () => {
      this.hit = null;
      this.events.hover(side(), null);
    });
    this.canvas.addEventListener("pointerdown", (e) => {
      const hit = this.locate(e);
      if (!hit || e.button !== 0) return;
      if (this.dragging) {
        held = true;
        this.canvas.setPointerCapture(e.pointerId);
        this.events.drag?.(side(), hit, true);
      }
    });
    for (const end of ["pointerup", "pointercancel"] as const) addEventListener(end, () => (held = false));
    this.canvas.addEventListener("click", (e) => {
      const hit = this.locate(e);
      if (hit && !this.dragging) {
        this.cursor = hit;
        this.events.pick(side(), hit);
      }
    });
    this.scroller.addEventListener("wheel", (e) => {
      if (!e.ctrlKey) return;
      e.preventDefault();
      this.step(e.deltaY < 0 ? 1 : -1);
    }, { passive: false });
    this.scroller.addEventListener("keydown", (e) => this.key(e));
    this.scroller.addEventListener("focus", () => this.later());
    this.scroller.addEventListener("blur", () => {
      // What the keyboard pointed at is left with it.
      if (!this.hit) this.events.hover(side(), null);
      this.later();
    });
  }

  private key(e: KeyboardEvent): void {
    const sheet = this.sheet;
    if (!sheet || e.ctrlKey || e.metaKey || e.altKey) return;
    const c = { ...this.cursor };
    const jump = e.shiftKey ? 8 : 1;
    switch (e.key) {
      case "ArrowLeft": c.col -= jump * sheet.span; break;
      case "ArrowRight": c.col += jump * sheet.span; break;
      case "ArrowUp": c.row -= jump; break;
      case "ArrowDown": c.row += jump; break;
      case "Home": c.col = 0; break;
      case "End": c.col = sheet.cols - 1; break;
      case "PageUp": c.row -= 16; break;
      case "PageDown": c.row += 16; break;
      case "+": case "=": this.step(1); e.preventDefault(); return;
      case "-": this.step(-1); e.preventDefault(); return;
      case "0": this.setZoom(this.fitted); e.preventDefault(); return;
      case "Enter": case " ":
        if (this.dragging) this.events.drag?.(sheet.side, c, false);
        else this.events.pick(sheet.side, c);
        e.preventDefault();
        return;
      default: return;
    }
    e.preventDefault();
    // Past the end of a box its neighbour begins.
    if (this.only === null && sheet.boxes > 1) {
      if (c.col < 0 && c.box > 0) { c.box--; c.col = sheet.cols - 1; }
      if (c.col >= sheet.cols && c.box < sheet.boxes - 1) { c.box++; c.col = 0; }
    }
    c.row = Math.max(0, Math.min(sheet.rows - 1, c.row));
    c.col = Math.max(0, Math.min(sheet.cols - 1, c.col));
    this.cursor = c;
    this.reveal({ ...c, span: 1 });
    this.events.hover(sheet.side, c);
    this.later();
  }

  private later(): void {
    if (!this.frame) this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  private draw(): void {
    const { sheet, geometry: g, tiles, context, scroller } = this;
    // A drawing that becomes visible again is drawn anew then.
    if (!sheet || !g || !tiles || !this.element.isConnected) return;
    const [width, height] = [scroller.clientWidth, scroller.clientHeight];
    const ratio = devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = this.colors.surface;
    context.fillRect(0, 0, width, height);
    const painter = new Painter(context, {
      sheet, geometry: g, tiles, tones: this.info!.tones, marks: this.marks, filled: this.filled, zoom: this.zoom, colors: this.colors,
      cursor: document.activeElement === scroller ? this.cursor : null,
    });
    if (!painter.paint({ ...this.offset(), width, height })) this.later();
    this.events.drawn?.();
  }
}
