/// The explorer in a real browser, run in its folder.
/// Usage: node tests/out/js/web.js PROGRAM URL [--pictures FOLDER]

import { gzipSync } from "node:zlib";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { check, equal, failed, group, hash, launch, native, passed, Tab, type Explorer } from "./harness";

const [program, base, , pictures] = process.argv.slice(2);
if (!program || !base) throw new Error("usage: node tests/out/js/web.js PROGRAM URL [--pictures FOLDER]");
const file = pathToFileURL("dist/index.html");
const browser = await launch();

interface Preset { name: string; title: string; shape: number[]; dtype: string; layout: string }
const presets = native(program, [{ op: "presets" }])[0]!.ok!.presets as Preset[];
const smem = "S[(8,64):(64,1)]";

await group("size and first paint", async () => {
  const engine = readFileSync("generated/zellige_explorer_bg.wasm");
  const packed = gzipSync(engine, { level: 9 }).length;
  check("the engine is under 1.5 MB packed", packed < 1_500_000, packed);
  const html = readFileSync(file, "utf8");
  check("the page names no other file", !/(src|href)="(?!data:|#)/.test(html.replace(/<script[\s\S]*?<\/script>/g, "")));
  const tab = await Tab.open(browser, base);
  const times = await tab.page.evaluate(() => ({
    paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0,
    start: performance.timing.responseStart - performance.timing.navigationStart,
  }));
  check("the first paint is under 1 s", times.paint > 0 && times.paint < 1000, times);
  console.log(`  engine ${packed} bytes packed, first paint ${times.paint.toFixed(0)} ms`);
  equal("the start page shows a swizzle", await tab.page.textContent("h1"), "shared memory (8,64), 128-byte swizzle");
  check("an element is linked to its place", await tab.page.locator(".links path").count() === 1);
  await tab.shot("start");
  await tab.close("start");
  const disk = await Tab.open(browser, file.href);
  equal("the page opens from a disk", await disk.page.locator("[data-preset]").count(), presets.length);
  await disk.close("from a disk");
});

await group("every preset", async () => {
  const tab = await Tab.open(browser, base);
  const sheets = native(program, presets.map((p) => ({ op: "sheets", layout: p.layout, shape: p.shape, dtype: p.dtype })));
  for (const [i, preset] of presets.entries()) {
    await tab.page.click(`[data-preset="${preset.name}"]`);
    await tab.settled();
    const found = await tab.page.evaluate(() => {
      const { sheets } = (window as unknown as { explorer: Explorer }).explorer.layout;
      return { size: sheets.size, shape: sheets.shape, sheets: sheets.sheets };
    });
    const wanted = sheets[i]!.ok!;
    equal(`${preset.name}: shape`, found.shape, preset.shape);
    equal(`${preset.name}: sheets`, found.sheets, wanted.sheets);
    check(`${preset.name}: no error`, await tab.page.locator("main .error:visible").count() === 0);
    equal(`${preset.name}: the text`, await tab.page.inputValue("main textarea"), preset.layout);
    // A cell near the corner, away from marks, has the colour that the engine gives it.
    const col = Math.min(7, found.sheets[0]!.cols - 1);
    const cells = native(program, [{ op: "cells", layout: preset.layout, shape: preset.shape, dtype: preset.dtype, side: "logical", rows: [0, 1], cols: [col, col + 1] }])[0]!.ok!.cells;
    const tone = wanted.tones[cells[0]?.colors[0] ?? 0];
    const seen = await tab.color("logical", 0, 0, col);
    check(`${preset.name}: colour of cell ${col}`, seen === tone.fill || seen === "not on screen", { seen, tone: tone.fill });
  }
  await tab.close("presets");
});

await group("bank conflicts are those of the program", async () => {
  const tab = await Tab.open(browser, base);
  const texts = [smem, "Swizzle(3,3,3) o " + smem, "Swizzle(3,1,3) o " + smem, "S[(64,64):(64,1)]", "S[(32,33):(33,1)]"];
  const accesses: [string, object][] = [["column 0", { kind: "column", index: 0 }], ["column 3", { kind: "column", index: 3 }], ["row 1", { kind: "row", index: 1 }]];
  const cases = texts.flatMap((layout) => ["float16", "float32"].flatMap((dtype) => accesses.map(([text, access]) => ({ layout, dtype, text, access }))));
  const answers = native(program, cases.map(({ layout, dtype, access }) => ({ op: "conflicts", layout, dtype, access })));
  for (const [i, c] of cases.entries()) {
    await tab.go(hash({ l: c.layout, d: c.dtype, a: c.text }));
    const shown = await tab.page.getAttribute("[data-card] .verdict", "data-ways");
    equal(`${c.layout} ${c.dtype} ${c.text}`, Number(shown), answers[i]!.ok!.ways);
  }
  await tab.go(hash({ l: smem, a: "column 0" }));
  const modes = await tab.page.$$eval("[data-mode]", (list) => list.map((b) => [b.getAttribute("data-mode"), Number(b.getAttribute("data-ways"))]));
  equal("the modes before and after", modes, [["none", 8], ["32B", 4], ["64B", 2], ["128B", 1]]);
  await tab.page.click("text=Find a swizzle");
  await tab.page.click(".found .layout-link");
  await tab.settled();
  equal("the swizzle that is found is conflict-free", await tab.page.getAttribute("[data-card] .verdict", "data-ways"), "1");
  // An access drawn by hand: eight cells down the first column of the plain layout.
  await tab.go(hash({ l: smem, p: "" }));
  await tab.page.click("text=draw it");
  await tab.page.evaluate(() => scrollTo(0, 0));
  await tab.settled();
  const frame = (await tab.canvas("Tensor").boundingBox())!;
  for (let row = 0; row < 8; row++) {
    const at = (await tab.middle("logical", 0, row, 0))!;
    await tab.page.mouse.move(frame.x + at.x, frame.y + at.y);
    if (row === 0) await tab.page.mouse.down();
  }
  await tab.page.mouse.up();
  await tab.settled();
  equal("a drawn column conflicts like a column", await tab.page.getAttribute("[data-card] .verdict", "data-ways"), "8");
  await tab.close("conflicts");
});

await group("hover, click, keyboard, slabs", async () => {
  const tab = await Tab.open(browser, base, hash({ l: "S[(2,8,4,2):(2,4@laneid,1@laneid,1)]", s: "16x8", d: "float32", p: "" }));
  await tab.canvas("Tensor").hover({ position: (await tab.middle("logical", 0, 9, 4))! });
  await tab.settled();
  const body = await tab.page.textContent(".formula");
  check("the formula of (9, 4)", body!.includes("laneid 6, m 2") && body!.includes("76"), body);
  check("a hovered element is linked", await tab.page.locator(".links path").count() === 1);
  await tab.canvas("Places").click({ position: (await tab.middle("physical", 0, 6, 2))! });
  await tab.settled();
  equal("a clicked place picks its element", await tab.page.evaluate(() => (window as unknown as { explorer: Explorer }).explorer.store.get().pick), "9,4");
  check("the pick is in the address", await tab.becomes(async () => tab.page.url().includes("p=9%2C4")), tab.page.url());
  await tab.page.focus('main [data-grid="Tensor"] .scroller');
  for (const key of ["Home", "ArrowUp", "ArrowRight", "Enter"]) await tab.page.keyboard.press(key);
  await tab.settled();
  equal("keys move and pick", await tab.page.evaluate(() => (window as unknown as { explorer: Explorer }).explorer.store.get().pick), "0,1");
  check("a screen reader is told", (await tab.page.textContent("#live"))!.includes("(0, 1)"), await tab.page.textContent("#live"));
  await tab.go(hash({ l: "S[(8,2,4,2):(4@laneid,1@warpid,1@laneid,1)] + R[2:4@warpid] + 5@warpid", s: "8x16", p: "7,15" }));
  equal("both copies are linked", await tab.page.locator(".links path").count(), 2);
  const places = await tab.page.$$eval(".places li", (l) => l.map((e) => e.textContent));
  equal("both places are named", places, ["laneid 31, m 1, warpid 6", "laneid 31, m 1, warpid 10"]);
  await tab.go(hash({ l: "S[(3,4,5):(20,5,1)]", d: "float32", p: "" }));
  equal("one slider for three dimensions", await tab.page.locator(".slider input").count(), 1);
  await tab.page.locator(".slider input").fill("2");
  await tab.settled();
  await tab.canvas("Tensor").click({ position: (await tab.middle("logical", 2, 1, 1))! });
  equal("the slab is the one that is shown", await tab.page.evaluate(() => (window as unknown as { explorer: Explorer }).explorer.store.get().pick), "2,1,1");
  await tab.close("interaction");
});

await group("errors underline the place", async () => {
  const tab = await Tab.open(browser, base, hash({ l: "S[(8,4,2):(4,1)]" }));
  equal("the wrong part is marked", await tab.page.textContent(".wrong"), "(4,1)");
  check("the message is there", (await tab.page.textContent("main .error"))!.includes("3 extents but 2 strides"));
  await tab.page.fill("main textarea", "Swizzle(3,3,3) ∘ S[(8,64):(64,1@nix)]");
  await tab.settled();
  equal("after wide letters too", await tab.page.textContent(".wrong"), "nix");
  await tab.page.fill("main textarea", "S[(8,8):(8,1)]");
  await tab.settled();
  equal("and it goes away", await tab.page.locator(".wrong").count(), 0);
  await tab.page.fill('main input[aria-label="Shape"]', "3x5");
  await tab.page.press('main input[aria-label="Shape"]', "Tab");
  await tab.settled();
  check("a shape that does not fit is refused in words", (await tab.page.textContent("main .error"))!.includes("64"), await tab.page.textContent("main .error"));
  for (const bad of ["", "S[", "S[(1000000000000,10000000):(1,1)]", "size=[4] stride=[1", "x".repeat(3000)]) {
    await tab.page.fill("main textarea", bad);
    await tab.settled();
    check(`bad input is answered: ${bad.slice(0, 30)}`, await tab.page.locator("main .error:visible").count() >= 1);
  }
  await tab.close("errors");
});

await group("millions of elements", async () => {
  const tab = await Tab.open(browser, base, hash({ l: "Swizzle(3,3,3) o S[(4096,4096):(4096,1)]", p: "" }));
  const frames = await tab.page.evaluate(async () => {
    const { layout } = (window as unknown as { explorer: Explorer }).explorer;
    const { scroller } = layout.grid("logical");
    const times: number[] = [];
    for (let i = 0; i < 60; i++) {
      const before = performance.now();
      scroller.scrollTop = (scroller.scrollHeight * i) / 60;
      scroller.scrollLeft = (scroller.scrollWidth * i) / 80;
      await new Promise((done) => requestAnimationFrame(done));
      await new Promise((done) => requestAnimationFrame(done));
      times.push(performance.now() - before);
    }
    times.sort((a, b) => a - b);
    return { median: times[30]!, worst: times[59]! };
  });
  console.log(`  scrolling 4096 x 4096: ${frames.median.toFixed(1)} ms for two frames, worst ${frames.worst.toFixed(1)} ms`);
  check("scrolling stays smooth", frames.median < 100, frames);
  await tab.page.evaluate(() => {
    const { scroller } = (window as unknown as { explorer: Explorer }).explorer.layout.grid("logical");
    scroller.scrollTo(scroller.scrollWidth, scroller.scrollHeight);
  });
  const wanted = native(program, [
    { op: "cells", layout: "Swizzle(3,3,3) o S[(4096,4096):(4096,1)]", dtype: "float16", side: "logical", rows: [4090, 4091], cols: [4090, 4091] },
    { op: "sheets", layout: "Swizzle(3,3,3) o S[(4096,4096):(4096,1)]", dtype: "float16" }]);
  const far = wanted[1]!.ok!.tones[wanted[0]!.ok!.cells[0].colors[0]].fill;
  check("the far corner has the colour of the engine", await tab.becomes(async () => await tab.color("logical", 0, 4090, 4090) === far), far);
  await tab.go(hash({ l: "S[(1024,1024):(1024,1)]", d: "float32", p: "" }));
  const times: number[] = [];
  const canvas = (await tab.canvas("Tensor").boundingBox())!;
  for (let i = 0; i < 40; i++) {
    await tab.page.mouse.move(canvas.x + 80 + i * 9, canvas.y + 60 + i * 5);
    await tab.settled();
    times.push(await tab.page.evaluate(() => (window as unknown as { explorer: Explorer }).explorer.layout.lastHover));
  }
  times.sort((a, b) => a - b);
  console.log(`  hover on 1M elements: median ${times[20]!.toFixed(2)} ms, worst ${times[39]!.toFixed(2)} ms`);
  check("a hover on 1M elements answers within 16 ms", times[20]! < 16, times);
  await tab.close("millions");
});

await group("operators and comparison", async () => {
  const tab = await Tab.open(browser, base);
  const cases: [string, Record<string, string>, object][] = [
    ["compose", { "x.b": "S[4:4]" }, { op: "compose", a: "S[(4,4):(1,4)]", b: "S[4:4]" }],
    ["inverse", {}, { op: "inverse", layout: "S[(4,4):(1,4)]", shape: [4, 4] }],
    ["complement", { "x.cosize": "64" }, { op: "complement", layout: "S[(4,4):(1,4)]", cosize: 64 }],
    ["tile", { "x.outer": "S[(2,2):(2,1)]", "x.outer_shape": "2x2", "x.inner_shape": "4x4" }, { op: "tile", inner: "S[(4,4):(1,4)]", outer: "S[(2,2):(2,1)]", outer_shape: [2, 2], inner_shape: [4, 4] }],
    ["slice", { "x.region": "1:3, 0:4" }, { op: "slice", layout: "S[(4,4):(1,4)]", shape: [4, 4], region: [[1, 3], [0, 4]] }],
    ["group", { "x.shape": "2x2x4" }, { op: "group", layout: "S[(4,4):(1,4)]", shape: [2, 2, 4] }],
    ["canonicalize", {}, { op: "canonicalize", layout: "S[(4,4):(1,4)]", shape: [4, 4] }],
  ];
  const answers = native(program, cases.map(([, , request]) => request));
  for (const [i, [name, fields]] of cases.entries()) {
    await tab.go(hash({ v: "operators", l: "S[(4,4):(1,4)]", o: name, ...fields }));
    equal(`${name}: the answer of the program`, await tab.page.textContent("[data-result]"), answers[i]!.ok!.layout);
  }
  await tab.page.click("text=Open");
  await tab.settled();
  equal("a result opens as a layout", await tab.page.inputValue("main textarea"), answers.at(-1)!.ok!.layout);
  await tab.go(hash({ v: "operators", l: "S[(2,6):(7,1)]", o: "compose", "x.b": "S[(2,3):(3,2)]" }));
  check("a refusal has its witness", (await tab.page.textContent(".result .error"))!.includes("index 5"), await tab.page.textContent(".result"));
  await tab.go(hash({ v: "operators", l: smem, e: "Swizzle(3,3,3) o " + smem }));
  const verdict = await tab.page.textContent(".compare-verdict");
  check("the first difference is named", verdict!.includes("(1, 0)") && verdict!.includes("m 64") && verdict!.includes("m 72"), verdict);
  await tab.shot("compare", true);
  await tab.go(hash({ v: "operators", l: "S[(4,6):(6,1)]", e: "size=[4, 6] stride=[6, 1]" }));
  check("another notation can be equal", (await tab.page.textContent(".compare-verdict"))!.includes("Equal"));
  await tab.close("operators");
});

await group("moves", async () => {
  const tab = await Tab.open(browser, base, hash({ v: "move" }));
  const wanted = native(program, [{ op: "move", src: "size=[5, 100] stride=[100, 1]", dst: "SpyreTensorLayout(device_size=[2, 5, 64], stride_map =[64, 100, 1], device_dtype=DataFormats.SEN169_FP16, host_size=[5, 100])", shape: [5, 100], dtype: "float16", fill: "zero" }])[0]!.ok!;
  const facts = await tab.page.textContent("main .facts");
  check("bytes are those of the program", facts!.includes(`${wanted.bytes_read} bytes`) && facts!.includes("1.25 KiB"), facts);
  equal("its nests are listed", await tab.page.locator(".nests tbody tr").count(), wanted.nests.length);
  check("its descriptor is shown", (await tab.page.textContent(".dci"))!.includes("dcsi_"));
  await tab.page.locator(".player input[type=range]").fill("120");
  await tab.settled();
  check("the player counts", (await tab.page.textContent(".player output"))!.startsWith("120 of 500"));
  check("the copy is linked", await tab.page.locator(".links path").count() === 1);
  await tab.shot("move");
  await tab.page.click("text=Transpose");
  await tab.page.click(".player .primary");
  await tab.page.waitForFunction(() => document.querySelector(".player output")?.textContent?.startsWith("512 of 512"), null, { timeout: 20000 });
  check("playing ends at the last copy", true);
  await tab.go(hash({ v: "move", f: "S[(4,", t: "S[16]", ms: "4x4" }));
  check("a bad source is underlined", await tab.page.locator(".wrong").count() === 1);
  await tab.close("moves");
});

/// As the page writes times below a millisecond.
const microseconds = (us: number) => `${us >= 100 ? us.toFixed(0) : us.toFixed(2).replace(/\.?0+$/, "")} µs`;

await group("compiled models", async () => {
  const tab = await Tab.open(browser, base, hash({ v: "model" }));
  const text = await tab.page.inputValue("#graph-text");
  const reply = native(program, [{ op: "compile", graph: text, options: { policy: "best", compare: true } }])[0]!;
  if (reply.error?.kind === "unsupported") {
    // The page knows what the program knows, and says the same where that is nothing.
    check("what the engine cannot do is said", (await tab.page.textContent("pre.error"))!.includes("not supported"));
    await tab.close("models");
    return;
  }
  const report = reply.ok!;
  equal("its latency is the program's", await tab.page.textContent(".total b"), microseconds(report.summary.latency_us));
  equal("every step is a node", await tab.page.locator(".node").count(), report.steps.length);
  equal("moves are coloured", await tab.page.locator(".node.move").count(), report.steps.filter((s: { kind: string }) => s.kind === "move").length);
  equal("every step of a run is on the timeline", await tab.page.locator('[data-card^="Timeline"] rect').count(), report.steps.filter((s: { load: boolean }) => !s.load).length);
  check("layouts are on the edges", (await tab.page.textContent(`[data-tensor="${report.tensors[0].name}"]`))!.includes(report.tensors[0].layout.order));
  equal("32 cores", await tab.page.locator(".core").count(), report.machine.cores);
  await tab.page.locator(".node").nth(1).click();
  await tab.settled();
  equal("a picked step shows its cores", await tab.page.locator(".core.works").count(), report.steps[1].cores);
  await tab.shot("model", true);
  const sizes = report.tensors[0].layout;
  await tab.page.locator(`[data-tensor="${report.tensors[0].name}"]`).first().click();
  await tab.settled();
  check("a tensor opens in the layout view", (await tab.page.inputValue("main textarea")).includes(`device_size=[${sizes.device_size.join(", ")}]`));
  check("and is drawn", await tab.page.locator("main .error:visible").count() === 0);
  await tab.go(hash({ v: "model", m: "graph g(x: float16[4]) {\n y = nothing(x)\n return y\n}" }));
  check("a bad graph is refused with its place", (await tab.page.textContent("pre.error"))!.includes("nothing"), await tab.page.textContent("pre.error"));
  for (const name of await tab.page.$$eval("main select >> nth=0 >> option", (l) => l.map((o) => (o as HTMLOptionElement).value).filter(Boolean))) {
    await tab.go(hash({ v: "model", m: name }));
    check(`${name} compiles`, await tab.page.locator(".node").count() > 0 && !(await tab.page.isVisible("pre.error")), await tab.page.textContent("pre.error"));
  }
  await tab.page.setInputFiles("main input[type=file]", { name: "report.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify({ ...report, graph: "from-a-file" })) });
  await tab.settled();
  check("a report opens from a file", (await tab.page.textContent(".totals"))!.includes("from-a-file"));
  await tab.page.setInputFiles("main input[type=file]", { name: "bad.json", mimeType: "application/json", buffer: Buffer.from("{}") });
  await tab.settled();
  check("another file is refused", (await tab.page.textContent("pre.error"))!.includes("version 1"));
  await tab.close("models");
});

await group("sharing, export, light and dark, small screens", async () => {
  const link = hash({ l: "Swizzle(3,3,3) o S[(64,64):(64,1)]", c: "line", a: "row 2", p: "7,9", s: "64x64" });
  const tab = await Tab.open(browser, base, link);
  equal("a link carries the whole view", await tab.page.evaluate(() => {
    const s = (window as unknown as { explorer: Explorer }).explorer.store.get();
    return [s.layout, s.color, s.access, s.pick];
  }), ["Swizzle(3,3,3) o S[(64,64):(64,1)]", "line", "row 2", "7,9"]);
  for (const [name, kind] of [["SVG", "layout.svg"], ["PNG", "layout.png"]] as const) {
    const [download] = await Promise.all([tab.page.waitForEvent("download"), tab.page.click(`.tools >> text=${name}`)]);
    const bytes = readFileSync(await download.path());
    equal(`${name}: its name`, download.suggestedFilename(), kind);
    check(`${name}: its bytes`, name === "SVG" ? bytes.toString("utf8").includes("<svg") : bytes.subarray(1, 4).toString() === "PNG", bytes.length);
  }
  const unnamed = await tab.page.evaluate(() => [...document.querySelectorAll("button, input, select, textarea, [role=application]")]
    .filter((e) => !(e.getAttribute("aria-label") || e.textContent?.trim() || e.closest("label")?.textContent?.trim() || (e.id && document.querySelector(`label[for="${e.id}"]`))))
    .map((e) => e.outerHTML.slice(0, 80)));
  equal("every control has a name", unnamed, []);
  // A link is followed while a change still waits to be written into the address.
  const followed = await tab.page.evaluate(() => new Promise<unknown>((done) => {
    const { store } = (window as unknown as { explorer: Explorer }).explorer;
    store.set({ pick: "1,1" });
    // A busy page: the change is due when the link is followed, and comes before its event.
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      location.hash = "l=S%5B16%5D";
      setTimeout(() => done([store.get().layout, location.hash]), 400);
    };
    port2.postMessage(0);
    const late = performance.now() + 400;
    while (performance.now() < late);
  }));
  equal("a link wins over a change that came before it", followed, ["S[16]", "#l=S%5B16%5D"]);
  await tab.close("sharing");

  const dark = await Tab.open(browser, base, "", { colorScheme: "dark" });
  const tones = await dark.page.evaluate(() => (window as unknown as { explorer: Explorer }).explorer.layout.sheets.tones[0]!);
  equal("dark pages have dark cells", await dark.color("logical", 0, 0, 1), tones.dark_fill);
  await dark.shot("dark");
  await dark.page.click('[aria-label="Light or dark"]');
  await dark.settled();
  equal("the reader may choose", await dark.color("logical", 0, 0, 1), tones.fill);
  await dark.close("dark");

  const phone = await Tab.open(browser, base, "", { viewport: { width: 390, height: 844 }, hasTouch: true });
  for (const view of ["", hash({ v: "operators" }), hash({ v: "move" }), hash({ v: "model" })]) {
    await phone.go(view);
    const wide = await phone.page.evaluate(() => document.documentElement.scrollWidth);
    check(`nothing is wider than a phone: ${view || "layout"}`, wide <= 390, wide);
  }
  await phone.go("");
  await phone.shot("phone", true);
  await phone.close("phone");
});

if (pictures) {
  await group("pictures", async () => {
    const views: [string, string, object][] = [
      ["explorer-swizzle", "", {}],
      ["explorer-mma", hash({ l: "S[(2,8,4,2):(2,4@laneid,1@laneid,1)]", s: "16x8", d: "float32", p: "9,4" }), { colorScheme: "dark" }],
      ["explorer-move", hash({ v: "move", k: 320 }), {}],
      ["explorer-model", hash({ v: "model", m: "llama-block", n: 4 }), { viewport: { width: 1280, height: 1500 } }],
    ];
    for (const [name, link, options] of views) {
      const tab = await Tab.open(browser, base, link, { viewport: { width: 1280, height: 860 }, ...options });
      await tab.page.waitForTimeout(300);
      await tab.page.screenshot({ path: `${pictures}/${name}.png` });
      await tab.close(name);
      check(`${name} is drawn`, true);
    }
  });
}

await browser.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
