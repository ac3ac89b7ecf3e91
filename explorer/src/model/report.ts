/// The report of a compiled program, as docs/schemas/report.schema.json publishes it; what the views use.

import type { State } from "../state";

export interface Shape { size: number[]; stick: number | null; order: string; device_size: number[]; stride_map: number[]; format: string }
export interface Tensor {
  name: string; tensor: string; origin: string; dtype: string; layout: Shape; bytes: number; padding: number;
  place: string; address: number | null; over: string | null; loaded: boolean; written_by: number | null; read_by: number[]; output: boolean;
}
export interface Operand { buffer: number; name: string; size: number[]; lx: boolean }
export interface Dim { name: string; size: number; unit: number; reduced: boolean; split: number }
export interface Step {
  name: string; op: string; kind: "op" | "host" | "move"; family: string; attributes: string; at: string | null;
  reads: Operand[]; writes: Operand[]; load: boolean; dims: Dim[]; decided_by: string; reason: string;
  cores: number; first_core: number; busy: { cores: number; us: number }[]; start_us: number; us: number; bottleneck: string;
  bytes_in: number; bytes_out: number; lx_saved_bytes: number; flops: number; intensity: number | null; tflops: number;
}
export interface Move { step: number; tensor: string; from: { buffer: string; layout: Shape }; to: { buffer: string; layout: Shape }; reason: string; readers: number; bytes: number; us: number; load: boolean }
export interface Occupancy { limit: number; peak: number; points: [us: number, bytes: number][] }
export interface Report {
  version: number;
  graph: string;
  machine: { name: string; cores: number; peak_tflops: number; matmul_tflops: number; memory_gb_s: number; sustained_gb_s: number; lx_bytes: number };
  options: { policy: string; coverage: string; cores: number };
  summary: { latency_us: number; load_us: number; ops: number; moves: number; load_moves: number; bytes: number; flops: number; padding: number; move_us: number; utilisation: number; balance: number; lx_buffers: number; lx_saved_bytes: number; pool_peak: number; weight_bytes: number; input_bytes: number };
  certificate: { optimal: boolean; text: string };
  tensors: Tensor[];
  moves: Move[];
  steps: Step[];
  lx: Occupancy;
  pool: Occupancy;
  fallbacks: { step: number; name: string; op: string; layer: string; us: number; remedy: string }[];
  casts: { tensor: string; dtype: string; stored: string; loss: string; remedy: string }[];
  notes: { kind: string; text: string; remedy: string | null; at: string | null }[];
  comparison: { policy: string; latency_us: number; moves: number; move_us: number; speedup: number } | null;
}

/// A report from a file; says what is missing where it is something else.
export function readReport(text: string): Report {
  const value = JSON.parse(text) as Partial<Report> | null;
  if (!value || typeof value !== "object") throw new Error("a report is a JSON object");
  if (value.version !== 1) throw new Error(`this page reads reports of version 1, found ${JSON.stringify(value.version)}`);
  for (const key of ["machine", "summary", "tensors", "moves", "steps", "lx", "pool"] as const) {
    if (!value[key]) throw new Error(`the report has no \`${key}\``);
  }
  return value as Report;
}

/// The layout of a tensor as the layout view opens it.
export function openTensor(t: Tensor): Partial<State> {
  const l = t.layout;
  const list = (values: number[]) => `[${values.join(", ")}]`;
  return {
    tab: "layout", dtype: t.dtype, shape: l.size.join("x"), pick: "", slab: "", color: "",
    layout: `SpyreTensorLayout(device_size=${list(l.device_size)}, stride_map =${list(l.stride_map)}, device_dtype=DataFormats.${l.format}, host_size=${list(l.size)})`,
  };
}

/// Microseconds for people.
export function time(us: number): string {
  const [value, unit] = us >= 1e6 ? [us / 1e6, "s"] : us >= 1000 ? [us / 1000, "ms"] : [us, "µs"];
  return `${value >= 100 ? value.toFixed(0) : value.toFixed(2).replace(/\.?0+$/, "")} ${unit}`;
}

export const kindOf = (s: Step): string => (s.kind === "move" ? "move" : s.kind === "host" ? "host" : s.family.includes("matmul") || s.op.includes("mm") || s.op === "matmul" ? "matmul" : "op");
