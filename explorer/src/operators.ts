/// The operators of the algebra, and two layouts compared.

import { fill, h, refill, select } from "./dom";
import { ask, Refused, tryAsk, type Preset, type Sheets, type Subject } from "./engine";
import { scenes } from "./export";
import { LayoutField } from "./field";
import { Grid } from "./grid/grid";
import { CUTE, cuteRequest, cuteText, drawnShape, type CuteText } from "./cute-operators";
import { shapeOf } from "./layout-view";
import { copy } from "./notations";
import { numbers, type State, type Store } from "./state";

export interface Operand { name: string; label: string; kind: "layout" | "numbers" | "number" | "region" | "choice"; start: (s: Sheets) => string; choices?: string[] }
export interface Operator {
  name: string; title: string; law: string; subject: string; operands: Operand[]; shaped?: boolean;
  /// The shape to draw the answer in, where it is not the answer's own.
  shape?: (request: Record<string, unknown>) => number[];
  /// Whether it is one of CuTe's, on texts of CuTe.
  cute?: boolean;
}

const layoutOf = (text: string) => () => text;
const own = (s: Sheets) => s.shape.join("x");
const OPERATORS: Operator[] = [
  { name: "compose", title: "Compose", law: "R(i) = A(B(i))", subject: "a", operands: [{ name: "b", label: "B", kind: "layout", start: (s) => `S[${Math.max(1, Math.floor(s.size / 2))}:2]` }] },
  { name: "inverse", title: "Inverse", law: "R(A(i)) = i", subject: "layout", operands: [], shaped: true },
  { name: "complement", title: "Complement", law: "A and R together reach every place below the size once", subject: "layout", operands: [{ name: "cosize", label: "size", kind: "number", start: (s) => String(s.size * 4) }] },
  { name: "tile", title: "Tile", law: "each cell of the outer layout becomes a copy of A", subject: "inner", shape: (r) => products(r.outer_shape, r.inner_shape), operands: [
    { name: "outer", label: "outer", kind: "layout", start: layoutOf("S[(2,2):(2,1)]") },
    { name: "outer_shape", label: "outer shape", kind: "numbers", start: (s) => s.shape.map((_, i) => (i < 2 ? 2 : 1)).join("x") },
    { name: "inner_shape", label: "shape of A", kind: "numbers", start: own }] },
  { name: "slice", title: "Slice", law: "R(i) = A(i + begin)", subject: "layout", shaped: true, shape: (r) => (r.region as number[][]).map(([from, to]) => to! - from!), operands: [
    { name: "region", label: "region", kind: "region", start: (s) => s.shape.map((e) => `0:${Math.max(1, Math.floor(e / 2))}`).join(", ") }] },
  { name: "group", title: "Group", law: "the same function, its iters split at a shape", subject: "layout", operands: [{ name: "shape", label: "shape", kind: "numbers", start: own }] },
  { name: "canonicalize", title: "Canonicalize", law: "the same function, shortest form", subject: "layout", shaped: true, operands: [
    { name: "target", label: "thread axes", kind: "choice", start: layoutOf(""), choices: ["", "cuda"] }] },
  { name: "permute_dims", title: "Permute", law: "iters in another order", subject: "layout", operands: [{ name: "perm", label: "order", kind: "numbers", start: (s) => s.shape.map((_, i, a) => a.length - 1 - i).join(",") }] },
  { name: "storage", title: "Storage", law: "what one owner holds", subject: "layout", operands: [] },
  { name: "direct_sum", title: "Direct sum", law: "R(i, j) = L(i) + A(j)", subject: "right", shape: (r) => products(r.left_shape, r.right_shape), operands: [
    { name: "left", label: "left", kind: "layout", start: (s) => `S[(2,2):(${4 * s.size},${2 * s.size})]` },
    { name: "left_shape", label: "left shape", kind: "numbers", start: (s) => s.shape.map((_, i) => (i < 2 ? 2 : 1)).join("x") },
    { name: "right_shape", label: "shape of A", kind: "numbers", start: own }] },
];

/// Dimension by dimension, the last ones side by side.
function products(a: unknown, b: unknown): number[] {
  const [x, y] = [a, b] as [number[], number[]];
  const rank = Math.max(x.length, y.length);
  return Array.from({ length: rank }, (_, i) => (x[i - rank + x.length] ?? 1) * (y[i - rank + y.length] ?? 1));
}

/// `0:4, 8:16` as pairs.
function region(text: string): number[][] | null {
  const pairs = text.split(",").map((p) => p.split(":").map((n) => (n.trim() === "" ? NaN : Number(n))));
  return pairs.every((p) => p.length === 2 && p.every(Number.isSafeInteger)) ? pairs : null;
}

/// The operators by the system whose names they have.
const GROUPS: [title: string, operators: Operator[]][] = [["Axe", OPERATORS], ["CuTe", CUTE]];
const ALL = GROUPS.flatMap(([, list]) => list);

interface Result { layout: string | null; reason?: string; general?: string; shape?: number[] }

export class OperatorsView {
  readonly element: HTMLElement;
  private readonly field: LayoutField;
  private readonly chooser = h("div", { class: "operators" });
  private readonly operands = h("div", { class: "operands" });
  private readonly result = h("div", { class: "result", role: "status" });
  private readonly grids = h("div", { class: "pair" });
  private readonly before: Grid;
  private readonly after: Grid;
  private drawn = "";
  /// A and the answer, as they are drawn.
  private drawings: Subject[] = [];

  constructor(private readonly store: Store, private readonly presets: Preset[]) {
    const quiet = { hover: () => undefined, pick: () => undefined };
    this.before = new Grid("Layout A", quiet, 300, "A");
    this.after = new Grid("Result", quiet, 300, "Result");
    this.field = new LayoutField("Layout A", "", (layout) => store.set({ layout, notation: store.get().notation, shape: "", operands: {} }),
      (chosen) => store.set({ ...chosen, operands: {} }));
    this.grids.append(this.before.element, this.after.element);
    this.element = h("div", { class: "view" },
      h("section", { class: "editor" }, h("div", { class: "headline" }, h("h1", {}, "Operators"),
        h("p", { class: "summary" }, "Every answer is exact, or refused with the index that proves it.")),
      this.field.element, this.chooser, this.operands),
      this.result, this.grids);
  }

  themed(): void {
    for (const grid of [this.before, this.after]) grid.themed();
  }

  pictures(): HTMLCanvasElement[] {
    return [this.before, this.after].filter((g) => g.element.getClientRects().length > 0).map((g) => g.picture);
  }

  svg(): string | null {
    return this.grids.hidden ? null : scenes(this.drawings);
  }

  update(state: State): void {
    this.field.set(state.layout);
    const operator = ALL.find((o) => o.name === state.operator) ?? ALL[0]!;
    this.choose(operator);
    const shape = shapeOf(this.presets, state);
    const subject: Subject = { layout: state.layout, dtype: state.dtype, ...(state.notation ? { notation: state.notation } : {}), ...(shape ? { shape } : {}) };
    let info: Sheets;
    try {
      info = ask<Sheets>("sheets", subject);
      this.field.fault(null);
      this.field.note(info.note);
    } catch (e) {
      if (!(e instanceof Refused)) throw e;
      // Without A there is no answer.
      this.field.fault(e.fault, subject);
      if (this.operands.dataset.operator !== operator.name) {
        delete this.operands.dataset.operator;
        fill(this.operands);
      }
      fill(this.result);
      this.grids.hidden = true;
      this.drawn = "";
      return;
    }
    this.drawOperands(operator, state, info);
    this.apply(operator, state, info, subject);
  }

  private choose(operator: Operator): void {
    refill(this.chooser, ...GROUPS.flatMap(([title, list]) => [h("span", { class: "dim" }, title),
      h("div", { class: "segmented wrap", role: "group", "aria-label": `Operators of ${title}` }, ...list.map((o) => h("button", {
        type: "button", "aria-pressed": String(o === operator), "data-operator": o.name, title: o.law,
        onclick: () => this.store.set({ operator: o.name, operands: {} }),
      }, o.title)))]));
  }

  private drawOperands(operator: Operator, state: State, info: Sheets): void {
    if (this.operands.dataset.operator === operator.name) {
      this.operands.querySelectorAll<HTMLInputElement | HTMLSelectElement>("input, select").forEach((box, i) => {
        const o = operator.operands[i]!;
        const value = state.operands[o.name] ?? o.start(info);
        if (box.value !== value) box.value = value;
      });
      return;
    }
    this.operands.dataset.operator = operator.name;
    const set = (name: string, value: string) => this.store.set({ operands: { ...this.store.get().operands, [name]: value } });
    fill(this.operands, h("p", { class: "law" }, operator.law), ...operator.operands.map((o) => {
      const value = state.operands[o.name] ?? o.start(info);
      if (o.kind === "choice") return select(o.label, o.choices!.map((c) => [c, c || "as they are"] as const), value, (v) => set(o.name, v));
      const input = h("input", {
        value, "data-operand": o.name, spellcheck: "false", class: o.kind === "layout" ? "mono wide" : "mono",
        oninput: () => set(o.name, input.value),
      });
      return h("label", { class: `field ${o.kind === "layout" ? "grow" : ""}` }, h("span", {}, o.label), input);
    }));
  }

  private apply(operator: Operator, state: State, info: Sheets, subject: Subject): void {
    let cute: CuteText | null = null;
    if (operator.cute) {
      cute = cuteText(state, info, subject);
      if ("reason" in cute) {
        this.refuse(`CuTe's operators work on CuTe's texts, and A has none: ${cute.reason}`);
        return;
      }
    }
    // A text for which the reader chose a notation is passed on in a form that has only one reading.
    const request: Record<string, unknown> = { [operator.subject]: cute ? cute.text : state.notation ? info.layout : state.layout };
    if (operator.shaped) request.shape = info.shape;
    for (const o of operator.operands) {
      const text = state.operands[o.name] ?? o.start(info);
      const value = o.kind === "layout" ? text
        : o.kind === "number" ? (numbers(text)?.length === 1 ? Number(text) : null)
        : o.kind === "region" ? region(text)
        : o.kind === "choice" ? text || null
        : numbers(text);
      if (value === null && o.kind !== "choice") {
        this.refuse(`${o.label}: \`${text}\` is not understood`);
        return;
      }
      if (value !== null) request[o.name] = value;
    }
    let found: Result;
    try {
      found = cute ? cuteRequest<Result>(operator.name, request) : ask<Result>(operator.name, request);
    } catch (e) {
      if (!(e instanceof Refused)) throw e;
      this.refuse(e.fault.message, e.fault.witness?.rendered);
      return;
    }
    const text = found.layout ?? found.general ?? null;
    if (text === null) {
      this.refuse(found.reason ?? "there is no such layout");
      return;
    }
    const shape = cute ? drawnShape(operator.name, text) : found.shape ?? operator.shape?.(request);
    const target: Subject = { layout: text, ...(subject.dtype ? { dtype: subject.dtype } : {}), ...(shape ? { shape } : {}) };
    const open = (layout: string) => this.store.set({ tab: "layout", layout, shape: shape?.join("x") ?? "", pick: "", slab: "", color: "" });
    refill(this.result, h("div", { class: "answer" },
      h("code", { "data-result": "" }, text),
      h("button", { type: "button", class: "quiet", "aria-label": "Copy the answer", onclick: (e: MouseEvent) => void copy(text, e.currentTarget as HTMLElement) }, "Copy"),
      h("button", { type: "button", class: "primary", onclick: () => open(text) }, "Open"),
      h("button", { type: "button", class: "quiet", onclick: () => this.store.set({ tab: "compare", other: text }) }, "Compare with A")),
      cute?.converted ? h("p", { class: "hint" }, "A in CuTe: ", h("code", { "data-converted": "" }, cute.text), " ",
        h("button", { type: "button", class: "layout-link", onclick: () => this.store.set({ layout: cute.text, shape: "", operands: state.operands }) }, "write it so")) : null,
      found.layout === null ? h("p", { class: "hint" }, `No iters express it: ${found.reason}. This general form is exact.`) : null);
    this.grids.hidden = false;
    const key = JSON.stringify([subject, text]);
    if (key === this.drawn) return;
    this.drawn = key;
    this.before.show(subject, info, "logical", null);
    this.drawings = [subject, target];
    const after = tryAsk<Sheets>("sheets", target);
    this.after.element.hidden = !after;
    if (after) this.after.show(target, after, "logical", null);
  }

  private refuse(message: string, rendered?: string): void {
    fill(this.result, h("p", { class: "error" }, message), rendered ? h("pre", {}, rendered) : null);
    this.grids.hidden = true;
    this.drawn = "";
  }
}
