/// A move between two layouts: its loops, and its copies in order.

import { bytes, Choice, entry, fill, h, plural, refill, select, show } from "./dom";
import { ask, Refused, tryAsk, type Sheets, type Spot, type Subject } from "./engine";
import { scenes } from "./export";
import { LayoutField } from "./field";
import { tuple } from "./formula";
import type { Mark } from "./grid/grid";
import { LinkedGrids } from "./linked-grids";
import { numbers, type State, type Store } from "./state";

interface Nest { ranges: number[]; src_strides: number[]; dst_strides: number[]; src_offset: number; dst_offset: number }
interface Planned {
  nests: Nest[]; fills: number; bytes_read: number; bytes_written: number;
  runs: { elements: number; count: number }[]; cost: { lines: number; runs: number }; text: string;
}
interface Copy { nest: number; src: number; dst: number; from: Spot[]; to: Spot[] }
interface Copies { total: number; first: number; copies: Copy[] }

const EXAMPLES: [name: string, change: Partial<State>][] = [
  ["Host to sticks", { from: "size=[5, 100] stride=[100, 1]", to: "SpyreTensorLayout(device_size=[2, 5, 64], stride_map =[64, 100, 1], device_dtype=DataFormats.SEN169_FP16, host_size=[5, 100])", moveShape: "5x100", moveDtype: "float16", fill: "zero" }],
  ["Transpose", { from: "S[(16,32):(32,1)]", to: "S[(16,32):(1,16)]", moveShape: "16x32", moveDtype: "float16", fill: "leave" }],
  ["Swizzle", { from: "S[(8,64):(64,1)]", to: "Swizzle(3,3,3) o S[(8,64):(64,1)]", moveShape: "8x64", moveDtype: "float16", fill: "leave" }],
  ["Tiles of 8 × 8", { from: "S[(16,32):(32,1)]", to: "S[(2,8,4,8):(256,8,64,1)]", moveShape: "16x32", moveDtype: "float16", fill: "leave" }],
  ["Pad rows", { from: "S[(12,20):(20,1)]", to: "S[(12,32):(32,1)] valid[12,20/32]", moveShape: "12x20", moveDtype: "float32", fill: "zero" }],
];
const DTYPES = ["float32", "float16", "bfloat16", "int64", "int32", "int8"];
const FILLS = ["leave", "zero", "max", "min"];
/// The numbers of the two drawings.
const [SOURCE, DESTINATION] = [0, 1];
/// Copies that are requested, and shaded, at once.
const WINDOW = 4096;

export class MoveView {
  readonly element: HTMLElement;
  private readonly from: LayoutField;
  private readonly to: LayoutField;
  private readonly shape = entry({ size: 10, spellcheck: "false" }, (moveShape) => this.store.set({ moveShape, step: 0 }));
  private readonly dtype = new Choice("dtype", (moveDtype) => this.store.set({ moveDtype, step: 0 }));
  private readonly padding = new Choice("padding", (value) => this.store.set({ fill: value }));
  private readonly examples = h("div", { class: "segmented wrap", role: "group", "aria-label": "Examples" });
  private readonly facts = h("div", { class: "cards" });
  private readonly grids: LinkedGrids;
  private readonly slider = h("input", { type: "range", min: 0, value: 0, "aria-label": "Copies made" });
  private readonly count = h("output", { class: "mono" });
  private readonly copied = h("p", { class: "hint mono", "data-copy": "" });
  private readonly hint = h("p", { class: "hint" });
  private readonly play = h("button", { type: "button", class: "primary" }, "Play");
  private readonly back = h("button", { type: "button", class: "quiet", "aria-label": "One copy back" }, "◀");
  private readonly forth = h("button", { type: "button", class: "quiet", "aria-label": "One copy on" }, "▶");
  private readonly speed = { value: 4 };
  private copies: Copies | null = null;
  private request: object = {};
  /// What the two drawings are of.
  private ends: Subject[] = [];
  private drawn = "";
  private timer = 0;
  /// The step that the animation reached; any other step was chosen by the reader.
  private reached = 0;

  constructor(private readonly store: Store) {
    this.grids = new LinkedGrids((pick) => this.store.set({ pick }));
    this.grids.add("Source", "physical", 300, "Source");
    this.grids.add("Destination", "physical", 300, "Destination");
    this.grids.element.classList.add("stack");
    this.from = new LayoutField("Source", "", (from) => store.set({ from, step: 0 }));
    this.to = new LayoutField("Destination", "", (to) => store.set({ to, step: 0 }));
    this.play.addEventListener("click", () => (this.timer ? this.stop() : this.run()));
    this.slider.addEventListener("input", () => {
      this.stop();
      this.store.set({ step: Number(this.slider.value) });
    });
    for (const [button, by] of [[this.back, -1], [this.forth, 1]] as const) {
      button.addEventListener("click", () => {
        this.stop();
        this.store.set({ step: this.clamped(this.clamped(this.store.get().step) + by) });
      });
    }
    this.element = h("div", { class: "view" },
      h("section", { class: "editor" },
        h("div", { class: "headline" }, h("h1", {}, "Move"), h("p", { class: "summary" }, "Every movement is a pair of layouts; the engine turns it into loops.")),
        this.examples, this.from.element, this.to.element,
        h("div", { class: "controls" }, h("label", { class: "field" }, h("span", {}, "shape"), this.shape), this.dtype.element, this.padding.element)),
      h("div", { class: "player" }, this.play, this.back, this.forth, this.slider, this.count,
        select("speed", [["1", "slow"], ["4", "normal"], ["16", "fast"]], "4", (v) => (this.speed.value = Number(v)))),
      this.copied, this.hint, this.grids.caption, this.grids.element, this.facts);
  }

  themed(): void {
    this.grids.themed();
  }

  pictures(): HTMLCanvasElement[] {
    return this.grids.pictures();
  }

  svg(): string | null {
    return scenes(this.ends);
  }

  update(state: State): void {
    this.from.set(state.from);
    this.to.set(state.to);
    refill(this.examples, ...EXAMPLES.map(([name, change]) => h("button", {
      type: "button", "aria-pressed": String(Object.entries(change).every(([k, v]) => state[k as keyof State] === v)),
      onclick: () => {
        this.stop();
        this.store.set({ ...change, step: 0 });
      },
    }, name)));
    show(this.shape, state.moveShape);
    this.dtype.set(DTYPES.map((d) => [d, d] as const), state.moveDtype);
    this.padding.set(FILLS.map((f) => [f, f] as const), state.fill);
    const key = JSON.stringify([state.from, state.to, state.moveShape, state.moveDtype, state.fill]);
    // Another move, or a step that the reader chose: the animation stops and does not override it.
    if (this.timer && (key !== this.drawn || state.step !== this.reached)) this.stop();
    if (key !== this.drawn) {
      this.drawn = key;
      this.plan(state, numbers(state.moveShape));
    }
    this.grids.setPicked(state.pick === "" ? null : numbers(state.pick));
    this.show(state.step);
  }

  private plan(state: State, shape: number[] | null): void {
    this.copies = null;
    this.from.fault(null);
    this.to.fault(null);
    this.element.classList.add("stale");
    if (!shape) {
      this.from.fault({ kind: "bad_request", message: `the shape \`${state.moveShape}\` is no list of integers; write 8x64`, witness: null });
      return;
    }
    this.request = { src: state.from, dst: state.to, shape, dtype: state.moveDtype, fill: state.fill };
    let planned: Planned;
    try {
      planned = ask<Planned>("move", this.request);
      this.copies = ask<Copies>("copies", { ...this.request, first: 0, count: WINDOW });
    } catch (e) {
      if (!(e instanceof Refused)) throw e;
      const atTo = e.fault.witness?.field === "dst" || e.fault.message.startsWith("`dst`");
      (atTo ? this.to : this.from).fault(e.fault);
      return;
    }
    this.element.classList.remove("stale");
    this.ends = [];
    for (const [number, layout] of [[SOURCE, state.from], [DESTINATION, state.to]] as const) {
      // Both drawings have the colours of the source, so that an element can be followed by its colour.
      const subject: Subject = { layout, shape, dtype: state.moveDtype, color_layout: state.from };
      const info = tryAsk<Sheets>("sheets", subject);
      this.grids.show(number, subject, info);
      if (info) this.ends.push(subject);
    }
    this.slider.max = String(this.copies.total);
    this.drawFacts(planned, state, shape);
  }

  private drawFacts(planned: Planned, state: State, shape: number[]): void {
    const card = (title: string, ...body: (Node | null)[]) => h("section", { class: "card" }, h("h3", {}, title), ...body);
    const list = h("dl", { class: "facts" });
    const put = (name: string, value: string) => list.append(h("dt", {}, name), h("dd", {}, value));
    put("elements", this.copies!.total.toLocaleString("en"));
    put("read", bytes(planned.bytes_read));
    put("written", bytes(planned.bytes_written));
    put("loop nests", planned.nests.length.toLocaleString("en"));
    put("nests that fill padding", String(planned.fills));
    put("cache lines touched", planned.cost.lines.toLocaleString("en"));
    const longest = Math.max(1, ...planned.runs.map((r) => r.count));
    const runs = h("ul", { class: "runs" }, ...planned.runs.slice(0, 8).map((r) => {
      const bar = h("span", { class: "run-bar" });
      bar.style.width = `${Math.max(2, (100 * r.count) / longest)}%`;
      return h("li", {}, h("span", {}, plural(r.elements, "element")), h("span", { class: "run-track" }, bar), h("span", {}, `${r.count.toLocaleString("en")}×`));
    }));
    const nests = h("table", { class: "nests" },
      h("thead", {}, h("tr", {}, ...["ranges", "source strides", "destination strides", "starts"].map((t) => h("th", { scope: "col" }, t)))),
      h("tbody", {}, ...planned.nests.slice(0, 12).map((n) => h("tr", {},
        h("td", {}, n.ranges.join(" × ")), h("td", {}, n.src_strides.join(", ")), h("td", {}, n.dst_strides.join(", ")), h("td", {}, `${n.src_offset} → ${n.dst_offset}`)))));
    const more = planned.nests.length > 12 ? h("p", { class: "hint" }, `and ${planned.nests.length - 12} more`) : null;
    const cards: Node[] = [card("Cost", list), card("Runs that are adjacent on both sides", runs), card("Loop nests", h("div", { class: "scroll-x" }, nests), more)];
    const dci = this.descriptor(state, shape);
    if (dci) cards.push(card("Transfer descriptor (DCI)", h("pre", { class: "dci" }, dci)));
    fill(this.facts, ...cards);
  }

  /// The descriptor of a transfer to the device, where the destination is one.
  private descriptor(state: State, shape: number[]): string | null {
    const text = /device_size=\[([\d, ]+)\], stride_map =?\s?\[([-\d, ]+)\]/;
    const [device, host, direction] = text.test(state.to) ? [state.to, state.from, "h2d"] : [state.from, state.to, "d2h"];
    const match = text.exec(device);
    const strides = tryAsk<{ text?: string }>("convert", { layout: host, shape, to: "torch" })?.text;
    const stride = strides && /stride=\[([-\d, ]*)\]/.exec(strides)?.[1];
    if (!match || stride === undefined) return null;
    const list = (t: string) => t.split(",").map(Number);
    const found = tryAsk<{ dci: unknown }>("dma", {
      size: shape, stride: list(stride ?? ""), dtype: state.moveDtype, device_size: list(match[1]!), stride_map: list(match[2]!), direction,
    });
    return found ? JSON.stringify(found.dci, null, 1).replace(/\[\s+([-\d,\s"]+?)\s+\]/g, (_, inner: string) => `[${inner.replace(/\s+/g, " ")}]`) : null;
  }

  /// The state after some copies.
  private show(step: number): void {
    const copies = this.copies;
    const destination = this.grids.grid(DESTINATION);
    if (!copies) {
      for (const number of [SOURCE, DESTINATION]) this.grids.setMarks(number, []);
      destination.setFilled(null);
      return;
    }
    const done = this.clamped(step);
    this.slider.value = String(done);
    this.back.disabled = done === 0;
    this.forth.disabled = done === copies.total;
    const first = Math.max(0, done - WINDOW / 2);
    if (first < copies.first || done > copies.first + copies.copies.length) {
      const next = tryAsk<Copies>("copies", { ...this.request, first, count: WINDOW });
      if (next) this.copies = next;
    }
    const now = this.copies!;
    const made = now.copies.slice(0, Math.max(0, done - now.first));
    const last = made.at(-1);
    this.hint.hidden = done > 0 && now.first === 0;
    this.hint.textContent = done === 0
      ? "An element has the same colour on both sides. Play, or step, to see the copies in the order of the plan; point at a cell to see where it comes from or goes to."
      : `Shown as made are the last ${made.length.toLocaleString("en")} copies; earlier ones are not marked.`;
    // Before the first copy, and where earlier copies are not known, the whole destination is shown.
    destination.setFilled(done > 0 && now.first === 0 ? made.flatMap((c) => c.to) : null);
    const outline = (end: "from" | "to"): Mark[] => (last?.[end] ?? []).map((spot) => ({ side: "physical", spot, style: "now" }));
    const shaded = (end: "from" | "to"): Mark[] => made.slice(0, -1).flatMap((c) => c[end].map((spot): Mark => ({ side: "physical", spot, style: "done" })));
    this.grids.setMarks(SOURCE, [...shaded("from"), ...outline("from")]);
    this.grids.setMarks(DESTINATION, [...(now.first === 0 ? [] : shaded("to")), ...outline("to")]);
    // The element is that of the source's cell: a copy itself knows addresses only.
    const coord = (last?.from[0] && this.grids.inspect(SOURCE, last.from[0])?.elements[0]?.coord) ?? null;
    this.count.textContent = `${done.toLocaleString("en")} of ${copies.total.toLocaleString("en")}`;
    this.copied.textContent = last ? name(last, coord) : "";
    this.grids.follow(coord);
    for (const [number, spot] of [[SOURCE, last?.from[0]], [DESTINATION, last?.to[0]]] as const) {
      if (spot) this.grids.grid(number).reveal(spot);
    }
  }

  /// A step of the move that is shown; links may name others.
  private clamped(step: number): number {
    return Math.max(0, Math.min(step, this.copies?.total ?? 0));
  }

  private run(): void {
    const total = this.copies?.total ?? 0;
    if (total === 0) return;
    const now = this.clamped(this.store.get().step);
    this.reached = now >= total ? 0 : now;
    this.store.set({ step: this.reached });
    this.play.textContent = "Pause";
    const tick = () => {
      if (!this.element.isConnected) {
        this.stop();
        return;
      }
      this.reached = Math.min(total, this.reached + Math.max(1, Math.round((this.speed.value * Math.max(total, 120)) / 960)));
      this.timer = requestAnimationFrame(tick);
      this.store.set({ step: this.reached });
      if (this.reached >= total) this.stop();
    };
    this.timer = requestAnimationFrame(tick);
  }

  private stop(): void {
    cancelAnimationFrame(this.timer);
    this.timer = 0;
    this.play.textContent = "Play";
  }
}

/// A copy in words: its element and both addresses.
function name(copy: Copy, coord: number[] | null): string {
  return `${coord ? `element ${tuple(coord)}, ` : ""}${copy.src} → ${copy.dst}`;
}
