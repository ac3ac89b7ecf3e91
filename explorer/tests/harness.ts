/// A browser, checks that count, and the Rust answers to compare with.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";

const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];

/// Pictures of this run; tests run in the folder of the explorer.
export const OUT = "tests/out/";
mkdirSync(OUT, { recursive: true });

export let passed = 0;
export let failed = 0;

/// One check; what it found is shown when it is not so.
export function check(name: string, ok: boolean, found?: unknown): void {
  if (ok) {
    passed++;
    return;
  }
  failed++;
  const shown = JSON.stringify(found)?.slice(0, 400) ?? "";
  console.log(`FAILED  ${name}${shown ? `: ${shown}` : ""}`);
}

export function equal(name: string, found: unknown, expected: unknown): void {
  check(name, JSON.stringify(found) === JSON.stringify(expected), { found, expected });
}

/// A group of checks; what it throws is one failure.
export async function group(name: string, body: () => Promise<void>): Promise<void> {
  const [before, started] = [passed, Date.now()];
  try {
    await body();
  } catch (e) {
    check(name, false, e instanceof Error ? e.message : e);
  }
  console.log(`  ${name}: ${passed - before} checks, ${((Date.now() - started) / 1000).toFixed(1)} s`);
}

export async function launch(): Promise<Browser> {
  const executablePath = CHROMIUM.find((p) => existsSync(p));
  if (!executablePath) throw new Error("no Chromium; the stage `./test web` installs it");
  return chromium.launch({ executablePath, args: FLAGS });
}

/// A page of the explorer that notes whatever it says or asks for.
export class Tab {
  readonly said: string[] = [];
  readonly asked: string[] = [];

  private constructor(readonly page: Page) {}

  static async open(browser: Browser, base: string, hash = "", options: BrowserContextOptions = {}): Promise<Tab> {
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
    const page = await context.newPage();
    const tab = new Tab(page);
    page.on("console", (m) => tab.said.push(`${m.type()}: ${m.text()}`));
    page.on("pageerror", (e) => tab.said.push(`error: ${e.message}`));
    // What the browser tells a page alone, such as a loop of observers, is told to the console too.
    await page.addInitScript(() => addEventListener("error", (e) => {
      if (!e.error) console.error(e.message);
    }));
    page.on("request", (r) => {
      if (!/^(data|blob):/.test(r.url()) && r.url().split("#")[0] !== base) tab.asked.push(r.url());
    });
    await page.goto(base + (hash && `#${hash}`));
    await tab.ready();
    return tab;
  }

  async ready(): Promise<void> {
    await this.page.waitForSelector("body[data-ready]", { timeout: 30000 });
    await this.settled();
  }

  /// Waits until the drawings stand still.
  async settled(): Promise<void> {
    await this.page.evaluate(() => new Promise<void>((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 30)))));
  }

  /// Follows a link, and waits until the page has heard of it.
  async go(hash: string): Promise<void> {
    await this.page.evaluate((h) => new Promise<void>((done) => {
      const before = location.hash;
      addEventListener("hashchange", () => done(), { once: true });
      location.hash = h;
      if (location.hash === before) done();
    }), hash);
    await this.settled();
  }

  /// Whether something comes to be so, within seconds.
  async becomes(ask: () => Promise<boolean>): Promise<boolean> {
    for (let i = 0; i < 100; i++) {
      if (await ask()) return true;
      await this.page.waitForTimeout(50);
    }
    return false;
  }

  /// Says that nothing went wrong, and closes.
  async close(name: string): Promise<void> {
    equal(`${name}: the console is silent`, this.said, []);
    equal(`${name}: the network is not asked`, this.asked, []);
    await this.page.context().close();
  }

  shot(name: string, full = false): Promise<Buffer> {
    return this.page.screenshot({ path: `${OUT}${name}.png`, fullPage: full });
  }

  /// The state of the page, or one field of it.
  state(): Promise<Record<string, unknown>> {
    return this.page.evaluate(() => (window as unknown as { explorer: Explorer }).explorer.store.get());
  }

  /// Whether a field of the state comes to have a value.
  has(field: string, value: unknown): Promise<boolean> {
    return this.becomes(async () => (await this.state())[field] === value);
  }

  canvas(grid: string) {
    return this.page.locator(`main [data-grid="${grid}"] canvas`).first();
  }

  /// The colour in the middle of a cell of a drawing.
  color(side: string, box: number, row: number, col: number): Promise<string> {
    return this.page.evaluate(([side, box, row, col]) => {
      const grid = (window as unknown as { explorer: Explorer }).explorer.layout.grid(side as string);
      const rect = grid.onScreen({ box: Number(box), row: Number(row), col: Number(col), span: 1 });
      const canvas = grid.picture;
      const frame = canvas.getBoundingClientRect();
      if (!rect) return "not on screen";
      const ratio = canvas.width / frame.width;
      // Text is in the middle of a cell, lines are at its edge; small cells have no text.
      const inset = (size: number) => (rect.width < 17 ? size / 2 : 2.5);
      const copy = document.createElement("canvas");
      copy.width = copy.height = 1;
      const context = copy.getContext("2d", { willReadFrequently: true })!;
      context.drawImage(canvas, -Math.floor((rect.x - frame.x + inset(rect.width)) * ratio), -Math.floor((rect.y - frame.y + inset(rect.height)) * ratio));
      const [r, g, b] = context.getImageData(0, 0, 1, 1).data;
      return `#${[r, g, b].map((v) => v!.toString(16).padStart(2, "0")).join("")}`;
    }, [side, box, row, col] as const);
  }

  /// The middle of a cell, in pixels of its canvas.
  middle(side: string, box: number, row: number, col: number): Promise<{ x: number; y: number } | null> {
    return this.page.evaluate(([side, box, row, col]) => {
      const grid = (window as unknown as { explorer: Explorer }).explorer.layout.grid(side as string);
      const rect = grid.onScreen({ box: Number(box), row: Number(row), col: Number(col), span: 1 });
      const frame = grid.picture.getBoundingClientRect();
      return rect && { x: rect.x - frame.x + rect.width / 2, y: rect.y - frame.y + rect.height / 2 };
    }, [side, box, row, col] as const);
  }
}

/// What main.ts leaves on the window.
export interface Explorer {
  layout: {
    grid(side: string): {
      onScreen(spot: object): { x: number; y: number; width: number; height: number } | null;
      picture: HTMLCanvasElement; zoomNow: number; scroller: HTMLElement; setZoom(zoom: number): void;
    };
    lastHover: number;
    others: { took: number };
    refuse(state: object, fault: object, subject: object): void;
    sheets: { sheets: { side: string; rows: number; cols: number; boxes: number }[]; tones: { fill: string; dark_fill: string }[]; size: number; shape: number[] };
  };
  store: { get(): Record<string, unknown>; set(change: object): void };
}

/// Answers of the program, for the same requests.
export function native(program: string, requests: object[]): { ok?: Record<string, any>; error?: { kind: string; message: string } }[] {
  const input = requests.map((r, id) => JSON.stringify({ id, ...r })).join("\n") + "\n";
  const run = spawnSync(program, ["ask"], { input, encoding: "utf8", maxBuffer: 1 << 28 });
  if (run.status !== 0) throw new Error(`zellige ask: ${run.stderr}`);
  return run.stdout.trim().split("\n").map((l) => JSON.parse(l));
}

export const hash = (fields: Record<string, string | number>): string =>
  new URLSearchParams(Object.entries(fields).map(([k, v]) => [k, String(v)])).toString();
