/// A tensor from one sharding over ranks to another: which rank holds which part, and the bytes between them.

import { bytes, Choice, entry, fill, h, plural, refill, s, show, time } from "./dom";
import { ask, Refused } from "./engine";
import { LayoutField } from "./field";
import { numbers, type State, type Store } from "./state";

interface Side {
  mesh: [axis: string, size: number][]; ranks: number; holding: number; copies: number; shard_bytes: number;
  rows: number; cols: number; down: number; across: number; owners: number[][]; cells: number[];
}
interface Planned {
  ranks: number; from: Side; to: Side; pairs: [from: number, to: number, bytes: number][];
  sent: number; kept: number; messages: number; busiest: { rank: number; bytes: number } | null; seconds: number; bandwidth: number;
  chain: { steps: [collective: string, axis: string][]; received: number; peak: number } | { reason: string };
}

const EXAMPLES: [name: string, change: Partial<State>][] = [
  ["Rows to columns", { mesh: "tp=4", toMesh: "", shardFrom: "P('tp', None)", shardTo: "P(None, 'tp')", shardShape: "4096x4096" }],
  ["4 ranks to 2", { mesh: "tp=4", toMesh: "tp=2", shardFrom: "P(None, 'tp')", shardTo: "P(None, 'tp')", shardShape: "4096x4096" }],
  ["FSDP to tensor parallel", { mesh: "dp=4", toMesh: "tp=4", shardFrom: "flat", shardTo: "P(None, 'tp')", shardShape: "4096x1024" }],
  ["Copies share the sending", { mesh: "dp=2, tp=2", toMesh: "tp=6", shardFrom: "P('tp', None)", shardTo: "P('tp', None)", shardShape: "4096x1024" }],
  ["Two axes change places", { mesh: "x=2, y=4", toMesh: "", shardFrom: "P('x', 'y')", shardTo: "P('y', 'x')", shardShape: "4096x4096" }],
  ["Fused query, key, value", { mesh: "tp=2", toMesh: "tp=4", shardFrom: "(_StridedShard(0, split_factor=3),)", shardTo: "(_StridedShard(0, split_factor=3),)", shardShape: "96x64" }],
];
const DTYPES = ["bfloat16", "float16", "float32", "int8"];
const LINKS: [string, string][] = [["450", "450 GB/s"], ["50", "50 GB/s"], ["25", "25 GB/s"], ["3", "3 GB/s"]];
/// Colours of ranks, those of a page in a light and in a dark theme.
const HUES = [172, 28, 262, 96, 330, 208, 58, 0];
/// Ranks up to which every number of bytes is listed.
const TABLE = 16;

export class ReshardView {
  readonly element: HTMLElement;
  private readonly from: LayoutField;
  private readonly to: LayoutField;
  private readonly mesh = entry({ size: 12, spellcheck: "false", "aria-label": "Mesh" }, (mesh) => this.store.set({ mesh }));
  private readonly toMesh = entry({ size: 12, spellcheck: "false", placeholder: "the same", "aria-label": "Mesh afterwards" }, (toMesh) => this.store.set({ toMesh }));
  private readonly shape = entry({ size: 12, spellcheck: "false" }, (shardShape) => this.store.set({ shardShape }));
  private readonly dtype = new Choice("dtype", (shardDtype) => this.store.set({ shardDtype }));
  private readonly link = new Choice("link of a rank", (linkSpeed) => this.store.set({ linkSpeed }));
  private readonly examples = h("div", { class: "segmented wrap", role: "group", "aria-label": "Examples" });
  private readonly fault = h("p", { class: "error", role: "alert" });
  private readonly picture = h("div", { class: "ranks card" });
  private readonly facts = h("div", { class: "cards" });
  private readonly table = h("section", { class: "card matrix" });
  private planned: Planned | null = null;
  private drawn = "";

  constructor(private readonly store: Store) {
    this.from = new LayoutField("Before", "", (shardFrom) => store.set({ shardFrom }));
    this.to = new LayoutField("After", "", (shardTo) => store.set({ shardTo }));
    const field = (name: string, box: HTMLElement) => h("label", { class: "field" }, h("span", {}, name), box);
    this.element = h("div", { class: "view reshard" },
      h("section", { class: "editor" },
        h("div", { class: "headline" }, h("h1", {}, "Reshard"),
          h("p", { class: "summary" }, "A sharding is a layout whose places are ranks; the plan between two lists what each rank sends to which other, each element once.")),
        this.examples,
        h("div", { class: "controls" }, field("mesh", this.mesh), field("mesh afterwards", this.toMesh), field("shape", this.shape), this.dtype.element, this.link.element),
        this.from.element, this.to.element, this.fault),
      this.picture, this.facts, this.table);
  }

  themed(): void {
    // Colours are those of the style sheet.
  }

  pictures(): HTMLCanvasElement[] {
    return [];
  }

  svg(): string | null {
    const drawing = this.picture.querySelector("svg");
    if (!drawing) return null;
    const copy = drawing.cloneNode(true) as SVGElement;
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    // A file has no style sheet: colours become what they are now.
    const [all, own] = [drawing.querySelectorAll("*"), copy.querySelectorAll<SVGElement>("*")];
    all.forEach((e, k) => {
      const style = getComputedStyle(e);
      for (const name of ["fill", "stroke", "stroke-width", "opacity", "font-size", "font-family"]) own[k]!.style.setProperty(name, style.getPropertyValue(name));
    });
    return copy.outerHTML;
  }

  update(state: State): void {
    this.from.set(state.shardFrom);
    this.to.set(state.shardTo);
    refill(this.examples, ...EXAMPLES.map(([name, change]) => h("button", {
      type: "button", "aria-pressed": String(Object.entries(change).every(([k, v]) => state[k as keyof State] === v)),
      onclick: () => this.store.set(change),
    }, name)));
    show(this.mesh, state.mesh);
    show(this.toMesh, state.toMesh);
    show(this.shape, state.shardShape);
    this.dtype.set(DTYPES.map((d) => [d, d] as const), state.shardDtype);
    this.link.set(LINKS, state.linkSpeed);
    const key = JSON.stringify([state.mesh, state.toMesh, state.shardFrom, state.shardTo, state.shardShape, state.shardDtype, state.linkSpeed]);
    if (key === this.drawn) return;
    this.drawn = key;
    this.plan(state);
  }

  private plan(state: State): void {
    this.from.fault(null);
    this.to.fault(null);
    this.fault.textContent = "";
    this.element.classList.add("stale");
    const shape = numbers(state.shardShape);
    if (!shape) {
      this.fault.textContent = `the shape \`${state.shardShape}\` is no list of integers; write 4096x4096`;
      return;
    }
    const request = {
      shape, dtype: state.shardDtype, mesh: state.mesh, from: state.shardFrom, to: state.shardTo,
      bandwidth: (Number(state.linkSpeed) || 25) * 1e9, ...(state.toMesh.trim() ? { to_mesh: state.toMesh } : {}),
    };
    try {
      this.planned = ask<Planned>("reshard", request);
    } catch (e) {
      if (!(e instanceof Refused)) throw e;
      const field = e.fault.witness?.field;
      if (field === "from") this.from.fault(e.fault);
      else if (field === "to") this.to.fault(e.fault);
      else this.fault.textContent = e.fault.message;
      return;
    }
    this.element.classList.remove("stale");
    this.draw();
    this.drawFacts(shape);
    this.drawTable();
  }

  /// The tensor before, the ranks before, what goes to the ranks after, and the tensor after.
  private draw(): void {
    const planned = this.planned!;
    const most = Math.max(planned.from.ranks, planned.to.ranks);
    // Rows of ranks never meet, however many there are.
    const step = Math.max(16, Math.min(56, 440 / most));
    const height = Math.max(260, most * step) + 40;
    const [left, right, side] = [300, 700, 220];
    const width = 1000;
    const y = (rank: number, of: number) => 30 + (height - 40) * ((rank + 0.5) / of);
    const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "flow", role: "img", "aria-label": `What goes between ${planned.ranks} ranks` });
    const text = (x: number, at: number, words: string, kind: string, anchor = "middle") => {
      const element = s("text", { x, y: at, class: kind, "text-anchor": anchor });
      element.textContent = words;
      return element;
    };
    const largest = Math.max(1, ...planned.pairs.map((p) => p[2]));
    const arrows = planned.pairs.slice().sort((a, b) => Number(b[0] === b[1]) - Number(a[0] === a[1]));
    for (const [from, to, n] of arrows) {
      const [y1, y2] = [y(from, planned.from.ranks), y(to, planned.to.ranks)];
      const path = s("path", {
        d: `M${left + 46} ${y1}C${(left + right) / 2} ${y1} ${(left + right) / 2} ${y2} ${right - 46} ${y2}`,
        class: from === to ? "arrow kept" : "arrow", "data-from": from, "data-to": to, "stroke-width": Math.max(1, (Math.min(14, step * 0.4) * n) / largest),
      });
      path.style.stroke = from === to ? "" : hue(from);
      const title = s("title", {});
      title.textContent = from === to ? `rank ${from} keeps ${bytes(n)}` : `${bytes(n)} from rank ${from} to rank ${to}`;
      path.append(title);
      svg.append(path);
    }
    for (const [part, x, words] of [[planned.from, left, "before"], [planned.to, right, "after"]] as const) {
      svg.append(text(x, 16, `ranks ${words}`, "axis"));
      for (let rank = 0; rank < part.ranks; rank++) {
        const at = y(rank, part.ranks);
        const tall = Math.min(26, step - 3);
        const box = s("g", { class: "rank", tabindex: 0, role: "button", "data-rank": rank, "data-side": words, "aria-label": `rank ${rank} ${words}` });
        const rect = s("rect", { x: x - 44, y: at - tall / 2, width: 88, height: tall, rx: 5 });
        rect.style.fill = hue(rank);
        box.append(rect, text(x, at + 4, name(part, rank), "label"));
        for (const [event, to] of [["pointerenter", rank], ["focus", rank], ["pointerleave", -1], ["blur", -1]] as const) box.addEventListener(event, () => this.point(to));
        svg.append(box);
      }
    }
    for (const [part, x, words] of [[planned.from, 10, "tensor before"], [planned.to, width - 10 - side, "tensor after"]] as const) {
      svg.append(text(x + side / 2, 16, words, "axis"), ...this.tensor(part, x, 30, side, Math.min(height - 40, 300)));
    }
    fill(this.picture, h("div", { class: "scroll-x" }, svg as unknown as HTMLElement), this.legend());
  }

  /// A tensor whose cells have the colours of their ranks, stripes where several hold it.
  private tensor(part: Side, x: number, top: number, width: number, height: number): SVGElement[] {
    const [w, t] = [width / Math.max(1, part.cols), height / Math.max(1, part.rows)];
    const cells = part.cells.map((set, k) => {
      const owners = part.owners[set]!;
      const [row, col] = [Math.floor(k / part.cols), k % part.cols];
      const group = s("g", { class: "cell", "data-owners": owners.join(" ") });
      const stripes = owners.slice(0, 4);
      stripes.forEach((rank, i) => {
        const rect = s("rect", { x: x + col * w + (i * w) / stripes.length, y: top + row * t, width: w / stripes.length + 0.3, height: t + 0.3 });
        rect.style.fill = hue(rank);
        group.append(rect);
      });
      const title = s("title", {});
      title.textContent = `on ${owners.length > 8 ? plural(owners.length, "rank") : `rank ${owners.join(", ")}`}`;
      group.append(title);
      return group;
    });
    return [...cells, s("rect", { x, y: top, width, height, class: "outline" })];
  }

  private legend(): HTMLElement {
    const { from, to } = this.planned!;
    const drawn = [from, to].some((p) => p.down > p.rows || p.across > p.cols);
    return h("p", { class: "hint" }, "A colour is a rank, and the width of a band is its bytes; grey ones stay where they are. Point at a rank to see what is its own. ",
      [from, to].some((p) => p.owners.some((o) => o.length > 1)) ? "Stripes are copies on several ranks. " : "",
      drawn ? `The tensor is ${from.down.toLocaleString("en")} × ${from.across.toLocaleString("en")}; each cell shows its first element.` : "");
  }

  private point(rank: number): void {
    const on = (element: Element, yes: boolean) => element.classList.toggle("away", rank >= 0 && !yes);
    for (const arrow of this.picture.querySelectorAll<SVGElement>(".arrow")) on(arrow, [arrow.dataset.from, arrow.dataset.to].includes(String(rank)));
    for (const cell of this.picture.querySelectorAll<SVGElement>(".cell")) on(cell, cell.dataset.owners!.split(" ").includes(String(rank)));
    for (const box of this.picture.querySelectorAll<SVGElement>(".rank")) on(box, box.dataset.rank === String(rank));
  }

  private drawFacts(shape: number[]): void {
    const planned = this.planned!;
    const card = (title: string, rows: [string, string][], ...more: HTMLElement[]) => h("section", { class: "card", "data-card": title }, h("h3", {}, title),
      h("dl", { class: "facts" }, ...rows.flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)])), ...more);
    const all = planned.sent + planned.kept;
    const plan = card("Plan", [
      ["sent", `${bytes(planned.sent)} of ${bytes(all)}`], ["kept", bytes(planned.kept)], ["messages", planned.messages.toLocaleString("en")],
      ["busiest sender", planned.busiest && planned.busiest.bytes ? `rank ${planned.busiest.rank}, ${bytes(planned.busiest.bytes)}` : "none"],
      ["time", `${time(planned.seconds * 1e6)}, computed at ${planned.bandwidth / 1e9} GB/s each way`],
    ]);
    const chain = planned.chain;
    const other = "reason" in chain
      ? card("Chain of collectives", [], h("p", { class: "hint" }, `There is none: ${chain.reason}.`))
      : card("Chain of collectives", [
        ["steps", chain.steps.map(([c, axis]) => `${c} over ${axis}`).join(", ") || "none"], ["received", bytes(chain.received)],
        ["most on a rank", bytes(chain.peak)], ["beside the plan", planned.sent ? `${(chain.received / planned.sent).toFixed(2)} times the bytes` : chain.received ? "the plan sends nothing" : "equal"],
      ], h("p", { class: "hint" }, "As DTensor redistributes: mesh axis by mesh axis."));
    const held = (part: Side): [string, string][] => [
      ["ranks", `${part.holding} of ${part.ranks}`], ["copies", String(part.copies)], ["a shard", bytes(part.shard_bytes)]];
    fill(this.facts, plan, other, card("Before", held(planned.from)), card("After", held(planned.to)));
    this.facts.dataset.shape = shape.join("x");
  }

  /// Bytes from every rank to every rank.
  private drawTable(): void {
    const { pairs, from, to } = this.planned!;
    this.table.hidden = Math.max(from.ranks, to.ranks) > TABLE;
    if (this.table.hidden) return;
    const sent = new Map(pairs.map(([a, b, n]) => [`${a} ${b}`, n]));
    const ranks = (n: number) => [...Array(n).keys()];
    fill(this.table, h("h3", {}, "Bytes from rank (row) to rank (column)"), h("div", { class: "scroll-x" }, h("table", {},
      h("tr", {}, h("td", {}), ...ranks(to.ranks).map((r) => h("th", { scope: "col" }, String(r)))),
      ...ranks(from.ranks).map((a) => h("tr", {}, h("th", { scope: "row" }, String(a)), ...ranks(to.ranks).map((b) => {
        const n = sent.get(`${a} ${b}`);
        return h("td", { class: n === undefined ? "dim" : a === b ? "own" : "", "data-pair": `${a} ${b}` }, n === undefined ? "·" : bytes(n));
      }))))));
  }
}

function hue(rank: number): string {
  const round = Math.floor(rank / HUES.length);
  return `hsl(${HUES[rank % HUES.length]! + round * 17} var(--rank-saturation) calc(var(--rank-lightness) + ${(round % 3) * 7}%))`;
}

/// `tp 3`, or the coordinates on a mesh of several axes.
function name(part: Side, rank: number): string {
  const at: number[] = [];
  let rest = rank;
  for (const [, size] of part.mesh.slice().reverse()) {
    at.unshift(rest % size);
    rest = Math.floor(rest / size);
  }
  if (part.mesh.length < 2) return `rank ${rank}`;
  return `${rank}: ${part.mesh.map(([axis], i) => `${axis}${at[i]}`).join(" ")}`;
}
