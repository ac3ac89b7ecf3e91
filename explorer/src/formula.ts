/// The four steps from a coordinate to its places, with numbers.

import { fill, h } from "./dom";
import type { Inspected, Place, Steps } from "./engine";

export const tuple = (values: number[]): string => (values.length === 1 ? `(${values[0]})` : `(${values.join(", ")})`);

/// A place for people: `laneid 3, m 1`.
export function placeText(place: Place): string {
  const entries = Object.entries(place);
  return entries.length === 0 ? "the one place" : entries.map(([axis, value]) => `${axis} ${value}`).join(", ");
}

/// One line with the result.
export function sentence(found: Inspected): string {
  if (found.state === "nothing") return "Nothing is stored here.";
  const at = found.place ? placeText(found.place) : "";
  if (found.state === "padding") return `${at}: padding.`;
  if (found.state === "gap") return `${at}: no element maps here.`;
  const first = found.elements[0]!;
  const where = first.steps.places.map(placeText).join("; ");
  const more = found.count > 1 ? ` and ${found.count - 1} more elements share it` : "";
  return found.place ? `${at} holds element ${tuple(first.coord)}${more}.` : `Element ${tuple(first.coord)} is at ${where}.`;
}

function step(number: number, name: string, ...body: (Node | string)[]): HTMLElement {
  return h("li", { class: "step" },
    h("div", { class: "step-name" }, h("span", { class: "step-number", "aria-hidden": "true" }, String(number)), name),
    h("div", { class: "step-body" }, ...body));
}

const b = (value: number | string) => h("b", {}, String(value));
const dim = (text: string) => h("span", { class: "dim" }, text);

function flattened(steps: Steps): Node[] {
  const terms: Node[] = [];
  const { shape, coord } = steps;
  coord.forEach((c, i) => {
    const weight = shape.slice(i + 1).reduce((a, e) => a * e, 1);
    if (i > 0) terms.push(dim(" + "));
    terms.push(h("span", {}, weight === 1 ? String(c) : `${c}·${weight}`));
  });
  const line = h("div", {}, dim(`${tuple(coord)} in ${tuple(shape)}: `), ...terms, dim(" = "), b(steps.index));
  if (!steps.padded) return [line];
  const p = steps.padded;
  return [line, h("div", {}, dim(`padded to ${tuple(p.shape)}: `), b(p.index))];
}

function summed(steps: Steps): Node[] {
  return steps.sums.map((s) => {
    const terms: Node[] = [];
    for (const [digit, stride] of s.terms) {
      if (terms.length) terms.push(dim(" + "));
      terms.push(h("span", {}, stride === 1 ? String(digit) : `${digit}·${stride}`));
    }
    if (s.offset !== 0) terms.push(dim(terms.length ? " + " : ""), h("span", { title: "offset" }, String(s.offset)));
    const line = h("div", {}, h("span", { class: "axis" }, s.axis), dim(" = "), ...terms);
    if (s.terms.length + Number(s.offset !== 0) !== 1 || s.terms[0]?.[1] !== 1) line.append(dim(" = "), b(s.sum));
    if (s.swizzle) line.append(dim(` → ${s.swizzle} → `), b(s.value));
    return line;
  });
}

/// Draws the steps of the first element of what was found.
export function formula(target: HTMLElement, found: Inspected | null): void {
  const element = found?.elements[0];
  if (!found || !element) {
    const text = found ? sentence(found) : "Point at a cell, or pick one, to see how its place is computed.";
    fill(target, h("p", { class: "hint" }, text));
    return;
  }
  const { steps } = element;
  const digits = steps.split.map((d) => h("span", { class: "digit", title: `digit ${d.digit} of ${d.extent}` },
    b(d.digit), dim(`/${d.extent}`)));
  const copies = steps.replicas.length === 0
    ? dim("no replicas: one place")
    : h("span", {}, steps.replicas.map((r) => `${r.extent} × ${r.stride}@${r.axis}`).join(", "), dim(`: ${steps.places.length} places`));
  const places = h("ul", { class: "places" }, ...steps.places.slice(0, 8).map((p) => h("li", {}, placeText(p))),
    steps.places.length > 8 ? h("li", { class: "dim" }, `and ${steps.places.length - 8} more`) : null);
  fill(target,
    h("div", { class: "formula-head" },
      h("h2", {}, `Element ${tuple(element.coord)}`),
      h("span", { class: "dim" }, found.place && found.count > 1 ? `one of ${found.count} at ${placeText(found.place)}` : "")),
    h("ol", { class: "steps" },
      step(1, "Flatten", ...flattened(steps)),
      step(2, "Split", h("div", { class: "digits" }, ...digits)),
      step(3, "Add up", ...summed(steps)),
      step(4, "Copies", copies, places)));
}
