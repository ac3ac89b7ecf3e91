/// What a reader may have meant by a text that is no layout yet: one of several readings, one of the layouts
/// of a pasted module, a shape that the text does not say.

import { ask, named, Refused, tryAsk, type Fault, type Sheets, type Subject } from "./engine";

/// What was taken of an offer.
export interface Chosen { layout?: string; notation?: string; shape?: string; dtype?: string }

/// A button: its label, and the text that it chooses.
interface Way { label: string; chosen: Chosen }
interface Choice { name: string; text: string; ways: Way[] }

export interface Offer {
  /// What is asked, in a few words.
  heading: string;
  title: string;
  choices: Choice[];
  remarks: string[];
  /// Whether nothing is wrong: the text is to be chosen from.
  question: boolean;
  /// A fault with more detail than the first one.
  fault?: Fault;
  /// Whether a text is one of the choices.
  has(text: string): boolean;
}

interface Listed { name: string | null; layout: string; notation: string; uses: { shape: number[] | null; element: string | null; dtype: string | null }[] }
interface Layouts { layouts: Listed[]; refused: { message: string; span: [number, number] }[] }

/// Shapes to try a layout with that does not say its own, by rank.
const SHAPES = [[64], [1024], [16, 16], [64, 64], [128, 64], [128, 128], [4, 32, 64], [2, 32, 8, 8], [2, 32, 4, 8, 8]];

export function offer(text: string, fault: Fault, subject: Subject): Offer | null {
  return readings(fault) ?? layouts(text) ?? shapes(text, fault, subject);
}

/// One text, several notations.
function readings(fault: Fault): Offer | null {
  const list = fault.witness?.readings;
  if (!list?.length) return null;
  return {
    heading: "Which notation?",
    title: "This text means different things in different notations. Which one is it?",
    choices: list.map((r) => ({ name: plain(r.title), text: r.layout ?? "", ways: [{ label: `Read it as ${r.notation}`, chosen: { notation: r.notation } }] })),
    remarks: [], question: true, has: () => false,
  };
}

/// Looks like TTGIR, or like an atom that CuTe printed.
const HOLDS_SEVERAL = /tensor<|!ttg\.memdesc<|^\s*#[\w.]+\s*=\s*#|^\s*(MMA_Atom|Copy_Atom|Tiled(MMA|Copy)|Thr(MMA|Copy))\b/m;

function layouts(text: string): Offer | null {
  if (!HOLDS_SEVERAL.test(text)) return null;
  let found: Layouts;
  try {
    found = ask<Layouts>("layouts", { text });
  } catch (e) {
    if (!(e instanceof Refused)) throw e;
    // Such as an alias that is used and not defined, which helps more than that the text is no layout.
    return { heading: "", title: "", choices: [], remarks: [], question: false, fault: e.fault, has: () => false };
  }
  const texts = new Set(found.layouts.map((l) => l.layout));
  const choices = found.layouts.map((l): Choice => {
    const uses = l.uses.length ? l.uses : [{ shape: null, element: null, dtype: null }];
    return {
      name: l.name ?? l.layout.slice(0, l.layout.indexOf("<")), text: l.layout,
      ways: uses.map((u) => ({
        label: u.shape ? `${u.shape.join(" × ") || "scalar"}${u.element ? ` ${u.element}` : ""}` : "without a shape",
        chosen: { layout: l.layout, shape: u.shape?.join("x") ?? "", ...(u.dtype ? { dtype: u.dtype } : {}) },
      })),
    };
  });
  return {
    heading: "Which layout?",
    title: choices.length === 1 ? "This text has one layout. Pick a shape to see it." : `This text has ${choices.length} layouts. Pick one to see it.`,
    choices, question: true, has: (t) => texts.has(t),
    remarks: found.refused.map((r) => `Not read: ${r.message.replace(/ \(at byte \d+: (.*?)\)(;|$)/s, ": $1$2")}`),
  };
}

/// A layout of any shape: shapes that it accepts.
function shapes(text: string, fault: Fault, subject: Subject): Offer | null {
  const asks = fault.kind === "bad_request" && fault.witness?.field === "layout" && !fault.witness.span && fault.message.includes("shape");
  if (!asks || text.length > 4000) return null;
  const fits = SHAPES.filter((shape) => tryAsk<Sheets>("sheets", { ...named(subject), shape }));
  // Of one rank: that of the first that fits.
  const same = fits.filter((s) => s.length === fits[0]!.length);
  if (same.length === 0) return null;
  return {
    heading: "Which shape?",
    title: "It is a layout of any shape: write yours below, or try one.",
    choices: [{ name: "shape", text: "", ways: same.map((s) => ({ label: s.join(" × "), chosen: { shape: s.join("x") } })) }],
    remarks: [], question: true, has: () => false,
  };
}

/// A title of the engine without the marks of code.
export const plain = (title: string): string => title.replaceAll("`", "");
