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
  notes: { kind: string; op: string | null; name: string | null; text: string; remedy: string | null; at: string | null }[];
  comparison: { policy: string; latency_us: number; moves: number; move_us: number; speedup: number } | null;
}

/// What a value must be: a name of a kind, a list of something, fields, or one of two.
type Rule = "text" | "number" | "speed" | "pair" | "cores" | "flag" | "nothing" | readonly [Rule] | { readonly [field: string]: Rule } | Either;
class Either { constructor(readonly a: Rule, readonly b: Rule) {} }

const NULL = (rule: Rule): Rule => new Either("nothing", rule);
const SHAPE: Rule = { size: ["number"], order: "text", device_size: ["number"], stride_map: ["number"], format: "text" };
const OCCUPANCY: Rule = { limit: "number", peak: "number", points: ["pair"] };
/// Everything that the views read; what they do not is left alone.
const REPORT: Rule = {
  graph: "text",
  machine: { cores: "cores", peak_tflops: "speed", matmul_tflops: "speed", sustained_gb_s: "speed" },
  summary: { latency_us: "number", ops: "number", moves: "number", load_moves: "number", bytes: "number", padding: "number", utilisation: "number", lx_saved_bytes: "number" },
  certificate: { text: "text" },
  tensors: [{ name: "text", tensor: "text", origin: "text", dtype: "text", layout: SHAPE, place: "text", loaded: "flag", written_by: NULL("number"), read_by: ["number"] }],
  moves: [{ step: "number", tensor: "text", from: { layout: { order: "text" } }, to: { layout: { order: "text" } }, reason: "text", bytes: "number", us: "number", load: "flag" }],
  steps: [{
    name: "text", op: "text", kind: "text", family: "text", reads: [{ name: "text" }], load: "flag", dims: [{ name: "text", size: "number", split: "number" }], decided_by: "text", reason: "text",
    cores: "cores", first_core: "cores", busy: [{ cores: "cores", us: "number" }], start_us: "number", us: "number", bottleneck: "text",
    bytes_in: "number", bytes_out: "number", lx_saved_bytes: "number", intensity: NULL("number"), tflops: "number",
  }],
  lx: OCCUPANCY, pool: OCCUPANCY,
  fallbacks: [{ op: "text", us: "number", remedy: "text" }],
  casts: [{ tensor: "text", stored: "text", loss: "text", remedy: "text" }],
  notes: [{ op: NULL("text"), name: NULL("text"), text: "text", remedy: NULL("text") }],
  comparison: NULL({ policy: "text", speedup: "number" }),
};
const MOST_CORES = 4096;

/// Where a value breaks its rule, as words; null where it does not.
function broken(value: unknown, rule: Rule, path: string): string | null {
  if (rule instanceof Either) return broken(value, rule.a, path) && broken(value, rule.b, path);
  if (Array.isArray(rule)) {
    if (!Array.isArray(value)) return `\`${path}\` is no list`;
    for (const [i, item] of value.entries()) {
      const found = broken(item, rule[0], `${path}[${i}]`);
      if (found) return found;
    }
    return null;
  }
  if (typeof rule === "object") {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return `\`${path}\` is no object`;
    for (const [name, inner] of Object.entries(rule)) {
      const found = broken((value as Record<string, unknown>)[name], inner, path ? `${path}.${name}` : name);
      if (found) return found;
    }
    return null;
  }
  if (value === undefined) return `it has no \`${path}\``;
  const good = {
    text: typeof value === "string", number: Number.isFinite(value), flag: typeof value === "boolean", nothing: value === null,
    speed: Number.isFinite(value) && Number(value) > 0, pair: Array.isArray(value) && value.length === 2 && value.every(Number.isFinite),
    cores: Number.isSafeInteger(value) && Number(value) >= 0 && Number(value) <= MOST_CORES,
  }[rule as "text"];
  return good ? null : `\`${path}\` is no ${rule === "cores" ? `number of cores up to ${MOST_CORES}` : rule}`;
}

/// A report from a file; says what is missing where it is something else.
export function readReport(text: string): Report {
  let value: Partial<Report> | null;
  try {
    value = JSON.parse(text) as Partial<Report> | null;
  } catch (e) {
    throw new Error(`this is no JSON: ${e instanceof Error ? e.message : String(e)}`);
  }
  if (!value || typeof value !== "object") throw new Error("a report is a JSON object");
  if (value.version !== 1) throw new Error(`this page reads reports of version 1, found ${JSON.stringify(value.version)}`);
  const found = broken(value, REPORT, "");
  if (found) throw new Error(`this is no report: ${found}`);
  if (value.machine!.cores === 0) throw new Error("this is no report: its machine has no cores");
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
