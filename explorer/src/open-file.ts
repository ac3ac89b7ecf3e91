/// Files that are dropped on the page: each opens in the view that it is for.

import { h } from "./dom";
import type { State, Store } from "./state";

/// A tensor of a safetensors file.
interface HeldTensor { name: string; dtype: string; shape: number[] }

/// The names of dtypes in safetensors files, and here.
const DTYPES: Record<string, string> = {
  F64: "float64", F32: "float32", F16: "float16", BF16: "bfloat16", F8_E4M3: "float8_e4m3fn", F8_E5M2: "float8_e5m2",
  I64: "int64", I32: "int32", I16: "int16", I8: "int8", U8: "uint8", BOOL: "bool",
};
/// The longest header that is read: files of the largest models have some megabytes.
const LONGEST_HEADER = 100_000_000;
/// The longest text that is opened.
const LONGEST_TEXT = 20_000_000;
/// Tensors that are listed.
const MOST_LISTED = 2000;

/// Opens a file. `report` opens the report of a compiled program.
export async function openFile(file: File, store: Store, report: (file: File) => Promise<void>): Promise<void> {
  if (/\.safetensors$/i.test(file.name)) {
    pickTensor(file.name, await readHeader(file), store);
    return;
  }
  if (/\.json$/i.test(file.name)) {
    store.set({ tab: "model" });
    await report(file);
    return;
  }
  if (file.size > LONGEST_TEXT) throw new Error(`${file.name} has ${file.size.toLocaleString("en")} bytes; texts of at most ${LONGEST_TEXT.toLocaleString("en")} are opened`);
  const text = await file.text();
  if (text.includes("\0")) throw new Error(`${file.name} is no text; the page opens reports (.json), graphs, safetensors, and texts with layouts such as TTGIR`);
  if (/^\s*(#[^\n]*\n\s*)*graph\s+\w+\s*\(/.test(text)) store.set({ tab: "model", model: text, modelStep: 0, report: "" });
  else store.set({ tab: "layout", layout: text, shape: "", pick: "", slab: "", color: "" });
}

/// The tensors that the header of a safetensors file names.
async function readHeader(file: File): Promise<HeldTensor[]> {
  const wrong = (why: string) => new Error(`${file.name} is no safetensors file: ${why}`);
  if (file.size < 8) throw wrong("it has less than 8 bytes");
  const length = new DataView(await file.slice(0, 8).arrayBuffer()).getBigUint64(0, true);
  if (length > BigInt(Math.min(file.size - 8, LONGEST_HEADER))) throw wrong(`its header would have ${length} bytes`);
  let header: unknown;
  try {
    header = JSON.parse(await file.slice(8, 8 + Number(length)).text());
  } catch {
    throw wrong("its header is not JSON");
  }
  if (typeof header !== "object" || header === null || Array.isArray(header)) throw wrong("its header is no object");
  return Object.entries(header).filter(([name]) => name !== "__metadata__").map(([name, value]) => {
    const { dtype, shape } = (value ?? {}) as { dtype?: unknown; shape?: unknown };
    if (typeof dtype !== "string" || !Array.isArray(shape) || !shape.every((n) => Number.isSafeInteger(n) && n >= 0)) throw wrong(`\`${name}\` has no dtype and shape`);
    return { name, dtype, shape: shape as number[] };
  });
}

/// Lets the reader choose one of the tensors, and shows its layout: safetensors are row-major.
function pickTensor(file: string, tensors: HeldTensor[], store: Store): void {
  const dialog = h("dialog", { class: "picker", "aria-label": `Tensors of ${file}` });
  const items = tensors.slice(0, MOST_LISTED).map((t) => h("li", {}, h("button", {
    type: "button", class: "quiet", "data-tensor-name": t.name,
    onclick: () => {
      dialog.close();
      store.set({ tab: "layout", ...layoutOf(t), pick: "", slab: "", color: "" });
    },
  }, `${t.name}  ${t.dtype} ${t.shape.join(" × ") || "scalar"}`)));
  dialog.append(h("h2", {}, file), h("p", { class: "hint" }, `${tensors.length.toLocaleString("en")} tensors. Pick one to see its layout.${tensors.length > MOST_LISTED ? ` The first ${MOST_LISTED} are listed.` : ""}`),
    h("ul", {}, ...items), h("form", { method: "dialog" }, h("button", { class: "primary" }, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function layoutOf({ shape, dtype }: HeldTensor): Partial<State> {
  const strides = shape.map((_, i) => shape.slice(i + 1).reduce((a, e) => a * e, 1));
  return { layout: `size=[${shape.join(", ")}] stride=[${strides.join(", ")}]`, shape: shape.join("x"), dtype: DTYPES[dtype] ?? dtype.toLowerCase() };
}
