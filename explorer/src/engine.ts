/// The Rust engine: requests of `zellige ask`, answered inside the page.

import init, { ask as answer, paint as paintBytes } from "../generated/zellige_explorer.js";

export interface Fault {
  kind: string;
  message: string;
  witness: { field?: string; span?: [number, number]; rendered?: string; readings?: Reading[]; [key: string]: unknown } | null;
}

/// What a text means in one of the notations that read it; the layout is none where it needs a shape.
export interface Reading { notation: string; title: string; layout: string | null }

/// A refused request.
export class Refused extends Error {
  readonly fault: Fault;
  constructor(fault: Fault) {
    super(fault.message);
    this.fault = fault;
  }
}

export type Side = "logical" | "physical" | "host";
export type Place = Record<string, number>;

export interface Sheet {
  side: Side;
  title: string;
  row_title: string;
  col_title: string;
  rows: number;
  cols: number;
  col_group: number;
  span: number;
  sliders: [name: string, extent: number][];
  boxes: number;
  mesh: [number, number][] | null;
  notes: string[];
}

export interface Tone { label: string; fill: string; ink: string; dark_fill: string; dark_ink: string }

export interface Sheets {
  layout: string;
  notation: string;
  /// Which reading was taken, where the text alone does not decide.
  note: string | null;
  /// Whether places are numbers of a tile, not memory; see [`hasBanks`].
  indices?: boolean;
  shape: number[];
  size: number;
  bits: number;
  /** The width of an element, and where it comes from. */
  element: string;
  /** Whether the text of the layout says its width, so that the dtype of the page does not count. */
  element_from_text: boolean;
  sticks: boolean;
  swizzled: boolean;
  axes: { name: string; kind: string }[];
  color_by: string;
  color_choices: string[];
  tones: Tone[];
  tones_repeat: boolean;
  label_key: string;
  sheets: Sheet[];
}

export interface Cell {
  row: number;
  col: number;
  span: number;
  kind: "element" | "padding" | "gap";
  label: string;
  colors: number[];
  elements: number[][];
  places: number[][];
}

export interface Cells { caption: string; row_labels: string[]; col_labels: string[]; cells: Cell[]; note: string | null }

export interface Spot { box: number; row: number; col: number; span: number }

export interface Steps {
  shape: number[];
  coord: number[];
  index: number;
  padded: { shape: number[]; coord: number[]; index: number } | null;
  split: { digit: number; extent: number; stride: number; axis: string }[];
  sums: { axis: string; terms: [number, number][]; offset: number; sum: number; swizzle: string | null; value: number }[];
  replicas: { extent: number; stride: number; axis: string }[];
  places: Place[];
}

export interface Described { coord: number[]; index: number; steps: Steps; spots: Partial<Record<Side, Spot[]>> }
export interface Inspected { state: "element" | "padding" | "gap" | "nothing"; place: Place | null; elements: Described[]; count: number }

export interface Found { count: number; elements: { coord: number[]; spots: Partial<Record<Side, Spot[]>> }[] }

export interface Phase { lanes: number[]; banks: number[]; words: { bank: number; words: number[] }[]; ways: number }
export interface Conflicts { ways: number; conflict_free: boolean; phases: Phase[] }
export interface Preset { name: string; title: string; group: string; shape: number[]; dtype: string; layout: string }
export interface Lint { id: string; severity: string; message: string }

/// What a drawing is of: the fields that `sheets`, `cells` and `inspect` share.
export interface Subject {
  layout: string;
  /// Where the reader chose one; the engine finds it by the text.
  notation?: string;
  shape?: number[];
  dtype?: string;
  color_by?: string;
  /// Another layout of the shape, whose places give the elements their colours.
  color_layout?: string;
  sticks?: boolean;
}

/// The fields that name a layout in requests that know no drawings.
export const named = (subject: Subject): { layout: string; notation?: string } =>
  ({ layout: subject.layout, ...(subject.notation ? { notation: subject.notation } : {}) });

/// Whether a layout is memory with banks: on `m` alone, no sticks of the device, no numbers of a tile.
export const hasBanks = (info: Sheets): boolean => info.size > 0 && !info.sticks && !info.indices && info.axes.every((a) => a.name === "m");

/// Starts the engine that travels inside the page.
export async function start(): Promise<void> {
  const text = document.getElementById("engine")?.textContent;
  if (!text) throw new Error("the page was built without its engine");
  // Base64 and gzip inside the page, because a page from a disk may not fetch a second file.
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  await init({ module_or_path: await new Response(stream).arrayBuffer() });
}

/// An integer beyond 2^53, which a number of JavaScript would round: it shows its own digits, and is sent back as them.
class ExactInteger extends Number {
  constructor(private readonly digits: string) {
    super(digits);
  }

  override toString(): string {
    return this.digits;
  }

  override toLocaleString(): string {
    return BigInt(this.digits).toLocaleString("en");
  }

  toJSON(): unknown {
    const { rawJSON } = JSON as unknown as { rawJSON?: (text: string) => unknown };
    return rawJSON ? rawJSON(this.digits) : Number(this);
  }
}

/// An answer as values. Integers that a number cannot hold keep their digits, where the browser tells them.
function readAnswer(text: string): unknown {
  // A reviver is called for every value, so it is used for answers that have such integers only.
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  const exact = (_: string, value: unknown, context?: { source?: string }): unknown =>
    typeof value === "number" && !Number.isSafeInteger(value) && context?.source && /^-?\d+$/.test(context.source) ? new ExactInteger(context.source) : value;
  return (JSON.parse as (text: string, reviver: typeof exact) => unknown)(text, exact);
}

/// The answer to a request; throws [`Refused`].
export function ask<T>(op: string, fields: object): T {
  const reply = readAnswer(answer(JSON.stringify({ op, ...fields }))) as { ok?: T; error?: Fault };
  if (reply.error) throw new Refused(reply.error);
  return reply.ok as T;
}

/// The answer, or nothing where the engine refuses.
export function tryAsk<T>(op: string, fields: object): T | null {
  try {
    return ask<T>(op, fields);
  } catch (e) {
    // Only refusals: a mistake of the page itself must not look like an answer without a result.
    if (e instanceof Refused) return null;
    throw e;
  }
}

/// One byte per cell of a window; see PADDING and its neighbours.
export function paint(subject: Subject, side: Side, box: number, rows: [number, number], cols: [number, number]): Uint8Array {
  return paintBytes(JSON.stringify({ ...subject, side, box, rows, cols }));
}

export const NOTHING = 255;
export const UNUSED = 254;
export const PADDING = 253;
