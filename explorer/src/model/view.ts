/// A compiled model: what was chosen, where it runs, what it costs.

import { bytes, Choice, fill, h, plural, refill, time } from "../dom";
import { ask, Refused } from "../engine";
import { styled } from "../export";
import type { State, Store } from "../state";
import { occupancy, roofline, timeline } from "./charts";
import { graph, WINDOW } from "./graph";
import { keepFile, readKept } from "../kept-report";
import { readReport } from "./read-report";
import type { Report, ReportedBuffer, ReportedStep } from "./report";

// Whole models are for the program: a page carries examples that are read in a moment.
const EXAMPLES = import.meta.glob(["../../../examples/*.graph", "!../../../examples/granite-8b-*.graph"], { query: "?raw", import: "default", eager: true }) as Record<string, string>;
const examples = Object.entries(EXAMPLES).map(([path, text]) => [path.replace(/.*\/|\.graph$/g, ""), text] as const);

export class ModelView {
  readonly element: HTMLElement;
  private readonly source = h("textarea", { id: "graph-text", class: "graph-text", spellcheck: "false", rows: 9 });
  private readonly error = h("pre", { class: "error", role: "alert" });
  private readonly example = new Choice("example", (model) => {
    if (!model) {
      this.update(this.store.get());
      return;
    }
    this.store.set({ model, modelStep: 0, report: "" });
  });
  private readonly policy = new Choice("policy", (policy) => this.store.set({ policy, report: "" }));
  private readonly sought = h("input", {
    type: "search", size: 18, placeholder: "softmax, or a tensor", "aria-label": "Find a step or a tensor", spellcheck: "false",
    onkeydown: (e: KeyboardEvent) => {
      if (e.key === "Enter") this.find(this.sought.value);
    },
  });
  private readonly unfound = h("p", { class: "hint", role: "status" });
  private readonly out = h("div", { class: "view" });
  private compiled: { key: string; report: Report | null; error: string } = { key: "", report: null, error: "" };
  /// A report from a file, shown until another graph or policy is chosen.
  private opened: { report: Report; name: string; key: string } | null = null;
  /// The key of a report that is being read.
  private wanted = "";
  private readonly kept = h("p", { class: "hint", role: "status" });
  /// Why the last file was refused.
  private refused = "";
  private asked = "";
  private drawn: Report | null = null;
  private typing = 0;
  private reading = 0;

  constructor(private readonly store: Store) {
    this.source.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = window.setTimeout(() => {
        this.typing = 0;
        this.store.set({ model: this.source.value, modelStep: 0, report: "" });
      }, 400);
    });
    const open = h("input", {
      type: "file", accept: ".json,application/json", "aria-label": "Open a report",
      // The same file may be chosen again, when it was written anew.
      onclick: () => (open.value = ""),
      onchange: () => void this.open(open.files?.[0]),
    });
    this.element = h("div", { class: "view" },
      h("section", { class: "editor" },
        h("div", { class: "headline" }, h("h1", {}, "Compiled model"),
          h("p", { class: "summary" }, "A graph goes in; layouts, moves, the work of 32 cores and a timeline come out.")),
        h("div", { class: "controls" }, this.example.element, this.policy.element,
          h("label", { class: "field" }, h("span", {}, "find"), this.sought)), this.unfound,
        h("label", { class: "visually-hidden", for: "graph-text" }, "Graph"), this.source, this.error,
        h("label", { class: "field file" }, h("span", {}, "or a report of zellige compile --json: choose it, or drop it on the page"), open), this.kept),
      this.out);
  }

  themed(): void {
    // Everything here is coloured by the style sheet.
  }

  pictures(): HTMLCanvasElement[] {
    return [];
  }

  /// The graph of the program.
  svg(): string | null {
    const picture = this.out.querySelector<SVGElement>(".program");
    return picture && styled(picture);
  }

  update(state: State): void {
    const text = examples.find(([name]) => name === state.model)?.[1] ?? state.model;
    const asked = `${state.policy}\n${state.model}`;
    if (asked !== this.asked) {
      // Another graph wins over a file, and over what is half typed.
      this.asked = asked;
      this.refused = "";
      clearTimeout(this.typing);
      this.typing = 0;
    }
    this.showKept(state);
    if (!this.typing && this.source.value !== text) this.source.value = text;
    this.compile(text, state.policy);
    const named = !this.opened && examples.some(([n]) => n === state.model);
    this.example.set([["", this.opened?.name ?? "your own"], ...examples.map(([name]) => [name, name] as const)], named ? state.model : "");
    this.policy.set([["best", "best"], ["baseline", "baseline"]], state.policy);
    const error = this.refused || (this.opened ? "" : this.compiled.error);
    this.error.hidden = error === "";
    this.error.textContent = error;
    this.draw(state, this.opened ? this.opened.report : this.compiled.report);
  }

  private compile(text: string, policy: string): void {
    const key = `${policy}\n${text}`;
    if (this.opened || key === this.compiled.key) return;
    try {
      this.compiled = { key, report: ask<Report>("compile", { graph: text, options: { policy, compare: policy === "best" } }), error: "" };
    } catch (e) {
      if (!(e instanceof Refused)) throw e;
      this.compiled = { key, report: null, error: e.fault.witness?.rendered ?? e.fault.message };
    }
  }

  /// Shows the report that the state names, or none. One that has to be read first arrives later.
  private showKept(state: State): void {
    if (state.report === (this.opened?.key ?? "")) return;
    if (state.report === "") {
      this.opened = null;
      this.kept.textContent = "";
      return;
    }
    if (state.report === this.wanted) return;
    this.wanted = state.report;
    const turn = ++this.reading;
    void readKept(state.report).then(({ name, text }) => this.accept(turn, name, text, state.report), (e: unknown) => {
      if (turn !== this.reading) return;
      this.refused = e instanceof Error ? e.message : String(e);
      this.store.set({});
    });
  }

  /// Shows the report of a file, or an error that explains why it is none.
  async open(file: File | undefined): Promise<void> {
    if (!file) return;
    const turn = ++this.reading;
    const text = await file.text().catch((e: unknown) => String(e));
    await this.accept(turn, file.name, text, null);
  }

  /// Reads the text of a report. `key` is that of a kept one; a new one is kept now.
  private async accept(turn: number, name: string, text: string, key: string | null): Promise<void> {
    let report: Report | null = null;
    let refused = "";
    try {
      report = readReport(text);
    } catch (e) {
      refused = `${name}: ${e instanceof Error ? e.message : String(e)}`;
    }
    const kept = report && key === null ? await keepFile({ name, text }) : { key: key ?? "", note: "" };
    // The file that was chosen last is the one to show.
    if (turn !== this.reading) return;
    this.refused = refused;
    this.wanted = "";
    if (!report) {
      this.store.set({});
      return;
    }
    this.opened = { report, name, key: kept.key };
    this.kept.textContent = kept.note;
    this.store.set(key === null ? { modelStep: 0, report: kept.key } : {});
  }

  /// Picks the next step behind the picked one that has every word: in its name, its operation, or its tensors.
  private find(text: string): void {
    const steps = (this.opened?.report ?? this.compiled.report)?.steps ?? [];
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const has = (s: ReportedStep) => {
      const all = `${s.name} ${s.op ?? ""} ${s.kind}`.toLowerCase();
      return words.every((w) => all.includes(w));
    };
    const from = this.store.get().modelStep;
    const at = steps.map((_, i) => (from + 1 + i) % steps.length).find((i) => has(steps[i]!));
    this.unfound.textContent = words.length && at === undefined ? "No step has these words." : "";
    if (words.length && at !== undefined) this.store.set({ modelStep: at });
  }

  private draw(state: State, report: Report | null): void {
    const put = report === this.drawn ? refill : fill;
    this.drawn = report;
    if (!report) {
      fill(this.out);
      return;
    }
    const selected = Math.max(0, Math.min(report.steps.length - 1, state.modelStep));
    const pick = (modelStep: number) => this.store.set({ modelStep });
    const first = Math.floor(selected / WINDOW) * WINDOW;
    const card = (title: string, ...body: (Node | string | null)[]) => h("section", { class: "card", "data-card": title }, h("h3", {}, title), ...body);
    const pages = report.steps.length > WINDOW
      ? h("p", { class: "hint" }, `steps ${first} to ${Math.min(report.steps.length, first + WINDOW) - 1} of ${report.steps.length}; pick a step in the timeline to see others`)
      : null;
    const program = graph(report, first, selected, { step: pick, tensor: (t) => this.store.set(openTensor(t)) });
    put(this.out, this.totals(report),
      card("Program", legend(), pages, program),
      h("div", { class: "cards two" }, this.step(report, selected), card("Roofline", roofline(report, selected, pick))),
      card("Timeline: cores and time", timeline(report, selected, pick)),
      card("Scratchpad of a core over time", occupancy("Scratchpad", report.lx, report.summary.latency_us)),
      card("Pool in device memory over time", occupancy("Pool", report.pool, report.summary.latency_us)),
      h("div", { class: "cards two" }, this.bundles(report, pick), report.exchanges.length ? this.exchanges(report, pick) : null, this.moves(report, pick), this.notes(report)));
    reveal(program);
  }

  private totals(report: Report): HTMLElement {
    const { summary: s, comparison: c } = report;
    const item = (value: string, name: string) => h("div", { class: "total" }, h("b", {}, value), h("span", {}, name));
    return h("section", { class: "card" }, h("div", { class: "totals" },
      item(time(s.latency_us), `a run of ${report.graph}`),
      item(time(s.launch_us), `of it ${plural(s.launches, "launch").replace("launchs", "launches")} by the host`),
      item(plural(s.ops, "operation"), `${plural(s.moves, "move")} inserted, ${s.load_moves} at loading`),
      item(bytes(s.bytes), `of traffic, ${(100 * s.padding).toFixed(1)}% padding`),
      item(`${(100 * s.utilisation).toFixed(0)}%`, `of ${report.machine.cores} cores busy`),
      item(bytes(s.lx_saved_bytes), "saved by scratchpads"),
      s.exchanges > 0 ? item(String(s.exchanges), `copied between scratchpads, ${time(s.exchange_us)}`) : null,
      c ? item(`${c.speedup.toFixed(2)}×`, `faster than ${c.policy}`) : null),
      h("p", { class: "hint" }, report.certificate.text));
  }

  /// One step: its loops over the cores, and what bounds it.
  private step(report: Report, index: number): HTMLElement {
    const step = report.steps[index];
    if (!step) return h("section", { class: "card" }, "no steps");
    const list = h("dl", { class: "facts" });
    const put = (name: string, value: string) => list.append(h("dt", {}, name), h("dd", {}, value));
    put("takes", `${time(step.us)}, ${step.bottleneck}`);
    // Terms that a longer one hides are in parentheses: they add nothing to the time.
    const terms = step.terms.map((t) => t.counted_us > 0 ? `${t.name} ${time(t.counted_us)}` : `(${t.name} ${time(t.alone_us)})`);
    if (terms.length) put("terms", terms.join(" + "));
    put("reads and writes", `${bytes(step.bytes_in)}, ${bytes(step.bytes_out)}`);
    if (step.lx_saved_bytes) put("scratchpads save", bytes(step.lx_saved_bytes));
    put("split", step.dims.map((d) => `${d.name} ${d.size}${d.split > 1 ? ` / ${d.split}` : ""}`).join(", ") || "not divided");
    put("decided by", step.decided_by);
    return h("section", { class: "card", "data-card": "Step" }, h("h3", {}, `${step.kind === "move" ? "move" : step.op} → ${step.name}`), list,
      step.reason ? h("p", { class: "hint" }, step.reason) : null, cores(report, step));
  }

  /// What the host launches at once.
  private bundles(report: Report, pick: (step: number) => void): HTMLElement {
    const rows = report.bundles.slice(0, 40).map((b) => h("li", { "data-bundle": b.first_step }, h("button", { type: "button", class: "layout-link", onclick: () => pick(b.first_step) },
      `${plural(b.steps, "step")} ${b.worker === "host" ? "by the host" : "on the card"}${b.load ? ", at loading" : ""}`),
    h("div", { class: "hint" }, `${time(b.us)}${b.launched ? `, ${time(b.launch_us)} of it its launch; ${plural(b.arguments.length, "argument")}, ${bytes(b.pool_bytes)} of pool of its own` : ", not launched"}`)));
    const more = report.bundles.length > rows.length ? h("p", { class: "hint" }, `and ${report.bundles.length - rows.length} more`) : null;
    return h("section", { class: "card", "data-card": "Bundles" }, h("h3", {}, plural(report.bundles.length, "bundle")),
      h("p", { class: "hint" }, "Steps that the host launches at once as one program of the card."), h("ul", { class: "lints" }, ...rows), more);
  }

  /// Results that are copied between the scratchpads of cores, and who sends how much to whom.
  private exchanges(report: Report, pick: (step: number) => void): HTMLElement {
    const rows = report.exchanges.slice(0, 40).map((e) => {
      const sends = e.sends.slice(0, 6).map((s) => `core ${s.source} → ${s.destinations.slice(0, 8).join(", ")}${s.destinations.length > 8 ? " .." : ""} (${bytes(s.bytes)})`);
      return h("li", {}, h("button", { type: "button", class: "layout-link", onclick: () => pick(e.step) }, `${e.tensor}: ${e.movement}`),
        h("div", { class: "hint" }, `${time(e.us)}, ${bytes(e.remote_bytes)} to other cores, ${bytes(e.local_bytes)} stay; ${e.source_cores} cores hold it before, ${e.destination_cores} after, ${plural(e.readers, "step")} read it`),
        h("details", {}, h("summary", {}, "who sends what to whom"), h("ul", {}, ...sends.map((text) => h("li", { class: "hint" }, text))),
          e.sends.length + e.unlisted > sends.length ? h("p", { class: "hint" }, `and ${e.sends.length + e.unlisted - sends.length} more`) : null));
    });
    return h("section", { class: "card", "data-card": "Copies between scratchpads" }, h("h3", {}, plural(report.exchanges.length, "copy").replace("copys", "copies") + " between scratchpads"), h("ul", { class: "lints" }, ...rows));
  }

  private moves(report: Report, pick: (step: number) => void): HTMLElement {
    const rows = report.moves.slice(0, 40).map((m) => h("li", {}, h("button", { type: "button", class: "layout-link", onclick: () => pick(m.step) }, `${m.tensor}: ${m.from.layout.order} → ${m.to.layout.order}`),
      h("div", { class: "hint" }, `${time(m.us)}${m.load ? " at loading" : ""}, ${bytes(m.bytes)}: ${m.reason}`)));
    return h("section", { class: "card", "data-card": "Moves" }, h("h3", {}, plural(report.moves.length, "inserted move")),
      rows.length ? h("ul", { class: "lints" }, ...rows) : h("p", { class: "hint" }, "No tensor has to change its layout."));
  }

  private notes(report: Report): HTMLElement {
    const items = [
      ...report.fallbacks.map((f) => [`${f.op} runs on the host, ${time(f.us)}`, f.remedy] as const),
      ...report.casts.map((c) => [`${c.tensor} is stored as ${c.stored}: ${c.loss}`, c.remedy] as const),
      ...report.notes.map((n) => [n.op ? `${n.op}${n.name ? ` → ${n.name}` : ""}: ${n.text}` : n.text, n.remedy] as const)];
    return h("section", { class: "card", "data-card": "Notes" }, h("h3", {}, "Notes"),
      items.length ? h("ul", { class: "lints" }, ...items.slice(0, 40).map(([text, remedy]) => h("li", {}, text, remedy ? h("div", { class: "hint" }, remedy) : null)))
        : h("p", { class: "hint" }, "Nothing else is worth knowing."));
  }
}

/// The layout of a buffer as the layout view opens it.
function openTensor({ dtype, layout: l }: ReportedBuffer): Partial<State> {
  const list = (values: number[]) => `[${values.join(", ")}]`;
  return {
    tab: "layout", dtype, shape: l.size.join("x"), pick: "", slab: "", color: "",
    layout: `SpyreTensorLayout(device_size=${list(l.device_size)}, stride_map =${list(l.stride_map)}, device_dtype=DataFormats.${l.format}, host_size=${list(l.size)})`,
  };
}

/// Scrolls a program, and nothing else, to the step that is picked.
function reveal(program: HTMLElement): void {
  const node = program.querySelector(".node.selected")?.getBoundingClientRect();
  const view = program.getBoundingClientRect();
  if (!node) return;
  if (node.top < view.top || node.bottom > view.bottom) program.scrollTop += node.top - view.top - (view.height - node.height) / 2;
  if (node.left < view.left || node.right > view.right) program.scrollLeft += node.left - view.left - (view.width - node.width) / 2;
}

/// The cores, each with how long it is busy.
function cores(report: Report, step: ReportedStep): HTMLElement {
  const busy = step.busy.flatMap((b) => Array.from({ length: b.cores }, () => b.us));
  const most = Math.max(...busy, 0.000001);
  const boxes = Array.from({ length: report.machine.cores }, (_, core) => {
    const us = busy[core - step.first_core];
    const works = us !== undefined && core >= step.first_core && core < step.first_core + step.cores;
    const box = h("span", { class: works ? "core works" : "core", title: works ? `core ${core}: busy for ${time(us)}` : `core ${core}: idle` }, String(core));
    if (works) box.style.setProperty("--share", `${Math.round((100 * us) / most)}%`);
    return box;
  });
  return h("div", { class: "cores", role: "img", "aria-label": `${step.cores} of ${report.machine.cores} cores work` }, ...boxes);
}

function legend(): HTMLElement {
  const item = (kind: string, text: string) => h("span", { class: `key ${kind}` }, text);
  return h("div", { class: "keys" }, item("matmul", "matrix product"), item("op", "other operation"), item("move", "inserted move"), item("host", "on the host"),
    h("span", { class: "dim" }, "text on edges is the layout, slowest dimension first; click one to open it"));
}
