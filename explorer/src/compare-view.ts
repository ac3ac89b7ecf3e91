/// Two layouts of one tensor, in any two notations: whether they are the same function, where they differ, what each costs.

import { fill, h, plural, refill } from "./dom";
import { ask, hasBanks, named, Refused, tryAsk, type Conflicts, type Place, type Preset, type Sheets, type Spot, type Subject } from "./engine";
import { accessRequest } from "./analysis";
import { scenes } from "./export";
import { LayoutField } from "./field";
import { placeText, tuple } from "./formula";
import type { Mark } from "./grid/grid";
import { shapeOf } from "./layout-view";
import { LinkedGrids } from "./linked-grids";
import { numbers, type State, type Store } from "./state";

interface Difference { coord: number[]; a: Place[]; b: Place[] }
interface Differences { equal: boolean; differences: Difference[]; complete: boolean }

/// Differences that are requested and outlined.
const MOST_LISTED = 512;
/// Accesses whose costs stand side by side.
const ACCESSES = ["column 0", "row 0", "ldmatrix 0 0"];

const SIDES = [["tensor in A", "logical", "A"], ["tensor in B", "logical", "B"], ["places in A", "physical", "A"], ["places in B", "physical", "B"]] as const;

export class CompareView {
  readonly element: HTMLElement;
  private readonly first: LayoutField;
  private readonly second: LayoutField;
  private readonly verdict = h("div", { class: "compare-verdict", role: "status" });
  private readonly stepper = h("div", { class: "player" });
  private readonly grids: LinkedGrids;
  private readonly costs = h("div", { class: "cards" });
  private found: Differences | null = null;
  private at = 0;
  private drawings: Subject[] = [];
  private drawn = "";

  constructor(private readonly store: Store, private readonly presets: Preset[]) {
    this.first = new LayoutField("A", "", (layout) => store.set({ layout, shape: "" }));
    this.second = new LayoutField("B", "", (other) => store.set({ other }));
    this.grids = new LinkedGrids((pick) => store.set({ pick }));
    for (const [name, side, role] of SIDES) this.grids.add(name, side, 320, role);
    this.element = h("div", { class: "view" },
      h("section", { class: "editor compare" }, h("div", { class: "headline" }, h("h1", {}, "Compare"),
        h("p", { class: "summary" }, "Two layouts of one tensor, in any two notations. Both are coloured by the places of A, so an element has one colour in all drawings.")),
      this.first.element, this.second.element,
      h("button", { type: "button", class: "quiet", onclick: () => this.swap() }, "Swap A and B")),
      this.verdict, this.stepper, this.grids.caption, this.grids.element, this.costs);
    // The drawings of the tensor above those of the places, A on the left.
    this.grids.element.classList.add("four");
  }

  themed(): void {
    this.grids.themed();
  }

  pictures(): HTMLCanvasElement[] {
    return this.grids.pictures();
  }

  svg(): string | null {
    return this.drawings.length ? scenes(this.drawings) : null;
  }

  update(state: State): void {
    this.first.set(state.layout);
    this.second.set(state.other);
    const key = JSON.stringify([state.layout, state.notation, state.shape, state.dtype, state.other, state.color]);
    if (key !== this.drawn) {
      this.drawn = key;
      this.compare(state);
    }
    this.grids.setPicked(state.pick === "" ? null : numbers(state.pick));
  }

  private swap(): void {
    const { layout, other } = this.store.get();
    if (other.trim() === "") return;
    // The shape of the new A is its own, unless it was written.
    this.store.set({ layout: other, other: layout });
  }

  private compare(state: State): void {
    this.found = null;
    this.drawings = [];
    this.first.fault(null);
    this.second.fault(null);
    for (const box of [this.verdict, this.stepper, this.costs]) fill(box);
    SIDES.forEach((_, number) => this.grids.show(number, null, null));
    const shape = shapeOf(this.presets, state);
    const a: Subject = {
      layout: state.layout, dtype: state.dtype, ...(state.notation ? { notation: state.notation } : {}), ...(shape ? { shape } : {}),
      ...(state.color ? { color_by: state.color } : {}),
    };
    let infoA = this.read(this.first, a);
    if (!infoA) return;
    const text = state.notation ? infoA.layout : state.layout;
    const b: Subject = { layout: state.other, dtype: state.dtype, shape: infoA.shape, color_layout: text, ...(state.color ? { color_by: state.color } : {}) };
    const left: Subject = { ...a, shape: infoA.shape };
    let infoB = state.other.trim() === "" ? null : this.read(this.second, b);
    if (infoB && state.color === "" && hasBanks(infoA) && hasBanks(infoB) && infoA.swizzled !== infoB.swizzled) {
      // A swizzle moves elements inside their line, so colours by line would be the same on both sides.
      left.color_by = b.color_by = "bank";
      infoA = ask<Sheets>("sheets", left);
      infoB = ask<Sheets>("sheets", b);
    }
    this.drawings = infoB ? [left, b] : [left];
    SIDES.forEach(([, , role], number) => {
      if (role === "A") this.grids.show(number, left, infoA);
      else this.grids.show(number, infoB ? b : null, infoB);
    });
    if (!infoB) {
      if (state.other.trim() === "") fill(this.verdict, h("p", { class: "hint" }, "Write B to compare it with A: any notation, the same shape."));
      return;
    }
    try {
      this.found = ask<Differences>("differences", { a: text, b: state.other, shape: infoA.shape, count: MOST_LISTED });
    } catch (e) {
      if (!(e instanceof Refused)) throw e;
      this.second.fault(e.fault);
      return;
    }
    this.drawVerdict();
    this.drawCosts([["A", left, infoA], ["B", { ...b, shape: infoA.shape }, infoB]]);
    const marks = this.found.differences.map((d): Mark => ({ side: "logical", spot: tensorSpot(infoA, d.coord), style: "differs" }));
    for (const number of [0, 1]) this.grids.setMarks(number, marks);
  }

  private read(field: LayoutField, subject: Subject): Sheets | null {
    try {
      const info = ask<Sheets>("sheets", subject);
      field.note(info.note);
      return info;
    } catch (e) {
      if (!(e instanceof Refused)) throw e;
      field.fault(e.fault, subject);
      return null;
    }
  }

  private drawVerdict(): void {
    const found = this.found!;
    const first = found.differences[0];
    const list = (places: Place[]) => places.slice(0, 4).map(placeText).join("; ");
    fill(this.verdict, found.equal || !first
      ? h("p", { class: "verdict good" }, h("strong", {}, "Equal"), ": the same places for every element, proved")
      : h("p", { class: "verdict bad" }, h("strong", {}, "Different"),
        ` from ${tuple(first.coord)}: A puts it at ${list(first.a)}, B at ${list(first.b)}. `,
        `${plural(found.differences.length, "difference")}${found.complete ? "" : " or more"}, outlined below.`));
    this.at = -1;
    this.drawStepper();
  }

  /// One difference after the other, with both answers.
  private drawStepper(): void {
    const list = this.found?.differences ?? [];
    if (list.length === 0) return;
    const go = (by: number) => {
      this.at = (this.at + by + list.length) % list.length;
      const { coord } = list[this.at]!;
      this.store.set({ pick: coord.join(",") });
      SIDES.forEach((_, number) => {
        const spot = this.grids.spots(number, coord)[0];
        if (spot) this.grids.grid(number).reveal(spot);
      });
      this.drawStepper();
    };
    const now = list[this.at];
    const text = now
      ? `difference ${this.at + 1} of ${list.length}: ${tuple(now.coord)}, A ${now.a.slice(0, 2).map(placeText).join("; ")}, B ${now.b.slice(0, 2).map(placeText).join("; ")}`
      : `${plural(list.length, "difference")} to step through`;
    refill(this.stepper,
      h("button", { type: "button", class: "quiet", "data-step": "previous", onclick: () => go(this.at < 0 ? 0 : -1) }, "Previous"),
      h("button", { type: "button", class: "primary", "data-step": "next", onclick: () => go(1) }, "Next difference"),
      h("output", { class: "mono", "data-difference": this.at }, text));
  }

  /// Bank conflicts of the same accesses, side by side.
  private drawCosts(both: [name: string, subject: Subject, info: Sheets][]): void {
    const cell = (subject: Subject, info: Sheets, access: string): HTMLElement => {
      if (!hasBanks(info)) return h("td", { class: "dim" }, "no memory with banks");
      const found = tryAsk<Conflicts>("conflicts", { ...named(subject), shape: info.shape, dtype: subject.dtype, access: accessRequest(access), vector: 1 });
      if (!found) return h("td", { class: "dim" }, "does not fit this shape");
      return h("td", { class: found.conflict_free ? "good" : "bad", "data-ways": found.ways }, found.conflict_free ? "no conflict" : `${found.ways}-way`);
    };
    const rows = ACCESSES.map((access) => h("tr", {}, h("th", { scope: "row" }, access), ...both.map(([, subject, info]) => cell(subject, info, access))));
    const facts = (label: string, value: (info: Sheets) => string) => h("tr", {}, h("th", { scope: "row" }, label), ...both.map(([, , info]) => h("td", {}, value(info))));
    fill(this.costs, h("section", { class: "card", "data-card": "Side by side" }, h("h3", {}, "Side by side"),
      h("div", { class: "scroll-x" }, h("table", { class: "nests" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "bank conflicts of"), ...both.map(([name]) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, ...rows, facts("element", (i) => i.element), facts("notation", (i) => i.notation))))));
  }
}

/// Where an element is drawn in the tensor: slabs are boxes, and a tensor of one dimension continues in the next row.
// A formula, because there may be hundreds of differences, and a request for each would be felt.
function tensorSpot(info: Sheets, coord: number[]): Spot {
  const sheet = info.sheets.find((s) => s.side === "logical")!;
  if (coord.length === 1) return { box: 0, row: Math.floor(coord[0]! / sheet.cols), col: coord[0]! % sheet.cols, span: 1 };
  const box = coord.slice(0, -2).reduce((n, c, i) => n * info.shape[i]! + c, 0);
  return { box, row: coord.at(-2) ?? 0, col: coord.at(-1) ?? 0, span: 1 };
}
