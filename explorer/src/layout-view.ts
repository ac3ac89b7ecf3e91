/// One layout: its text, the tensor and its places side by side, and what follows from it.

import { analysis, accessRequest } from "./analysis";
import { add, Choice, entry, fill, h, plural, say, show } from "./dom";
import { ask, hasBanks, named, Refused, tryAsk, type Conflicts, type Found, type Fault, type Inspected, type Preset, type Sheets, type Side, type Spot, type Subject } from "./engine";
import { scenes } from "./export";
import { LayoutField } from "./field";
import { formula, sentence } from "./formula";
import { Grid, type Mark } from "./grid/grid";
import type { Hit } from "./grid/geometry";
import { Links } from "./links";
import { Notations, notationNames } from "./notations";
import { numbers, readPlace, type State, type Store } from "./state";

const DTYPES = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "int64", "int32", "int16", "int8", "uint8", "bool"];
const SIDES: Side[] = ["logical", "physical", "host"];
const MODES = ["as written", "none", "32B", "64B", "128B"];

interface Touched { touched: { lane: number; coord: number[]; spots: Partial<Record<Side, Spot[]>> }[] }

/// The preset that a state shows: of two with the same text, the one with the dtype.
export function presetOf(presets: Preset[], state: State): Preset | undefined {
  const same = presets.filter((p) => p.layout === state.layout);
  return same.find((p) => p.dtype === state.dtype) ?? same[0];
}

/// The shape that a state asks for: as written, or the preset's; none leaves it to the layout, and
/// null is no shape.
export function shapeOf(presets: Preset[], state: State): number[] | undefined | null {
  return state.shape.trim() === "" ? presetOf(presets, state)?.shape : numbers(state.shape);
}

export class LayoutView {
  readonly element: HTMLElement;
  private readonly field: LayoutField;
  private readonly title = h("h1");
  private readonly facts = h("p", { class: "summary" });
  private readonly shape = entry({ size: 10, "aria-label": "Shape", placeholder: "8x64", spellcheck: "false" }, (shape) => this.store.set({ shape, pick: "", slab: "" }));
  private readonly reading = new Choice("notation", (notation) => this.store.set({ notation }));
  private readonly dtype = new Choice("dtype", (dtype) => this.chooseDtype(dtype));
  private readonly swizzle = new Choice("swizzle", (mode) => this.chooseMode(mode));
  private readonly color = new Choice("colour by", (color) => this.store.set({ color }));
  private readonly arrangement = new Choice("arrange", (arrange) => this.store.set({ arrange }));
  private readonly goal = entry({ size: 16, "aria-label": "Go to an element or a place", placeholder: "3,5 or laneid 3", spellcheck: "false", type: "search" }, (find) => this.goTo(find));
  private readonly answer = h("p", { class: "hint", role: "status" });
  private found: Found | null = null;
  private sought = "";
  private readonly sliders = h("div", { class: "sliders" });
  private readonly legend = h("div", { class: "legend" });
  private readonly notes = h("div", { class: "notes" });
  private readonly formula = h("section", { class: "formula", "aria-label": "Forward map" });
  private readonly cards = h("div", { class: "cards" });
  /// The same layout in other notations.
  readonly others = new Notations((layout, shape) => this.store.set({ layout, shape: (shape.length ? shape : this.info?.shape ?? []).join("x"), pick: "", slab: "", color: "" }));
  private readonly pair = h("div", { class: "pair" });
  private readonly links = new Links();
  private readonly grids: Record<Side, Grid>;
  private info: Sheets | null = null;
  private subject: Subject = { layout: "" };
  private hovered: Inspected | null = null;
  private picked: Inspected | null = null;
  private lanes: Mark[] = [];
  private drawing = false;
  private mode = MODES[0]!;
  private shown = "";
  private analysed = "";
  /// The pick that was last brought into view.
  private revealed = "";
  /// Milliseconds that the last answer to a hover took, for tests.
  lastHover = 0;

  constructor(private readonly store: Store, private readonly presets: Preset[]) {
    const events = {
      hover: (side: Side, hit: Hit | null) => this.hover(side, hit),
      pick: (side: Side, hit: Hit) => this.pick(side, hit),
      drag: (side: Side, hit: Hit, first: boolean) => this.drag(side, hit, first),
      drawn: () => this.connect(),
    };
    this.grids = {
      logical: new Grid("Tensor", events, 580),
      physical: new Grid("Places", events, 580),
      host: new Grid("Host memory", events, 260),
    };
    this.field = new LayoutField("Layout", "",
      (layout) => {
        // A preset may be written by its name, as for the program.
        const preset = this.presets.find((p) => p.name === layout.trim());
        const text = preset ? { layout: preset.layout, notation: "", dtype: preset.dtype } : { layout, notation: this.store.get().notation };
        this.store.set({ ...text, shape: "", pick: "", slab: "", color: "", find: "" });
      },
      (chosen) => this.store.set({ ...chosen, pick: "", slab: "", color: "" }));
    this.reading.element.classList.add("reading");
    this.grids.logical.element.querySelector(".grid-head")!.after(this.sliders);
    add(this.pair, this.grids.logical.element, this.grids.physical.element, this.grids.host.element, this.links.element);
    this.element = h("div", { class: "view" },
      h("section", { class: "editor" },
        h("div", { class: "headline" }, this.title, this.facts),
        this.field.element,
        h("div", { class: "controls" }, h("label", { class: "field" }, h("span", {}, "shape"), this.shape),
          this.dtype.element, this.reading.element, this.swizzle.element, this.color.element, this.arrangement.element,
          h("label", { class: "field" }, h("span", {}, "go to"), this.goal)),
        this.answer),
      this.pair, this.legend, this.notes, this.formula, this.others.element, this.cards);
    addEventListener("scroll", () => this.connect(), { passive: true });
    addEventListener("resize", () => this.connect());
  }

  get sheets(): Sheets | null {
    return this.info;
  }

  pictures(): HTMLCanvasElement[] {
    return this.info ? SIDES.filter((s) => !this.grids[s].element.hidden).map((s) => this.grids[s].picture) : [];
  }

  svg(): string | null {
    return this.info ? scenes([this.subject]) : null;
  }

  grid(side: Side): Grid {
    return this.grids[side];
  }

  themed(): void {
    for (const side of SIDES) this.grids[side].themed();
  }

  /// Shows a state. An error of the engine is shown under the text; the last drawing stays.
  update(state: State): void {
    this.field.set(state.layout);
    const preset = presetOf(this.presets, state);
    const shape = shapeOf(this.presets, state);
    if (shape === null) {
      this.refuse(state, { kind: "bad_request", message: `the shape \`${state.shape}\` is no list of integers; write 8x64`, witness: null });
      return;
    }
    const subject: Subject = {
      layout: state.layout, dtype: state.dtype, ...(state.notation ? { notation: state.notation } : {}),
      ...(shape ? { shape } : {}), ...(state.color ? { color_by: state.color } : {}),
    };
    const key = JSON.stringify(subject);
    let info: Sheets;
    try {
      info = this.shown === key && this.info ? this.info : ask<Sheets>("sheets", subject);
    } catch (e) {
      if (!(e instanceof Refused)) throw e;
      this.refuse(state, e.fault, subject);
      return;
    }
    this.field.fault(null);
    info.indices = preset?.group === "CuTe atoms";
    this.field.note(info.indices ? "From (thread, value) to a number: of an element in the tile, or of a bit that is copied. It is no memory, and has no banks." : info.note);
    this.element.classList.remove("stale", "empty");
    const fresh = this.shown !== key;
    this.subject = subject;
    this.info = info;
    this.shown = key;
    this.title.textContent = preset && preset.shape.join() === info.shape.join() ? preset.title : "A layout of your own";
    if (fresh) this.mode = hasBanks(info) ? this.modeOf(info) : MODES[0]!;
    // An access is drawn over memory, and while no other is chosen.
    if (!hasBanks(info) || !state.access.startsWith("lanes")) this.draw(false);
    this.drawControls(state, info);
    const only = this.drawSliders(state, info);
    this.arrange(state, info);
    if (fresh) {
      this.hovered = null;
      for (const side of SIDES) this.grids[side].show(subject, info, side, side === "logical" ? only : null);
    } else {
      this.grids.logical.setOnly(only);
    }
    this.drawLegend(info);
    this.inspectPick(state);
    this.search(state, info);
    this.reveal(state);
    this.analyse(state, info);
    this.showFormula();
    this.mark();
  }

  /// Costs and facts, again only where something that they depend on changed.
  private analyse(state: State, info: Sheets): void {
    const key = JSON.stringify([this.shown, state.access, state.vector, this.drawing]);
    if (key === this.analysed) return;
    this.analysed = key;
    this.access(state);
    this.others.show({ ...this.subject, shape: info.shape }, info.notation);
    analysis(this.cards, { ...this.subject, shape: info.shape }, info, state, this.drawing, {
      change: (a) => this.store.set(a),
      open: (layout) => this.store.set({ layout, shape: info.shape.join("x"), color: state.color }),
      drawing: (on) => {
        this.draw(on);
        // What was drawn stays until another access is chosen.
        const drawn = accessRequest(this.store.get().access) !== null;
        this.store.set(on ? { access: "lanes" } : drawn ? {} : { access: "column 0" });
      },
    });
    this.summarize(info, state);
  }

  /// Goes to what was written: an element is picked, the elements of a place are outlined.
  private goTo(find: string): void {
    const coord = numbers(find);
    const info = this.info;
    if (!coord?.length || !info || coord.length !== info.shape.length || coord.some((c, i) => c < 0 || c >= info.shape[i]!)) {
      this.store.set({ find });
      return;
    }
    this.revealed = "";
    this.store.set({ find, pick: coord.join(","), ...(coord.length > 2 ? { slab: coord.slice(0, -2).join(",") } : {}) });
  }

  /// Looks for the elements of the place that is searched for, and says what was found.
  private search(state: State, info: Sheets): void {
    show(this.goal, state.find);
    const key = JSON.stringify([this.shown, state.find]);
    if (key === this.sought) return;
    this.sought = key;
    this.found = null;
    const text = state.find.trim();
    const tell = (message: string, wrong = false) => {
      this.answer.textContent = message;
      this.answer.className = wrong ? "error" : "hint";
      this.answer.hidden = message === "";
    };
    if (text === "") return tell("");
    const axes = info.axes.map((a) => a.name);
    const example = `${info.shape.map(() => "0").join(",")}${axes.length ? ` or ${axes[0]} 3` : ""}`;
    const coord = numbers(text);
    if (coord?.length) {
      if (coord.length !== info.shape.length) return tell(`An element of this tensor has ${plural(info.shape.length, "index").replace("indexs", "indices")}; write ${example}.`, true);
      const outside = coord.findIndex((c, i) => c < 0 || c >= info.shape[i]!);
      return outside < 0 ? tell("") : tell(`Index ${coord[outside]} of dimension ${outside} is outside of 0 to ${info.shape[outside]! - 1}.`, true);
    }
    const place = readPlace(text);
    if (!place) return tell(`\`${text}\` is neither an element nor a place; write ${example}.`, true);
    try {
      this.found = ask<Found>("find", { ...this.subject, place });
    } catch (e) {
      if (!(e instanceof Refused)) throw e;
      return tell(e.fault.message, true);
    }
    const first = this.found.elements[0];
    tell(`${text}: ${plural(this.found.count, "element")}${this.found.count > this.found.elements.length ? `, the first ${this.found.elements.length} are outlined` : first ? ", outlined" : ""}.`);
    for (const side of first ? SIDES : []) {
      const spot = first!.spots[side]?.[0];
      if (spot) this.grids[side].reveal(spot);
    }
  }

  private draw(on: boolean): void {
    this.drawing = on;
    this.grids.logical.dragging = on;
  }

  /// Brings the element of a link into view; one that was clicked is there already.
  private reveal(state: State): void {
    if (this.revealed === state.pick) return;
    this.revealed = state.pick;
    for (const side of SIDES) {
      const spot = this.picked?.elements[0]?.spots[side]?.[0];
      if (spot) this.grids[side].reveal(spot);
    }
  }

  private refuse(state: State, fault: Fault, subject?: Subject): void {
    const asked = this.field.fault(fault, subject);
    this.element.classList.add("stale");
    this.element.classList.toggle("empty", this.info === null);
    this.hovered = null;
    this.analysed = "";
    this.links.clear();
    fill(this.facts);
    this.drawControls(state, this.info);
    const text = fault.witness?.span !== undefined || fault.witness?.field === "layout";
    this.others.clear();
    this.title.textContent = asked ?? (text ? "This text is no layout yet" : "This cannot be drawn yet");
  }

  private summarize(info: Sheets, state: State): void {
    const parts = [`${info.shape.join(" × ") || "scalar"}`, plural(info.size, "element"), info.element_from_text ? info.element : state.dtype, info.notation === "tirx" ? "" : `${info.notation} notation`];
    fill(this.facts, parts.filter(Boolean).join(" · "));
    const access = hasBanks(info) ? accessRequest(state.access) : null;
    const result = access && tryAsk<Conflicts>("conflicts", { ...named(this.subject), dtype: state.dtype, shape: info.shape, access, vector: state.vector });
    if (!result) return;
    const name = state.access.startsWith("lanes") ? "drawn access" : state.access;
    add(this.facts, h("span", { class: `chip ${result.conflict_free ? "good" : "bad"}` },
      `${name}: ${result.conflict_free ? "no" : `${result.ways}-way`} bank conflict`));
  }

  /// The boxes around the text; without a drawing there is no shape of its own to show.
  private drawControls(state: State, info: Sheets | null): void {
    // The new shape is not that of the drawing that stays.
    show(this.shape, state.shape || (this.element.classList.contains("stale") ? "" : info?.shape.join("x") ?? ""));
    const own = info && !this.element.classList.contains("stale") ? ` (${info.notation})` : "";
    this.reading.set([["", `automatic${own}`], ...notationNames().map(([n, title]) => [n, `${n}: ${title}`] as const)], state.notation);
    // Where the text says the width of its elements, another dtype would change nothing that is drawn.
    const said = info?.element_from_text && !this.element.classList.contains("stale");
    this.dtype.set(said ? [[state.dtype, `${info.bits} bits (of the text)`]] : DTYPES.map((d) => [d, d] as const), state.dtype);
    this.swizzle.element.hidden = !info || !hasBanks(info);
    if (info && hasBanks(info)) this.swizzle.set(MODES.map((m) => [m, m] as const), this.mode);
    this.color.set([["", info ? `automatic (${info.color_by})` : "automatic"], ...(info?.color_choices ?? []).map((c) => [c, c] as const)], state.color);
    this.arrangement.set([["auto", "automatic"], ["side", "side by side"], ["stack", "stacked"]], state.arrange);
  }

  /// The swizzle mode that a layout has.
  private modeOf(info: Sheets): string {
    return MODES.slice(1).find((mode) => this.swizzled(info, mode) === info.layout) ?? MODES[0]!;
  }

  private swizzled(info: Sheets, mode: string, dtype = this.subject.dtype): string | undefined {
    return tryAsk<{ layout: string }>("swizzle", { ...named(this.subject), as: "tirx", shape: info.shape, dtype, mode })?.layout;
  }

  /// The swizzle mode that was chosen stays, though it moves other units of elements of another width.
  private chooseDtype(dtype: string): void {
    const info = this.element.classList.contains("stale") ? null : this.info;
    const mode = info && hasBanks(info) ? this.modeOf(info) : MODES[0]!;
    const layout = info && mode !== MODES[0] ? this.swizzled(info, mode, dtype) : undefined;
    this.store.set(layout ? { dtype, layout, shape: info!.shape.join("x") } : { dtype });
  }

  private chooseMode(mode: string): void {
    const layout = this.info && mode !== MODES[0] ? this.swizzled(this.info, mode) : undefined;
    if (layout) this.store.set({ layout, shape: this.info!.shape.join("x") });
    else this.update(this.store.get());
  }

  /// One slider per dimension before the last two; answers which slab is shown.
  private drawSliders(state: State, info: Sheets): number {
    const { sliders } = info.sheets.find((s) => s.side === "logical")!;
    const wanted = numbers(state.slab) ?? [];
    const slab = sliders.map(([, extent], i) => Math.max(0, Math.min(extent - 1, wanted[i] ?? 0)));
    if (this.sliders.childElementCount !== sliders.length) fill(this.sliders, ...sliders.map((_, i) => this.slider(i)));
    sliders.forEach(([name, extent], i) => {
      const [title, input, output] = this.sliders.children[i]!.children as unknown as [HTMLElement, HTMLInputElement, HTMLElement];
      title.textContent = name;
      input.setAttribute("aria-label", `${name}, 0 to ${extent - 1}`);
      input.max = String(extent - 1);
      input.value = output.textContent = String(slab[i]);
    });
    return sliders.reduce((n, [, extent], i) => n * extent + slab[i]!, 0);
  }

  private slider(i: number): HTMLElement {
    const input = h("input", {
      type: "range", min: 0,
      oninput: () => {
        const next = [...(numbers(this.store.get().slab) ?? [])];
        while (next.length < this.sliders.childElementCount) next.push(0);
        next[i] = Number(input.value);
        this.store.set({ slab: next.join(",") });
      },
    });
    return h("label", { class: "slider" }, h("span"), input, h("output"));
  }

  private arrange(state: State, info: Sheets): void {
    const wide = info.sheets.filter((s) => s.side !== "host").some((s) => s.cols * s.col_group > 2.6 * s.rows && s.cols > 24);
    const stack = state.arrange === "stack" || (state.arrange !== "side" && wide);
    this.pair.classList.toggle("stack", stack);
    // Stacked drawings share the height of a screen.
    for (const side of SIDES) this.grids[side].setMost(side === "host" ? 260 : stack ? 320 : 580);
  }

  private drawLegend(info: Sheets): void {
    const tones = info.tones.map((t) => {
      const box = h("span", { class: "swatch" }, t.label);
      box.style.setProperty("--fill", t.fill);
      box.style.setProperty("--fg", t.ink);
      box.style.setProperty("--dark-fill", t.dark_fill);
      box.style.setProperty("--dark-fg", t.dark_ink);
      return box;
    });
    fill(this.legend, h("span", { class: "legend-title" }, `colour: ${info.color_by}`), ...tones,
      info.tones_repeat ? h("span", { class: "dim" }, "and again from the start") : null);
    const padded = info.sheets.some((s) => s.side === "physical") && info.sticks;
    if (padded) this.legend.append(h("span", { class: "swatch hatched" }, "padding"));
    if (info.label_key) this.legend.append(h("span", { class: "dim" }, info.label_key));
    const notes = info.sheets.flatMap((s) => s.notes);
    fill(this.notes, ...notes.map((n) => h("p", { class: "hint" }, n)));
  }

  private inspectPick(state: State): void {
    const coord = state.pick === "" ? null : numbers(state.pick);
    this.picked = coord ? tryAsk<Inspected>("inspect", { ...this.subject, coord }) : null;
  }

  private hover(side: Side, hit: Hit | null): void {
    const before = performance.now();
    this.hovered = hit
      ? tryAsk<Inspected>("inspect", { ...this.subject, side, box: hit.box, row: hit.row, col: hit.col })
      : null;
    this.showFormula();
    this.mark();
    this.lastHover = performance.now() - before;
    if (this.hovered && document.activeElement?.classList.contains("scroller")) say(sentence(this.hovered));
  }

  private pick(side: Side, hit: Hit): void {
    const found = tryAsk<Inspected>("inspect", { ...this.subject, side, box: hit.box, row: hit.row, col: hit.col });
    const element = found?.elements[0];
    if (!element) {
      this.store.set({ pick: "" });
      if (found) say(sentence(found));
      return;
    }
    const pick = element.coord.join(",");
    const again = this.store.get().pick === pick;
    this.revealed = again ? "" : pick;
    // A picked place brings its element into view, slab included.
    const lead = element.coord.slice(0, -2);
    this.store.set({ pick: again ? "" : pick, ...(side !== "logical" && lead.length ? { slab: lead.join(",") } : {}) });
    say(again ? "Nothing is picked." : sentence(found!));
    if (!again) {
      for (const other of SIDES) {
        const spot = element.spots[other]?.[0];
        if (other !== side && spot) this.grids[other].reveal(spot);
      }
    }
  }

  private drag(side: Side, hit: Hit, first: boolean): void {
    if (side !== "logical") return;
    const found = tryAsk<Inspected>("inspect", { ...this.subject, side, box: hit.box, row: hit.row, col: hit.col });
    const coord = found?.elements[0]?.coord;
    if (!coord) return;
    const text = coord.join(",");
    const words = first ? ["lanes"] : this.store.get().access.split(/\s+/);
    if (words[0] !== "lanes" || words.includes(text) || words.length > 256) return;
    this.store.set({ access: [...words, text].join(" ") });
  }

  /// The cells that the access touches, with their lanes.
  private access(state: State): void {
    this.lanes = [];
    const info = this.info!;
    const access = hasBanks(info) ? accessRequest(state.access) : null;
    if (!access) return;
    const found = tryAsk<Touched>("lanes", { ...this.subject, shape: info.shape, access, vector: state.vector });
    for (const t of found?.touched ?? []) {
      for (const side of SIDES) {
        for (const spot of t.spots[side] ?? []) this.lanes.push({ side, spot, style: "lane", text: String(t.lane) });
      }
    }
  }

  private showFormula(): void {
    formula(this.formula, this.hovered ?? this.picked);
  }

  private mark(): void {
    const marks: Mark[] = [...this.lanes];
    const put = (found: Inspected | null, style: Mark["style"]) => {
      for (const element of found?.elements.slice(0, 64) ?? []) {
        for (const side of SIDES) for (const spot of element.spots[side] ?? []) marks.push({ side, spot, style });
      }
    };
    for (const element of this.found?.elements ?? []) {
      for (const side of SIDES) for (const spot of element.spots[side] ?? []) marks.push({ side, spot, style: "found" });
    }
    put(this.picked, "pick");
    put(this.hovered, "hover");
    for (const side of SIDES) this.grids[side].mark(marks);
    this.connect();
  }

  /// Curves from the element to its places.
  private connect(): void {
    const found = this.hovered?.elements.length ? this.hovered : this.picked;
    const element = found?.elements[0];
    const from = element?.spots.logical?.[0];
    const start = from && this.grids.logical.onScreen(from);
    if (!element || !start || this.element.classList.contains("stale")) {
      this.links.clear();
      return;
    }
    const ends = (element.spots.physical ?? []).map((s) => this.grids.physical.onScreen(s)).filter((r) => r !== null);
    this.links.draw(this.pair, ends.map((end) => [start, end]));
  }
}
