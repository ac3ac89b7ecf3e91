/// The steps of a program as a graph from top to bottom: operations, moves, tensors between them.

import { h, s, time } from "../dom";
import type { Report, ReportedBuffer, ReportedStep } from "./report";

/// Steps drawn at once; a slider shows the others.
export const WINDOW = 160;

const BOX = { width: 168, height: 46, gapX: 44, gapY: 68 };

interface Node { x: number; y: number; layer: number; order: number; step: number }

export interface GraphEvents { step(index: number): void; tensor(tensor: ReportedBuffer): void }

/// The class of a step in the style sheet.
export const kindOf = (s: ReportedStep): string => s.kind !== "op" ? s.kind : s.family === "matmul" || s.op.includes("mm") || s.op === "matmul" ? "matmul" : "op";

/// Draws the steps `first .. first + WINDOW`.
export function graph(report: Report, first: number, selected: number, events: GraphEvents): HTMLElement {
  const last = Math.min(report.steps.length, first + WINDOW);
  const nodes = layered(report, first, last);
  const width = Math.max(...nodes.map((n) => n.x + BOX.width), 300) + 20;
  const height = Math.max(...nodes.map((n) => n.y + BOX.height), 100) + 40;
  const at = new Map(nodes.map((n) => [n.step, n]));
  const edges: SVGElement[] = [];
  const labels: SVGElement[] = [];
  for (const tensor of report.tensors) {
    const from = tensor.written_by === null ? null : at.get(tensor.written_by) ?? null;
    const readers = tensor.read_by.map((r) => at.get(r)).filter((n) => n !== undefined);
    if (!from && readers.length === 0) continue;
    const kind = tensor.place === "lx" ? "lx" : tensor.origin === "copy" ? "copy" : tensor.loaded ? "loaded" : "plain";
    const start = from
      ? { x: from.x + BOX.width / 2, y: from.y + BOX.height }
      : { x: readers[0]!.x + 14, y: readers[0]!.y - 30 };
    for (const to of readers) {
      const inputs = report.steps[to.step]!.reads;
      const slot = Math.max(0, inputs.findIndex((o) => o.name === tensor.name));
      const x2 = to.x + (BOX.width * (slot + 1)) / (inputs.length + 1);
      const y2 = to.y;
      const bend = Math.max(18, (y2 - start.y) / 2);
      // Names of inputs stand one above the other, so that none covers its neighbour.
      const up = 13 + 11 * (inputs.length - 1 - slot);
      edges.push(s("path", { class: `edge ${kind}`, d: from ? `M${start.x} ${start.y}C${start.x} ${start.y + bend} ${x2} ${y2 - bend} ${x2} ${y2}` : `M${x2} ${y2 - up}L${x2} ${y2}` }));
      if (!from) labels.push(label(tensor, x2 - 3, y2 - up - 3, kind, events));
    }
    if (from) labels.push(label(tensor, start.x + 5, start.y + 13, kind, events));
  }
  const boxes = nodes.map((n) => {
    const step = report.steps[n.step]!;
    const kind = kindOf(step);
    const group = s("g", { class: `node ${kind}${n.step === selected ? " selected" : ""}`, transform: `translate(${n.x} ${n.y})`, tabindex: 0, role: "button", "data-step": n.step, "aria-label": `${step.op} ${step.name}, ${time(step.us)}` },
      s("rect", { width: BOX.width, height: BOX.height, rx: 8 }));
    const line = (text: string, y: number, name: string) => {
      const t = s("text", { x: 11, y, class: name });
      t.textContent = text.length > 24 ? `${text.slice(0, 23)}…` : text;
      return t;
    };
    const title = s("title", {});
    title.textContent = `${step.op} → ${step.name}\n${time(step.us)}, ${step.cores} cores, ${step.bottleneck}\n${step.reason}`;
    group.append(line(step.kind === "move" ? "restickify" : step.op, 19, "op"), line(`${time(step.us)} · ${step.cores} cores`, 36, "cost"), title);
    group.addEventListener("click", () => events.step(n.step));
    onKey(group, () => events.step(n.step));
    return group;
  });
  const picture = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "program", role: "group", "aria-label": `Graph of ${report.graph}` }, ...edges, ...boxes, ...labels);
  return h("div", { class: "program-scroll", tabindex: 0, role: "region", "aria-label": "Program" }, picture as unknown as HTMLElement);
}

function label(tensor: ReportedBuffer, x: number, y: number, kind: string, events: GraphEvents): SVGElement {
  const text = s("text", { x, y, class: `tensor ${kind}`, tabindex: 0, role: "link", "data-tensor": tensor.name, "aria-label": `Open the layout of ${tensor.name}` });
  text.textContent = `${tensor.tensor.length > 14 ? `${tensor.tensor.slice(0, 13)}…` : tensor.tensor}  ${tensor.layout.order}`;
  const title = s("title", {});
  title.textContent = `${tensor.name}: ${tensor.dtype} [${tensor.layout.size.join(", ")}] as ${tensor.layout.format}, ${tensor.place}\nclick to open its layout`;
  text.append(title);
  text.addEventListener("click", () => events.tensor(tensor));
  onKey(text, () => events.tensor(tensor));
  return text;
}

/// Enter and Space, as on a button.
function onKey(element: SVGElement, act: () => void): void {
  element.addEventListener("keydown", (e) => {
    if (e.key !== "Enter" && e.key !== " ") return;
    e.preventDefault();
    act();
  });
}

/// Each step one layer below the lowest that it reads from; in a layer, near what it reads.
function layered(report: Report, first: number, last: number): Node[] {
  const nodes: Node[] = [];
  const layers: Node[][] = [];
  const byStep = new Map<number, Node>();
  const writer = new Map(report.tensors.map((t) => [t.name, t.written_by]));
  for (let step = first; step < last; step++) {
    const parents = report.steps[step]!.reads.map((o) => byStep.get(writer.get(o.name) ?? -1)).filter((n) => n !== undefined);
    let layer = parents.reduce((most, p) => Math.max(most, p.layer + 1), 0);
    // A layer that is full pushes on to the next.
    while ((layers[layer]?.length ?? 0) >= 6) layer++;
    const wanted = parents.length ? parents.reduce((sum, p) => sum + p.order, 0) / parents.length : layers[layer]?.length ?? 0;
    const node: Node = { x: 0, y: 0, layer, order: wanted, step };
    (layers[layer] ??= []).push(node);
    byStep.set(step, node);
    nodes.push(node);
    // Distinct places in the layer, as near to the wanted ones as can be.
    const row = layers[layer]!.sort((a, b) => a.order - b.order);
    row.forEach((n, i) => { if (i > 0) n.order = Math.max(n.order, row[i - 1]!.order + 1); });
  }
  for (const n of nodes) {
    n.x = 12 + n.order * (BOX.width + BOX.gapX);
    n.y = 50 + n.layer * (BOX.height + BOX.gapY);
  }
  return nodes;
}
