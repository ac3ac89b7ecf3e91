/// Reading the report of a file: it must follow the published schema, and be one that can be drawn.

import published from "../../../docs/schemas/report.schema.json";
import type { Report } from "./report";

/// The part of JSON Schema that the schema of reports uses.
interface Schema {
  $ref?: string; const?: unknown; anyOf?: Schema[]; oneOf?: Schema[]; type?: string | string[]; minimum?: number;
  properties?: Record<string, Schema>; items?: Schema; prefixItems?: Schema[]; $defs?: Record<string, Schema>;
}
const SCHEMA = published as unknown as Schema;

const IS: Record<string, (value: unknown) => boolean> = {
  object: (v) => typeof v === "object" && v !== null && !Array.isArray(v),
  list: Array.isArray,
  text: (v) => typeof v === "string",
  number: Number.isFinite,
  "whole number": Number.isInteger,
  flag: (v) => typeof v === "boolean",
  nothing: (v) => v === null,
};
const NAMES: Record<string, string> = { object: "object", array: "list", string: "text", number: "number", integer: "whole number", boolean: "flag", null: "nothing" };

/// Where a value does not follow a schema, as words; null where it does. Fields that the schema does not name
/// are passed over: a page can be drawn without them.
function broken(value: unknown, schema: Schema, path: string): string | null {
  if (value === undefined) return `it has no \`${path}\``;
  if (schema.$ref) return broken(value, SCHEMA.$defs![schema.$ref.replace("#/$defs/", "")]!, path);
  if (schema.anyOf) {
    const found = schema.anyOf.map((one) => broken(value, one, path));
    return found.includes(null) ? null : found[0]!;
  }
  if (schema.oneOf) {
    const words = schema.oneOf.map((one) => one.const);
    return words.includes(value) ? null : `\`${path}\` is none of ${words.join(", ")}`;
  }
  const kinds = [schema.type ?? []].flat().map((name) => NAMES[name]!);
  if (!kinds.some((kind) => IS[kind]!(value))) return `\`${path}\` is no ${kinds[0]}`;
  if (typeof value === "number" && schema.minimum !== undefined && value < schema.minimum) return `\`${path}\` is less than ${schema.minimum}`;
  if (Array.isArray(value)) {
    const parts = schema.prefixItems;
    if (parts && parts.length !== value.length) return `\`${path}\` is no list of ${parts.length}`;
    return first(value, (item, i) => broken(item, parts ? parts[i]! : schema.items!, `${path}[${i}]`));
  }
  return first(Object.entries(schema.properties ?? {}), ([name, field]) =>
    broken((value as Record<string, unknown>)[name], field, path ? `${path}.${name}` : name));
}

/// What is first found wrong in a list.
function first<T>(list: T[], wrong: (item: T, index: number) => string | null): string | null {
  for (const [i, item] of list.entries()) {
    const found = wrong(item, i);
    if (found) return found;
  }
  return null;
}

const MOST_CORES = 4096;

/// What cannot be drawn although it follows the schema: more cores than a drawing has room for, and axes that
/// end at zero.
function undrawable({ machine, steps }: Report): string | null {
  const speeds = [["peak_tflops", machine.peak_tflops], ["matmul_tflops", machine.matmul_tflops], ["sustained_gb_s", machine.sustained_gb_s]] as const;
  const slow = speeds.find(([, speed]) => speed <= 0);
  if (slow) return `\`machine.${slow[0]}\` is no speed`;
  const many = (cores: number, path: string) => cores > MOST_CORES ? `\`${path}\` is no number of cores up to ${MOST_CORES}` : null;
  if (machine.cores === 0) return "its machine has no cores";
  return many(machine.cores, "machine.cores") ?? first(steps, (step, i) =>
    many(step.cores, `steps[${i}].cores`) ?? many(step.first_core, `steps[${i}].first_core`)
    ?? first(step.busy, (busy, j) => many(busy.cores, `steps[${i}].busy[${j}].cores`)));
}

/// The report that a file holds; a file with something else is an error that names the place.
export function readReport(text: string): Report {
  let value: { version?: unknown } | null;
  try {
    value = JSON.parse(text) as { version?: unknown } | null;
  } catch (e) {
    throw new Error(`this is no JSON: ${e instanceof Error ? e.message : String(e)}`);
  }
  if (!value || typeof value !== "object") throw new Error("a report is a JSON object");
  const version = SCHEMA.properties!["version"]!.const;
  if (value.version !== version) throw new Error(`this page reads reports of version ${version}, found ${JSON.stringify(value.version)}`);
  const found = broken(value, SCHEMA, "") ?? undrawable(value as Report);
  if (found) throw new Error(`this is no report: ${found}`);
  return value as Report;
}
