/// Time, memory and speed of a program.

import { bytes, h, s, time } from "../dom";
import { kindOf } from "./graph";
import type { MemoryOccupancy, Report } from "./report";

const WIDE = 1000;

function text(content: string, attributes: Record<string, string | number>): SVGElement {
  const t = s("text", attributes);
  t.textContent = content;
  return t;
}

function titled(element: SVGElement, content: string): SVGElement {
  const title = s("title", {});
  title.textContent = content;
  element.append(title);
  return element;
}

/// Round numbers up to a limit.
function ticks(most: number, count: number): number[] {
  if (most <= 0) return [0];
  const raw = most / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((m) => m >= raw)!;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}

/// Cores down, time across: when each core works, and what bounds its step.
export function timeline(report: Report, selected: number, pick: (step: number) => void): HTMLElement {
  const [left, top, height] = [54, 8, 236];
  const steps = report.steps.map((step, index) => ({ step, index })).filter(({ step }) => !step.load);
  const most = Math.max(report.summary.latency_us, 0.001);
  const x = (us: number) => left + ((WIDE - left - 10) * us) / most;
  const tall = (height - top - 34) / report.machine.cores;
  const bars = steps.map(({ step, index }) => {
    const host = step.kind === "host";
    const bar = s("rect", {
      x: x(step.start_us), width: Math.max(0.8, x(step.start_us + step.us) - x(step.start_us) - 0.3),
      y: host ? height - 30 : top + step.first_core * tall, height: host ? 8 : Math.max(1, step.cores * tall - 0.5),
      class: `bar-${kindOf(step)}${index === selected ? " selected" : ""}`, rx: 1.5,
    });
    bar.addEventListener("click", () => pick(index));
    return titled(bar, `${step.op} → ${step.name}\n${time(step.us)} from ${time(step.start_us)}, cores ${step.first_core} to ${step.first_core + step.cores - 1}, ${step.bottleneck}`);
  });
  const axis = ticks(most, 8).flatMap((t) => [
    s("line", { x1: x(t), x2: x(t), y1: top, y2: height - 20, class: "rule" }),
    text(time(t), { x: x(t), y: height - 6, "text-anchor": "middle", class: "tick" })]);
  const rows = [0, report.machine.cores / 2, report.machine.cores - 1].map((c) =>
    text(`core ${Math.floor(c)}`, { x: left - 5, y: top + c * tall + 7, "text-anchor": "end", class: "tick" }));
  return figure(s("svg", { viewBox: `0 0 ${WIDE} ${height}`, class: "chart", role: "img", "aria-label": `Timeline of ${steps.length} steps` }, ...axis, ...rows, ...bars));
}

/// Bytes in use from moment to moment, under their limit.
export function occupancy(name: string, data: MemoryOccupancy, latency: number): HTMLElement {
  const [left, top, height] = [64, 8, 130];
  const most = Math.max(data.limit, data.peak, 1) * 1.05;
  const last = Math.max(latency, data.points.at(-1)?.[0] ?? 0, 0.001);
  const x = (us: number) => left + ((WIDE - left - 10) * us) / last;
  const y = (b: number) => top + (height - top - 22) * (1 - b / most);
  let path = `M${x(0)} ${y(0)}`;
  let now = 0;
  for (const [us, b] of data.points) {
    path += `L${x(us)} ${y(now)}L${x(us)} ${y(b)}`;
    now = b;
  }
  path += `L${x(last)} ${y(now)}L${x(last)} ${y(0)}Z`;
  const marks = [data.peak, data.limit].filter((b, i, all) => b > 0 && all.indexOf(b) === i).flatMap((b) => [
    s("line", { x1: left, x2: WIDE - 10, y1: y(b), y2: y(b), class: b === data.limit ? "limit" : "rule" }),
    text(bytes(b), { x: left - 6, y: y(b) + 3, "text-anchor": "end", class: "tick" })]);
  const axis = ticks(last, 8).map((t) => text(time(t), { x: x(t), y: height - 6, "text-anchor": "middle", class: "tick" }));
  return figure(s("svg", { viewBox: `0 0 ${WIDE} ${height}`, class: "chart", role: "img", "aria-label": `${name}: ${bytes(data.peak)} at most` },
    s("path", { d: path, class: "area" }), ...marks, ...axis));
}

/// FLOP per byte across, TFLOP/s up, both by powers of ten; under the roof of the hardware.
export function roofline(report: Report, selected: number, pick: (step: number) => void): HTMLElement {
  const [left, top, height, width] = [46, 8, 300, 560];
  const points = report.steps.map((step, index) => ({ step, index })).filter(({ step }) => step.intensity !== null && step.intensity > 0 && step.tflops > 0);
  const { peak_tflops: peak, matmul_tflops: sustained, sustained_gb_s: memory } = report.machine;
  const xs = points.map((p) => Math.log10(p.step.intensity!));
  const ys = points.map((p) => Math.log10(p.step.tflops));
  const ridge = Math.log10((peak * 1000) / memory);
  const [x0, x1] = [Math.floor(Math.min(...xs, -1)), Math.ceil(Math.max(...xs, ridge + 0.7))];
  const [y0, y1] = [Math.floor(Math.min(...ys, -2)), Math.ceil(Math.log10(peak) + 0.2)];
  // Room for half of the last number.
  const right = width - 26;
  const x = (v: number) => left + ((right - left) * (v - x0)) / (x1 - x0);
  const y = (v: number) => top + (height - top - 26) * (1 - (v - y0) / (y1 - y0));
  const slope = (v: number) => Math.log10((10 ** v * memory) / 1000);
  const roof = (limit: number, name: string) => {
    const meet = Math.log10((limit * 1000) / memory);
    return titled(s("path", { class: "roof", d: `M${x(x0)} ${y(Math.max(y0, slope(x0)))}L${x(meet)} ${y(Math.log10(limit))}L${x(x1)} ${y(Math.log10(limit))}` }), name);
  };
  const dots = points.map(({ step, index }) => {
    const dot = s("circle", { cx: x(Math.log10(step.intensity!)), cy: y(Math.log10(step.tflops)), r: index === selected ? 6 : 4, class: `bar-${kindOf(step)}${index === selected ? " selected" : ""}` });
    dot.addEventListener("click", () => pick(index));
    return titled(dot, `${step.op} → ${step.name}\n${step.intensity!.toFixed(2)} FLOP/byte, ${step.tflops.toPrecision(3)} TFLOP/s, ${step.bottleneck}`);
  });
  const grid = [
    ...Array.from({ length: x1 - x0 + 1 }, (_, i) => text(String(10 ** (x0 + i)), { x: x(x0 + i), y: height - 10, "text-anchor": "middle", class: "tick" })),
    ...Array.from({ length: y1 - y0 + 1 }, (_, i) => text(String(10 ** (y0 + i)), { x: left - 6, y: y(y0 + i) + 3, "text-anchor": "end", class: "tick" })),
    ...Array.from({ length: y1 - y0 + 1 }, (_, i) => s("line", { x1: left, x2: right, y1: y(y0 + i), y2: y(y0 + i), class: "rule" })),
  ];
  return figure(s("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": `Roofline of ${points.length} steps` },
    ...grid, roof(peak, `peak ${peak} TFLOP/s, ${memory} GB/s`), roof(sustained, `matrix products sustain ${sustained} TFLOP/s`), ...dots),
  "FLOP per byte of device memory across, TFLOP/s up");
}

function figure(picture: SVGElement, caption = ""): HTMLElement {
  return h("figure", { class: "scroll-x" }, picture as unknown as HTMLElement, caption ? h("figcaption", {}, caption) : null);
}
