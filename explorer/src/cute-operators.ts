/// CuTe's operators: texts of CuTe in, and out with the nesting that the operator promises.

import { ask, named, Refused, tryAsk, type Sheets, type Subject } from "./engine";
import type { Operand, Operator } from "./operators";
import type { State } from "./state";

/// Half of every dimension, where it has one: a tiler that divides.
const halves = (s: Sheets): string => tuple(s.shape.map((e) => (e % 2 === 0 ? e / 2 : e)));
/// Two along every dimension, the first fastest.
const twos = (s: Sheets): string => `${tuple(s.shape.map(() => 2))}:${tuple(s.shape.map((_, i) => 2 ** i))}`;
const tuple = (list: number[]): string => (list.length === 1 ? String(list[0]) : `(${list.join(",")})`);

const tiler = (start: Operand["start"]): Operand => ({ name: "b", label: "B, a layout or a tiler such as (2:1,4:1) or (2,4)", kind: "layout", start });
const layout = (start: Operand["start"]): Operand => ({ name: "b", label: "B, a layout", kind: "layout", start });
const operator = (name: string, law: string, operands: Operand[], subject = "a"): Operator =>
  ({ name: `cute.${name}`, title: name, law, subject, operands, cute: true });

export const CUTE: Operator[] = [
  operator("coalesce", "the same function of the index, in as few modes as possible", [], "layout"),
  operator("composition", "R(i) = A(B(i)); a tiler acts on each mode by itself", [tiler(halves)]),
  operator("complement", "what A leaves out below the size: (A, R) reaches every place once", [{ name: "cosize", label: "size", kind: "number", start: (s) => String(s.size * 4) }], "layout"),
  operator("right_inverse", "A(R(i)) = i, as far as A reaches every place", [], "layout"),
  operator("left_inverse", "R(A(i)) = i, where A gives every index its own place", [], "layout"),
  operator("logical_divide", "each mode becomes (tile, rest)", [tiler(halves)]),
  operator("zipped_divide", "(all tiles, all rests): two modes", [tiler(halves)]),
  operator("tiled_divide", "(all tiles, rest, rest, ..)", [tiler(halves)]),
  operator("flat_divide", "(tile, tile, .., rest, rest, ..)", [tiler(halves)]),
  operator("logical_product", "(A, copies of A): copies are at the places of B", [tiler(twos)]),
  operator("zipped_product", "(A, all copies): two modes", [tiler(twos)]),
  operator("tiled_product", "(A, copies, copies, ..)", [tiler(twos)]),
  operator("flat_product", "the modes of A, then those of the copies", [tiler(twos)]),
  operator("blocked_product", "copies of A side by side: mode i is (A i, B i)", [layout(twos)]),
  operator("raked_product", "copies of A interleaved: mode i is (B i, A i)", [layout(twos)]),
];

/// A in CuTe's text: as it is written, or converted.
export type CuteText = { text: string; converted: boolean } | { reason: string };

interface Converted { text?: string; not_expressible?: { reason: string }; refined?: { text: string } }

export function cuteText(state: State, info: Sheets, subject: Subject): CuteText {
  if (info.notation === "cute") return { text: state.layout, converted: false };
  try {
    const found = ask<Converted>("convert", { ...named(subject), shape: info.shape, dtype: subject.dtype, to: "cute" });
    const text = found.text ?? found.refined?.text;
    return text === undefined ? { reason: found.not_expressible?.reason ?? "there is no such text" } : { text, converted: true };
  } catch (e) {
    if (!(e instanceof Refused)) throw e;
    return { reason: e.fault.message };
  }
}

/// The answer of an operator. B is CuTe's text, which may be a tiler, or a layout in any other notation.
export function cuteRequest<T>(name: string, fields: Record<string, unknown>): T {
  const op = name.replace(/^cute\./, "");
  try {
    return ask<T>(op, { ...fields, notation: "cute" });
  } catch (e) {
    if (!(e instanceof Refused) || e.fault.witness?.field !== "b") throw e;
    const other = tryAsk<T>(op, { ...fields, as: "cute" });
    if (other === null) throw e;
    return other;
  }
}

/// The shape to draw an answer in: its modes, and of more than two the first (all tiles, or A) against the rest.
/// CuTe counts the first mode fastest, so neighbouring modes together are still its indices.
export function drawnShape(name: string, text: string): number[] | undefined {
  const modes = tryAsk<Sheets>("sheets", { layout: text, notation: "cute" })?.shape;
  if (!modes || modes.length <= 2) return modes;
  const first = /^cute\.flat_divide$/.test(name) ? Math.ceil(modes.length / 2) : 1;
  const product = (list: number[]) => list.reduce((n, e) => n * e, 1);
  return [product(modes.slice(0, first)), product(modes.slice(first))];
}
