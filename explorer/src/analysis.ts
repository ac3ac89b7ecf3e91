/// What accesses cost, what places are used, what looks wrong.

import { bytes, fill, h, plural, refill, s, select } from "./dom";
import { ask, hasBanks, named, Refused, tryAsk, type Conflicts, type Lint, type Sheets, type Subject } from "./engine";
import { numbers } from "./state";

export interface AccessState { access: string; vector: number }

/// An access as the engine takes it; null while it is being drawn or is not understood.
export function accessRequest(text: string): object | null {
  const [kind, ...rest] = text.trim().split(/\s+/);
  const ints = rest.map(Number);
  if (kind === "column" || kind === "row") return { kind, index: ints[0] ?? 0 };
  if (kind === "ldmatrix") return { kind, row: ints[0] ?? 0, column: ints[1] ?? 0 };
  if (kind === "lanes") {
    const coords = rest.map((r) => numbers(r));
    return coords.length && coords.every((c) => c?.length) ? { kind: "lanes", coords } : null;
  }
  return null;
}

interface Facts {
  injective: boolean; surjective: boolean; bijective: boolean; size: number;
  span: Record<string, number>; padding: { valid: number; padded: number; count: number };
  contiguous: boolean; replicas: number; scope: [string, string] | { error: string } | null;
  size_on: Record<string, number>;
}
interface Analysis { vector: { elements: number; bits: number; bytes: number }; sectors: number | null; sectors_per_warp: number | null; owners: number; lints: Lint[]; banks: Conflicts | null }

export interface AnalysisEvents {
  change(access: AccessState): void;
  open(layout: string): void;
  drawing(on: boolean): void;
}

const card = (title: string, ...body: (Node | string | null)[]) =>
  h("section", { class: "card", "data-card": title }, h("h3", {}, title), ...body);

/// The cards under the drawings.
export function analysis(target: HTMLElement, subject: Subject, info: Sheets, state: AccessState, drawing: boolean, events: AnalysisEvents): void {
  const cards: (Node | null)[] = [];
  const memory = info.axes.every((a) => a.name === "m") && info.size > 0;
  if (hasBanks(info)) {
    const access = accessCard(subject, info, state, drawing, events);
    access.classList.add("tall");
    cards.push(access);
  }
  cards.push(placesCard(subject, info), widthCard(subject, info, state, memory), lintCard(subject));
  refill(target, ...cards);
}

function accessCard(subject: Subject, info: Sheets, state: AccessState, drawing: boolean, events: AnalysisEvents): HTMLElement {
  const [kind = "column", ...rest] = state.access.split(/\s+/);
  const shape = info.shape;
  const [rows, cols] = [shape.at(-2) ?? 1, shape.at(-1) ?? 1];
  // `state` may be the whole state of the page as it was when this card was drawn. Only the access is changed, so that
  // an element or a slab that was picked since then stays.
  const change = (next: Partial<AccessState>) => events.change({ access: state.access, vector: state.vector, ...next });
  const choose = (access: string) => change({ access });
  const kinds = ["column", "row", "ldmatrix", "lanes"] as const;
  const tabs = h("div", { class: "segmented", role: "group", "aria-label": "Access" }, ...kinds.map((k) => h("button", {
    type: "button", "aria-pressed": String(k === kind),
    onclick: () => (k === "lanes" ? events.drawing(!drawing || kind !== "lanes") : choose(k === "ldmatrix" ? "ldmatrix 0 0" : `${k} 0`)),
  }, k === "lanes" ? (drawing ? "drawing…" : "draw it") : k)));
  const number = (label: string, value: number, most: number, change: (n: number) => void) => {
    const input = h("input", { type: "number", min: 0, max: Math.max(0, most - 1), value, onchange: () => change(Math.max(0, Math.min(most - 1, Number(input.value) || 0))) });
    return h("label", { class: "field small" }, h("span", {}, label), input);
  };
  const controls = h("div", { class: "controls" });
  if (kind === "column") controls.append(number("column", Number(rest[0] ?? 0), cols, (n) => choose(`column ${n}`)));
  if (kind === "row") controls.append(number("row", Number(rest[0] ?? 0), rows, (n) => choose(`row ${n}`)));
  if (kind === "ldmatrix") {
    controls.append(number("row", Number(rest[0] ?? 0), rows, (n) => choose(`ldmatrix ${n} ${rest[1] ?? 0}`)),
      number("column", Number(rest[1] ?? 0), cols, (n) => choose(`ldmatrix ${rest[0] ?? 0} ${n}`)));
  }
  if (kind !== "ldmatrix") {
    controls.append(select("elements per lane", [1, 2, 4, 8, 16].map((n) => [String(n), String(n)] as const), String(state.vector),
      (v) => change({ vector: Number(v) })));
  }
  if (kind === "lanes") {
    const input = h("input", { class: "mono wide", value: rest.join(" "), placeholder: "0,0 1,0 2,0", spellcheck: "false", onchange: () => choose(`lanes ${input.value.trim()}`.trim()) });
    controls.append(h("label", { class: "field grow" }, h("span", {}, "cells, one per lane"), input));
  }
  const access = accessRequest(state.access);
  if (!access) {
    const wrong = kind === "lanes" ? rest.find((r) => !numbers(r)?.length) : state.access;
    return card("Shared-memory access", tabs, controls, wrong === undefined
      ? h("p", { class: "hint" }, "Draw over cells of the tensor, in the order of the lanes, or write them. Up to 32 lanes make one warp.")
      : h("p", { class: "error" }, `\`${wrong}\` is no ${kind === "lanes" ? "cell; write 0,0" : "access"}`));
  }
  const request = { ...named(subject), shape, dtype: subject.dtype, access, vector: state.vector };
  let result: Conflicts;
  try {
    result = ask<Conflicts>("conflicts", request);
  } catch (e) {
    if (!(e instanceof Refused)) throw e;
    return card("Shared-memory access", tabs, controls, h("p", { class: "error" }, e.fault.message));
  }
  const verdict = h("p", { class: `verdict ${result.conflict_free ? "good" : "bad"}`, "data-ways": result.ways },
    h("strong", {}, result.conflict_free ? "No bank conflict" : `${result.ways}-way bank conflict`),
    ` in ${plural(result.phases.length, "phase")}`);
  return card("Shared-memory access", tabs, controls, verdict, phases(result),
    swizzles(subject, info, access, state.vector, events), finder(subject, access, state.vector, result, events));
}

/// The phases of an access, and the banks of one: the worst, until another is chosen.
function phases(result: Conflicts): HTMLElement {
  const worst = result.phases.reduce((most, p, i, all) => (p.ways > all[most]!.ways ? i : most), 0);
  const box = h("div", {});
  const show = (index: number): void => refill(box,
    result.phases.length > 1 ? h("div", { class: "phases", role: "group", "aria-label": "Phases" }, ...result.phases.slice(0, MOST_PHASES).map((p, i) => h("button", {
      type: "button", class: `mode ${p.ways > 1 ? "bad" : "good"}`, "aria-pressed": String(i === index), "data-phase": i, "data-ways": p.ways, onclick: () => show(i),
    }, h("span", {}, laneText(p.lanes)), h("b", {}, `${p.ways}-way`)))) : null,
    banks(result, index, index === worst));
  show(worst);
  return box;
}

const MOST_PHASES = 32;

/// `lanes 0–7`, or a list where they do not follow each other.
function laneText(lanes: number[]): string {
  const [first, last] = [lanes[0] ?? 0, lanes.at(-1) ?? 0];
  if (lanes.length === 1) return `lane ${first}`;
  return last - first + 1 === lanes.length ? `lanes ${first}–${last}` : `lanes ${lanes.slice(0, 4).join(", ")}${lanes.length > 4 ? " .." : ""}`;
}

/// Words per bank in a phase: more than one is a conflict.
function banks(result: Conflicts, index: number, isWorst: boolean): HTMLElement {
  const phase = result.phases[index];
  const words = new Map(phase?.words.map((w) => [w.bank, w.words.length]));
  const most = Math.max(1, result.ways);
  const [width, height] = [320, 52];
  const bars = Array.from({ length: 32 }, (_, bank) => {
    const n = words.get(bank) ?? 0;
    const tall = (height - 12) * (n / most);
    const bar = s("rect", {
      x: bank * 10 + 1, width: 8, y: height - 11 - Math.max(tall, 1), height: Math.max(tall, 1), rx: 1.5,
      class: n > 1 ? "over" : n === 1 ? "used" : "idle",
    });
    const title = s("title", {});
    title.textContent = `bank ${bank}: ${plural(n, "word")}`;
    bar.append(title);
    return bar;
  });
  const ticks = [0, 8, 16, 24, 31].map((bank) => {
    const text = s("text", { x: bank * 10 + 5, y: height - 1, "text-anchor": "middle" });
    text.textContent = String(bank);
    return text;
  });
  const picture = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "banks", role: "img",
    "aria-label": `Words per bank: ${phase?.ways ?? 0} at most` }, ...bars, ...ticks);
  return h("figure", {}, picture, h("figcaption", {}, `words asked of each bank${result.phases.length > 1 ? `, ${isWorst ? "worst phase" : "this phase"}` : ""}`));
}

/// The same access under every swizzle mode.
function swizzles(subject: Subject, info: Sheets, access: object, vector: number, events: AnalysisEvents): HTMLElement | null {
  if (info.sticks) return null;
  const row = (["none", "32B", "64B", "128B"] as const).map((mode) => {
    const found = tryAsk<{ layout: string }>("swizzle", { ...named(subject), as: "tirx", shape: info.shape, dtype: subject.dtype, mode });
    const result = found && tryAsk<Conflicts>("conflicts", { dtype: subject.dtype, shape: info.shape, layout: found.layout, access, vector });
    if (!found || !result) return null;
    const same = found.layout === info.layout;
    return h("button", {
      type: "button", class: `mode ${result.conflict_free ? "good" : "bad"}`, "aria-pressed": String(same),
      "data-mode": mode, "data-ways": result.ways, title: found.layout, onclick: () => events.open(found.layout),
    }, h("span", {}, mode), h("b", {}, result.conflict_free ? "free" : `${result.ways}-way`));
  }).filter((b) => b !== null);
  return row.length ? h("div", { class: "modes", role: "group", "aria-label": "Swizzle modes" }, h("span", { class: "dim" }, "swizzle"), ...row) : null;
}

/// Lets the engine search.
function finder(subject: Subject, access: object, vector: number, now: Conflicts, events: AnalysisEvents): HTMLElement {
  const out = h("div", { class: "found", role: "status" });
  const button = h("button", {
    type: "button", class: "primary", disabled: now.conflict_free,
    onclick: () => {
      try {
        const found = ask<{ layout: string; ways: number[]; before: number[]; remedy: { kind: string } }>("swizzle_for",
          { ...named(subject), as: "tirx", shape: subject.shape, dtype: subject.dtype, accesses: [{ ...access, vector }] });
        fill(out, h("p", {}, `${found.before[0]} → ${found.ways[0]} `, plural(found.ways[0]!, "way").split(" ")[1]!, ` with ${found.remedy.kind}`),
          h("button", { type: "button", class: "layout-link", onclick: () => events.open(found.layout) }, found.layout));
      } catch (e) {
        if (!(e instanceof Refused)) throw e;
        fill(out, h("p", { class: "error" }, e.fault.message));
      }
    },
  }, "Find a swizzle");
  return h("div", { class: "finder" }, button, out);
}

function placesCard(subject: Subject, info: Sheets): HTMLElement {
  const facts = tryAsk<Facts>("facts", { ...named(subject), shape: info.shape });
  const rows: [string, string, string?][] = [["elements", info.size.toLocaleString("en")]];
  if (facts) {
    rows.push(["no two share a place", facts.injective ? "yes" : "no", facts.injective ? "good" : "bad"]);
    rows.push(["every place is used", facts.surjective ? "yes" : "no"]);
    rows.push(["places of an element", facts.replicas.toLocaleString("en")]);
    for (const [axis, span] of Object.entries(facts.span)) rows.push([`span of ${axis}`, span.toLocaleString("en")]);
    if (facts.padding.count > 0) {
      const share = (100 * facts.padding.count) / facts.padding.padded;
      rows.push(["padding", `${facts.padding.count.toLocaleString("en")} positions, ${share.toFixed(1)}%, ${bytes(Math.ceil((facts.padding.count * info.bits) / 8))}`]);
    }
    if (Array.isArray(facts.scope)) rows.push(["scope", `${facts.scope[0]}s of a ${facts.scope[1]}`]);
  }
  const list = h("dl", { class: "facts" });
  for (const [name, value, kind] of rows) list.append(h("dt", {}, name), h("dd", { class: kind ?? "" }, value));
  const bar = facts && facts.padding.count > 0 && info.size > 0
    ? h("div", { class: "share", role: "img", "aria-label": "Share of padding" },
      h("span", { style: `width:${(100 * facts.padding.valid) / facts.padding.padded}%` }))
    : null;
  return card("Places", list, bar);
}

/** The most sectors of one warp, and those of all warps where there are several. */
function sectorsOf(found: Analysis): string {
  const all = found.sectors === found.sectors_per_warp ? "" : `, ${found.sectors} in all`;
  return `${found.sectors_per_warp} of 32 bytes per warp${all}`;
}

function widthCard(subject: Subject, info: Sheets, state: AccessState, memory: boolean): HTMLElement {
  const list = h("dl", { class: "facts" });
  const put = (name: string, value: string) => list.append(h("dt", {}, name), h("dd", {}, value));
  const access = accessRequest(state.access);
  const found = tryAsk<Analysis>("analyze", { ...named(subject), shape: info.shape, dtype: subject.dtype });
  put("element", info.element);
  if (found) put("widest vector", `${plural(found.vector.elements, "element")}, ${bytes(found.vector.bits / 8)}`);
  if (memory) {
    for (const [name, a] of [["row 0", { kind: "row", index: 0 }], ["column 0", { kind: "column", index: 0 }]] as const) {
      const one = tryAsk<Analysis>("analyze", { ...named(subject), shape: info.shape, dtype: subject.dtype, access: a });
      if (one?.sectors != null) put(`sectors, ${name}`, sectorsOf(one));
    }
    if (access && !/^(row|column) 0$/.test(state.access)) {
      const one = tryAsk<Analysis>("analyze", { ...named(subject), shape: info.shape, dtype: subject.dtype, access, vector: state.vector });
      if (one?.sectors != null) put("sectors, this access", sectorsOf(one));
    }
  }
  put("in all", bytes(Math.ceil((info.size * info.bits) / 8)));
  return card("Width", list);
}

function lintCard(subject: Subject): HTMLElement {
  const found = tryAsk<{ lints: Lint[] }>("explain", { ...named(subject), shape: subject.shape, dtype: subject.dtype });
  const lints = found?.lints ?? [];
  return card("Remarks", lints.length === 0
    ? h("p", { class: "hint" }, "Nothing looks wrong.")
    : h("ul", { class: "lints" }, ...lints.map((l) => h("li", { class: l.severity, "data-lint": l.id }, h("b", {}, l.severity), ` ${l.message}`))));
}
