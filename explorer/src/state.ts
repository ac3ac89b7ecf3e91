/// Everything that a link carries.

import { savedState } from "./save-page";

export type Tab = "layout" | "operators" | "compare" | "move" | "reshard" | "model";

export interface State {
  tab: Tab;
  layout: string;
  /// The notation that the text is read in; empty for the one that recognises it.
  notation: string;
  /// As written, `8x64`; empty for the layout's own.
  shape: string;
  dtype: string;
  /// An axis, `line`, `bank` or `stick`; empty for the engine's choice.
  color: string;
  /// `column 0`, `row 0`, `ldmatrix 0 0`, or `lanes 0,0 1,0 ..`.
  access: string;
  vector: number;
  /// The element that is pinned, `3,5`; empty for none.
  pick: string;
  /// What was searched for: `3,5`, `laneid 3`, or `m 64, laneid 2`; empty for nothing.
  find: string;
  /// The slab of the tensor, one index per leading dimension.
  slab: string;
  /// `auto`, `side` or `stack`.
  arrange: string;
  operator: string;
  /// The fields of the operator, by name.
  operands: Record<string, string>;
  other: string;
  from: string;
  to: string;
  moveShape: string;
  moveDtype: string;
  fill: string;
  step: number;
  /// Of a tensor over ranks: `pp=2, tp=4`; the second is empty where it is the first.
  mesh: string;
  toMesh: string;
  shardFrom: string;
  shardTo: string;
  shardShape: string;
  shardDtype: string;
  /// GB/s.
  linkSpeed: string;
  /// The name of an example, or the text of a graph.
  model: string;
  modelStep: number;
  policy: string;
  /// The report of a file, as [`keepFile`] names it; empty for none.
  report: string;
}

export const DEFAULT: State = {
  tab: "layout",
  layout: "Swizzle(3,3,3) o S[(8,64):(64,1)]",
  notation: "",
  shape: "",
  dtype: "float16",
  color: "",
  access: "column 0",
  vector: 1,
  pick: "5,19",
  find: "",
  slab: "",
  arrange: "auto",
  operator: "compose",
  operands: {},
  other: "",
  from: "size=[5, 100] stride=[100, 1]",
  to: "SpyreTensorLayout(device_size=[2, 5, 64], stride_map =[64, 100, 1], device_dtype=DataFormats.SEN169_FP16, host_size=[5, 100])",
  moveShape: "5x100",
  moveDtype: "float16",
  fill: "zero",
  step: 0,
  mesh: "tp=4",
  toMesh: "",
  shardFrom: "P('tp', None)",
  shardTo: "P(None, 'tp')",
  shardShape: "4096x4096",
  shardDtype: "bfloat16",
  linkSpeed: "50",
  model: "attention",
  modelStep: 0,
  policy: "best",
  report: "",
};

const KEYS: Partial<Record<keyof State, string>> = {
  tab: "v", layout: "l", notation: "r", shape: "s", dtype: "d", color: "c", access: "a", vector: "w", pick: "p", find: "q", slab: "b",
  arrange: "g", operator: "o", other: "e", from: "f", to: "t", moveShape: "ms", moveDtype: "md", fill: "mf", step: "k", mesh: "hm", toMesh: "hn", shardFrom: "hf", shardTo: "ht", shardShape: "hs", shardDtype: "hd", linkSpeed: "hb", model: "m", modelStep: "n", policy: "y", report: "rp",
};

/// The meaning of the keys of a link. A page that knows a later one reads older links by their own meaning.
const LINK_VERSION = "1";

/// The part of a link after `#`: what differs from the start page.
export function encode(state: State): string {
  const query = new URLSearchParams();
  for (const [name, key] of Object.entries(KEYS) as [keyof State, string][]) {
    if (state[name] !== DEFAULT[name]) query.set(key, String(state[name]));
  }
  // An operand that was emptied is not one that was never touched.
  for (const [name, value] of Object.entries(state.operands)) query.set(`x.${name}`, value);
  if (query.size > 0) query.set("z", LINK_VERSION);
  return query.toString();
}

/// Whether a link was written by a later page, which may mean something else by its keys.
export function isFromLaterPage(hash: string): boolean {
  return Number(new URLSearchParams(hash.replace(/^#/, "")).get("z") ?? LINK_VERSION) > Number(LINK_VERSION);
}

/// The state of a link; unknown keys are left out.
export function decode(hash: string): State {
  const query = new URLSearchParams(hash.replace(/^#/, ""));
  const state: State = { ...DEFAULT, operands: {} };
  const write = state as unknown as Record<string, unknown>;
  for (const [name, key] of Object.entries(KEYS) as [keyof State, string][]) {
    const value = query.get(key);
    if (value === null) continue;
    if (typeof DEFAULT[name] === "number") {
      const number = Number(value);
      if (Number.isSafeInteger(number)) write[name] = number;
    } else {
      write[name] = value;
    }
  }
  if (!["layout", "operators", "compare", "move", "reshard", "model"].includes(state.tab)) state.tab = "layout";
  // Links of pages before the first version number compared below the operators.
  if (query.get("z") === null && state.tab === "operators" && state.other !== "") state.tab = "compare";
  for (const [key, value] of query) if (key.startsWith("x.")) state.operands[key.slice(2)] = value;
  return state;
}

/// Longer addresses are not written.
const LONGEST = 32_000;

type Listener = (state: State) => void;

/// What follows the pointer or a slider: such a change is written into the address, and is no place to go back to.
const PASSING: (keyof State)[] = ["pick", "slab", "step", "modelStep", "find"];
/// Milliseconds after which a change is written. Letters that follow each other faster than the second are one change.
const WRITTEN_AFTER = { replaceState: 250, pushState: 700 } as const;

/// The one state of the page, kept in its address.
export class Store {
  private state: State;
  private readonly listeners: Listener[] = [];
  private writer = 0;
  /// How the change that waits is written.
  private waiting: "pushState" | "replaceState" = "replaceState";
  /// The address as it was last read or written; another one is where the reader went.
  private address = location.hash;

  constructor() {
    // A link wins over the state that a saved page brings.
    this.state = decode(location.hash || savedState());
    addEventListener("hashchange", () => this.arrive());
    // Back to a page that was left leads to its last change.
    addEventListener("pagehide", () => this.flush());
  }

  /// Takes the state of the address, where that is not the state already.
  private arrive(): void {
    clearTimeout(this.writer);
    this.writer = 0;
    this.address = location.hash;
    if (location.hash.replace(/^#/, "") === encode(this.state)) return;
    this.state = decode(location.hash);
    this.tell();
  }

  get(): State {
    return this.state;
  }

  /// Changes the state, and updates the views.
  set(change: Partial<State>): void {
    // Another view or preset is a place to go back to; a letter or a step is not.
    const far = (change.tab !== undefined && change.tab !== this.state.tab) || (change.layout !== undefined && change.dtype !== undefined);
    // What is left is as it was last seen, and back leads there.
    if (far) this.flush();
    // Another text is read anew, unless it is the same one that is still being written.
    const read = change.layout !== undefined && change.notation === undefined ? { notation: "", find: "" } : {};
    this.state = { ...this.state, ...read, ...change };
    if (far) this.write("pushState");
    else this.writeSoon(Object.keys(change).every((name) => PASSING.includes(name as keyof State)) ? "replaceState" : "pushState");
    this.tell();
  }

  /// Lets a change wait for those that follow at once.
  private writeSoon(how: "pushState" | "replaceState"): void {
    if (this.writer && how === "replaceState") return;
    clearTimeout(this.writer);
    this.waiting = how;
    this.writer = window.setTimeout(() => this.write(how), WRITTEN_AFTER[how]);
  }

  /// Writes the change that waits, if one does.
  private flush(): void {
    if (this.writer) this.write(this.waiting);
  }

  /// Puts the state into the address. Browsers refuse to do that many times a second.
  private write(how: "pushState" | "replaceState"): void {
    // The address changes before its event comes; what is replaced now would be that place.
    if (this.writer && location.hash !== this.address) {
      this.arrive();
      return;
    }
    clearTimeout(this.writer);
    this.writer = 0;
    const hash = encode(this.state);
    // A pasted module is no address; what is picked from it is.
    if (hash.length > LONGEST) return;
    if (hash !== location.hash.replace(/^#/, "")) {
      history[how](null, "", hash ? `#${hash}` : location.pathname + location.search);
      this.address = location.hash;
    }
  }

  /// The address of this view, at once.
  link(): string {
    this.write(this.writer ? this.waiting : "replaceState");
    return location.href;
  }

  listen(listener: Listener): void {
    this.listeners.push(listener);
  }

  private tell(): void {
    for (const listener of this.listeners) listener(this.state);
  }
}

/// `8x64`, `8,64`, `(8, 64)` as numbers; null where it is something else.
export function numbers(text: string): number[] | null {
  const inner = text.trim().replace(/^[([]/, "").replace(/[)\]]$/, "").trim();
  if (inner === "") return [];
  const parts = inner.split(/[x×,\s]+/).map((p) => (/^-?\d+$/.test(p) ? Number(p) : NaN));
  return parts.every((n) => Number.isSafeInteger(n)) ? parts : null;
}

/// `laneid 3, m=1` as a place; null where it is something else.
export function readPlace(text: string): Record<string, number> | null {
  const parts = text.trim().split(/\s*,\s*/).map((p) => /^([A-Za-z_]\w*)\s*[= ]\s*(-?\d+)$/.exec(p));
  if (parts.some((p) => !p)) return null;
  return Object.fromEntries(parts.map((p) => [p![1]!, Number(p![2])]));
}
