/// The page: header, presets, and one view at a time.

import { fill, h, say } from "./dom";
import { start, type Preset } from "./engine";
import { CompareView } from "./compare-view";
import { exportPng, exportSvg, save, type Drawn } from "./export";
import { Gallery } from "./gallery";
import { LayoutView, presetOf } from "./layout-view";
import { ModelView } from "./model/view";
import { MoveView } from "./move-view";
import { openFile } from "./open-file";
import { OperatorsView } from "./operators";
import { ReshardView } from "./reshard-view";
import { pageWith } from "./save-page";
import { DEFAULT, encode, isFromLaterPage, Store, type State, type Tab } from "./state";
import { onTheme, startTheme, toggleTheme } from "./theme";

const TABS: [Tab, string][] = [["layout", "Layout"], ["operators", "Operators"], ["compare", "Compare"], ["move", "Move"], ["reshard", "Reshard"], ["model", "Model"]];

/// One stop for each thing that the page shows.
const TOUR: [name: string, change: Partial<State>][] = [
  ["an mma fragment", { layout: "S[(2,8,4,2):(2,4@laneid,1@laneid,1)]", shape: "16x8", dtype: "float32", pick: "9,4" }],
  ["a swizzle", { layout: "Swizzle(3,3,3) o S[(8,64):(64,1)]", access: "column 0" }],
  ["sticks", { layout: "SpyreTensorLayout(device_size=[2, 5, 64], stride_map =[64, 100, 1], device_dtype=DataFormats.SEN169_FP16, host_size=[5, 100])", pick: "3,70" }],
  ["a move", { tab: "move", step: 320 }],
  ["a compiled layer", { tab: "model", model: "llama-block" }],
  ["a reshard", { tab: "reshard", mesh: "dp=2, tp=2", toMesh: "tp=4", shardFrom: "P('tp', None)", shardTo: "P('tp', None)" }],
];

interface View extends Drawn { element: HTMLElement; update(state: State): void; themed(): void }

async function main(): Promise<void> {
  startTheme();
  const store = new Store();
  const main = document.getElementById("main")!;
  await start();
  fill(document.getElementById("intro")!, "See where every element of a tensor lives: paste a layout in any notation, or take the tour: ",
    ...TOUR.flatMap(([name, change], i) => [i ? " · " : "", h("a", { href: `#${encode({ ...DEFAULT, ...change })}` }, name)]));
  const gallery = new Gallery(document.getElementById("gallery")!, (p: Preset) => store.set({
    tab: ["operators", "compare"].includes(store.get().tab) ? store.get().tab : "layout", operands: {}, layout: p.layout, shape: "", dtype: p.dtype, pick: example(p.shape), slab: "", color: "",
  }));
  const layout = new LayoutView(store, gallery.presets);
  const views: Partial<Record<Tab, View>> = { layout };
  const make = {
    layout: () => layout,
    operators: () => new OperatorsView(store, gallery.presets),
    compare: () => new CompareView(store, gallery.presets),
    move: () => new MoveView(store),
    reshard: () => new ReshardView(store),
    model: () => new ModelView(store),
  };
  const view = <T extends Tab>(tab: T) => (views[tab] ??= make[tab]()) as ReturnType<(typeof make)[T]>;
  const tabs = document.getElementById("tabs")!;
  fill(tabs, ...TABS.map(([tab, name]) => h("button", { type: "button", "data-tab": tab, onclick: () => store.set({ tab }) }, name)));
  let shown: View | null = null;

  const update = (state: State) => {
    const next = view(state.tab);
    if (next !== shown) fill(main, next.element);
    shown = next;
    document.body.dataset.tab = state.tab;
    for (const button of tabs.children) button.setAttribute("aria-current", String((button as HTMLElement).dataset.tab === state.tab));
    next.update(state);
    gallery.current(["layout", "operators", "compare"].includes(state.tab) ? presetOf(gallery.presets, state) : undefined);
    document.title = state.tab === "layout" ? `${state.layout.slice(0, 80)} · Zellige` : "Zellige explorer";
  };
  function themed(): void {
    gallery.themed();
    for (const v of Object.values(views)) v.themed();
  }

  const tool = (text: string, label: string, act: () => void, extra = "") =>
    h("button", { type: "button", class: `quiet ${extra}`, title: label, "aria-label": label, onclick: act }, text);
  const help = h("dialog", { class: "help", "aria-label": "Help" }, ...helpText(), h("form", { method: "dialog" }, h("button", { class: "primary" }, "Close")));
  document.body.append(help);
  fill(document.getElementById("tools")!,
    tool("Link", "Copy a link to this view", () => void copyLink(store.link())),
    tool("Save page", "Save this page as one file that opens with what it shows", () => void pageWith(store.get()).then(
      (text) => save("zellige.html", new Blob([text], { type: "text/html" })), (e: unknown) => toast(String(e))), "wide-only"),
    tool("SVG", "Save the drawing as SVG", () => {
      if (!exportSvg(store.get().tab, view(store.get().tab))) toast("There is no drawing to save");
    }, "wide-only"),
    tool("PNG", "Save the drawing as PNG", () => void exportPng(store.get().tab, view(store.get().tab)).then((saved) => {
      if (!saved) toast("There is no drawing to save");
    }), "wide-only"),
    tool("◐", "Light or dark", () => {
      toggleTheme();
      themed();
    }),
    tool("?", "Help and keys", () => help.showModal()));
  addEventListener("keydown", (e) => {
    const typing = e.target instanceof HTMLInputElement || e.target instanceof HTMLTextAreaElement || e.target instanceof HTMLSelectElement;
    if (help.open) return;
    if (e.key === "?" && !typing) help.showModal();
    if (e.key === "/" && !typing) {
      e.preventDefault();
      document.querySelector<HTMLTextAreaElement>("main textarea")?.focus();
    }
  });
  // A file that is dropped anywhere is opened; the browser would leave the page for it.
  addEventListener("dragover", (e) => {
    if (e.dataTransfer?.types.includes("Files")) e.preventDefault();
  });
  addEventListener("drop", (e) => {
    const file = e.dataTransfer?.files[0];
    if (!file) return;
    e.preventDefault();
    openFile(file, store, (f) => view("model").open(f)).catch((e: unknown) => toast(e instanceof Error ? e.message : String(e)));
  });
  // The address holds the view: a link inside the page is no place to go to.
  document.querySelector(".skip")!.addEventListener("click", (e) => {
    e.preventDefault();
    main.focus();
  });
  store.listen(update);
  if (isFromLaterPage(location.hash)) toast("This link was written by a later page; parts of it may mean something else here");
  update(store.get());
  onTheme(themed);
  document.body.dataset.ready = "true";
  // What the tests ask the page.
  Object.assign(window, { explorer: { store, layout } });
}

async function copyLink(link: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(link);
    say("The link is copied.");
    // Only this machine reaches an address of its own.
    toast(isLocal() ? "Link copied. It opens on this machine only; \"Save page\" writes a file that anybody can open" : "Link copied");
  } catch {
    toast("Copy the address of the page: it holds everything");
  }
}

/// Whether the page was opened from a disk or from a server of this machine.
const isLocal = (): boolean => location.protocol === "file:" || ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);

/// An element to begin with, somewhere inside the first slab.
function example(shape: number[]): string {
  return shape.map((e, i) => (i < shape.length - 2 ? 0 : Math.floor(e * 0.6))).join(",");
}

/// A word at the bottom of the page, for a moment.
function toast(text: string): void {
  const box = h("div", { class: "toast", role: "status" }, text);
  document.body.append(box);
  setTimeout(() => box.remove(), 2200);
}

function helpText(): HTMLElement[] {
  const key = (keys: string, text: string) => h("tr", {}, h("th", { scope: "row" }, keys), h("td", {}, text));
  return [
    h("h2", {}, "What you see"),
    h("p", {}, "A layout says where every element of a tensor lives: in memory, in registers of threads, on devices. On one side is the tensor, on the other the places. Point at a cell to see the other end; click to keep it. Colours are owners."),
    h("p", {}, "Everything is computed on this page by the Zellige engine. Nothing is sent anywhere; the address holds the whole view."),
    h("table", {}, key("arrows", "move in a drawing; with Shift 8 at a time"), key("Enter", "keep the cell, or add it to the access that you draw"), key("+ − 0", "zoom in, out, fit"),
      key("/", "edit the layout"), key("?", "this help")),
  ];
}

main().catch((e: unknown) => {
  const text = e instanceof Error ? e.message : String(e);
  fill(document.getElementById("main")!, h("p", { class: "error" }, `The explorer could not start: ${text}`));
  console.error(e);
});
