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

interface Preset { name: string; title: string; group: string; shape: number[]; dtype: string; layout: string }
const presets = native(program, [{ op: "presets" }])[0]!.ok!.presets as Preset[];
const smem = "S[(8,64):(64,1)]";

await group("size and first paint", async () => {
  const engine = readFileSync("generated/zellige_explorer_bg.wasm");
  const packed = gzipSync(engine, { level: 9 }).length;
  // With the compiler and the interpreter of tile kernels, which answer the same requests here as in the program.
  check("the engine is under 1.95 MB packed", packed < 1_950_000, packed);
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

await group("shardings are those of the program", async () => {
  const cases = [
    { hm: "tp=4", hf: "P('tp', None)", ht: "P(None, 'tp')", hs: "64x64" },
    { hm: "dp=2, tp=2", hn: "tp=6", hf: "P('tp', None)", ht: "P('tp', None)", hs: "96x10" },
    { hm: "dp=4", hn: "tp=4", hf: "flat", ht: "P(None, 'tp')", hs: "33x8" },
  ];
  const tab = await Tab.open(browser, base);
  for (const c of cases) {
    const [answer] = native(program, [{ op: "reshard", shape: c.hs.split("x").map(Number), dtype: "bfloat16", mesh: c.hm, from: c.hf, to: c.ht, bandwidth: 50e9, ...(c.hn ? { to_mesh: c.hn } : {}) }]);
    await tab.go(hash({ v: "reshard", ...c }));
    const arrows = await tab.page.$$eval(".flow .arrow", (list) => list.map((e) => [Number(e.getAttribute("data-from")), Number(e.getAttribute("data-to"))]));
    const pairs = (answer!.ok!.pairs as number[][]).map(([a, b]) => [a, b]);
    equal(`${c.hf} to ${c.ht}: arrows`, arrows.sort((a, b) => a[0]! - b[0]! || a[1]! - b[1]!), pairs);
    check(`${c.hf} to ${c.ht}: no error`, await tab.page.locator("main .error:visible").filter({ hasText: /./ }).count() === 0);
    check("cells are drawn on both sides", await tab.page.locator(".flow .cell").count() >= 64);
  }
  await tab.page.hover('.rank[data-rank="1"][data-side="before"] rect');
  check("other arrows step back", await tab.page.locator(".flow .arrow.away").count() > 0);
  await tab.shot("reshard");
  await tab.go(hash({ v: "reshard", hf: "P('ep', None)" }));
  check("a wrong axis is said", (await tab.page.textContent("main"))!.includes("no axis `ep`"));
  await tab.close("reshard");
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
  await tab.go(hash({ v: "compare", l: smem, e: "Swizzle(3,3,3) o " + smem }));
  const verdict = await tab.page.textContent(".compare-verdict");
  check("the first difference is named", verdict!.includes("(1, 0)") && verdict!.includes("m 64") && verdict!.includes("m 72"), verdict);
  await tab.shot("compare", true);
  const ways = native(program, [smem, "Swizzle(3,3,3) o " + smem].map((layout) => ({ op: "conflicts", layout, dtype: "float16", access: { kind: "column", index: 0 } }))).map((a) => a.ok!.ways);
  equal("costs stand side by side", await tab.page.$$eval('[data-card="Side by side"] tr:first-child td[data-ways]', (l) => l.map((e) => Number((e as HTMLElement).dataset.ways))), ways);
  await tab.page.click('[data-step="next"]');
  check("differences are stepped through", await tab.becomes(async () => (await tab.page.textContent("[data-difference]"))!.startsWith("difference 1 of 448: (1, 0)")), await tab.page.textContent("[data-difference]"));
  equal("and their element is linked from A to B", [(await tab.state()).pick, await tab.page.locator(".links path").count()], ["1,0", 3]);
  await tab.page.click("text=Swap A and B");
  check("A and B can be exchanged", await tab.has("layout", "Swizzle(3,3,3) o " + smem));
  await tab.go(hash({ v: "operators", l: smem, e: smem }));
  equal("a link of an older page compares", (await tab.state()).tab, "compare");
  await tab.go(hash({ v: "compare", l: "S[(4,6):(6,1)]", e: "size=[4, 6] stride=[6, 1]" }));
  check("another notation can be equal", (await tab.page.textContent(".compare-verdict"))!.includes("Equal"));
  await tab.go(hash({ v: "operators", l: "S[(4,4):(1,4)]" }));
  await tab.page.click('[data-operator="tile"]');
  await tab.go(hash({ v: "operators", l: "S[(4,4):(1,4)]", o: "tile" }));
  equal("a tiled layout has the tiled shape", await tab.page.textContent('[data-grid="Result"] h2'), "Result · Tensor (8 × 8)");
  await tab.page.locator("[data-operand=outer]").fill("");
  check("an emptied operand is in the address", await tab.becomes(async () => tab.page.url().includes("x.outer=")), tab.page.url());
  await tab.go(hash({ v: "compare", l: "S[(3,4,5):(20,5,1)]", e: "S[(3,20):(20,1)] + 0" }));
  await tab.go(hash({ v: "compare", l: "S[(2,2,3):(6,3,1)]", e: "S[(2,6):(9,1)]" }));
  check("a difference in another slab is named", (await tab.page.textContent(".compare-verdict"))!.includes("(1, 0, 0)"), await tab.page.textContent(".compare-verdict"));
  check("and slabs are boxes", (await tab.page.getAttribute('[data-grid="tensor in B"] .scroller', "aria-label"))!.includes("2 boxes"));
  await tab.go(hash({ v: "compare", l: "S[(4096,4096):(4096,1)]", e: "Swizzle(3,3,3) o S[(4096,4096):(4096,1)]" }));
  check("large layouts are compared", (await tab.page.locator(".compare-verdict").textContent())!.includes("(0, 64)"), await tab.page.textContent(".compare-verdict"));
  await tab.go(hash({ v: "operators", l: "S[(4,4):(1,4)]" }));
  await tab.page.fill("#field-layout-a", "S[");
  check("a refused A leaves nothing of its answers", await tab.becomes(async () => await tab.page.locator("main .grid-card:visible, main .verdict, main .answer").count() === 0));
  await tab.page.click('[data-preset="mma-m16n8-cd"]');
  await tab.settled();
  equal("a preset has its shape here too", await tab.page.textContent('[data-grid="Layout A"] h2'), "A · Tensor (16 × 8)");
  await tab.close("operators");
});

interface Conversion { notation: string; text?: string }

await group("a layout in other notations", async () => {
  const tab = await Tab.open(browser, base, "", { permissions: ["clipboard-read", "clipboard-write"] });
  const blocked = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>";
  const cases: { l: string; s?: string; d: string }[] = [
    { l: "S[(4,6):(1,4)]", d: "float16" }, { l: "Swizzle(3,3,3) o " + smem, d: "float16" }, { l: "S[(5,2,64):(64,320,1)] valid[5,100/128]", d: "float16" },
    { l: presets.find((p) => p.name === "spyre-2d")!.layout, d: "float16" }, { l: "((2,2),(4,2)):((4,16),(1,8))", d: "float32" }, { l: blocked, s: "128x64", d: "float16" },
    { l: "f32[3,5]{1,0:T(2,2)}", d: "float32" }, { l: "dims=[1, 32, 4, 4] tag=nChw16c", d: "float32" }, { l: "Mesh('x': 2, 'y': 4) PartitionSpec('x', None) shape=[8, 16]", d: "float32" },
    { l: "Swizzle(3,3,3) o S[(64,4,64):(64,4096,1)]", s: "64x256", d: "float16" },
  ];
  const done = () => tab.becomes(() => tab.page.evaluate(() => (window as unknown as { explorer: Explorer }).explorer.layout.others.took >= 0));
  for (const c of cases) {
    const request = { layout: c.l, dtype: c.d, ...(c.s ? { shape: c.s.split("x").map(Number) } : {}) };
    const [all, explained] = native(program, [{ op: "conversions", ...request }, { op: "explain", ...request }]).map((r) => r.ok!);
    await tab.go(hash(c));
    check(`${c.l}: the texts are found`, await done());
    const rows = await tab.page.$$eval(".notations [data-notation]", (l) => l.map((e) => [(e as HTMLElement).dataset.notation!, e.querySelector("code")!.textContent!]));
    const wanted = (all!.conversions as Conversion[]).filter((n) => n.text !== undefined && n.notation !== all!.notation).map((n) => [n.notation, n.text!]);
    equal(`${c.l}: those of the program`, rows.sort(), wanted.sort());
    equal(`${c.l}: in words`, await tab.page.textContent(".words"), explained!.words.join(" "));
    const without = all!.conversions.length - 1 - wanted.length;
    check(`${c.l}: and why there are no more`, (await tab.page.textContent("main .card details summary"))!.startsWith(`No text in ${without} other`), await tab.page.textContent("main .card details summary"));
  }
  await tab.go(hash({ l: "S[(8,2,64):(64,512,1)]", s: "8x128", d: "float16", p: "" }));
  await done();
  check("a text over other dimensions says so", (await tab.page.textContent('[data-notation="torch"] .split'))!.includes("over 8 × 2 × 64"));
  await tab.page.click('[data-notation="torch"] >> text=Open');
  check("and opens over them", await tab.has("shape", "8x2x64") && await tab.has("layout", "size=[8, 2, 64] stride=[64, 512, 1]"), await tab.state());
  await tab.go(hash({ l: "Swizzle(3,3,3) o " + smem, p: "" }));
  await done();
  await tab.page.click('[data-notation="cute"] >> text=Copy');
  check("a button copies the text", await tab.becomes(async () => await tab.page.evaluate(() => navigator.clipboard.readText()) === "Sw<3,3,3> o 0 o (8,64):(64,1)"));
  equal("and says so", await tab.page.textContent('[data-notation="cute"] button'), "Copied");
  await tab.page.click('[data-notation="triton"] >> text=Open');
  check("another opens it", await tab.has("layout", "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>") && await tab.has("shape", "8x64"), await tab.state());
  equal("as the same layout", await tab.page.getAttribute("[data-card] .verdict", "data-ways"), "1");
  check("which is read as Triton's", (await tab.page.textContent(".summary"))!.includes("triton notation"));

  // Texts come after the drawing, one by one, and what is typed meanwhile is not kept waiting.
  await tab.go(hash({ l: "Swizzle(3,3,3) o S[(4096,4096):(4096,1)]", p: "" }));
  check("texts of 16M elements are found", await done());
  const took = await tab.page.evaluate(() => (window as unknown as { explorer: Explorer }).explorer.layout.others.took);
  const typing = await tab.page.evaluate(async () => {
    const { store } = (window as unknown as { explorer: Explorer }).explorer;
    const times: number[] = [];
    for (let i = 0; i < 12; i++) {
      const before = performance.now();
      store.set({ layout: `Swizzle(3,3,3) o S[(4096,4096):(${4096 + 64 * i},1)]` });
      times.push(performance.now() - before);
      await new Promise((done) => setTimeout(done, 20));
    }
    return times.sort((a, b) => a - b)[6]!;
  });
  console.log(`  texts of 16M elements: ${took.toFixed(0)} ms after the drawing; a letter ${typing.toFixed(0)} ms`);
  check("the texts of the last letter come", await done());
  await tab.shot("notations", true);
  await tab.close("notations");
});

await group("what a text may mean", async () => {
  const tab = await Tab.open(browser, base, "", { permissions: ["clipboard-read", "clipboard-write"] });
  const module = `// a kernel
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#shared = #ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-warps" = 4 : i32} {
  tt.func public @kernel(%arg0: !tt.ptr<f16>) {
    %0 = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 0, parent = #blocked}>>
    %1 = tt.load %2 : tensor<128x64x!tt.ptr<f16>, #blocked>
    %3 = ttg.convert_layout %1 : tensor<128x64xf16, #blocked> -> tensor<128x64xf16, #nowhere>
    %4 = ttg.local_alloc : () -> !ttg.memdesc<2x128x64xf16, #shared, #smem, mutable>
  }
}`;
  interface Listed { name: string | null; layout: string; uses: { shape: number[]; element: string }[] }
  const listed = native(program, [{ op: "layouts", text: module }])[0]!.ok! as { layouts: Listed[]; refused: unknown[] };
  await tab.page.evaluate((text) => navigator.clipboard.writeText(text), module);
  await tab.page.focus("main textarea");
  await tab.page.keyboard.press("ControlOrMeta+a");
  await tab.page.keyboard.press("ControlOrMeta+v");
  check("a module can be pasted, lines and all", await tab.has("layout", module));
  equal("it is asked which layout is meant", await tab.page.textContent("h1"), "Which layout?");
  equal("and nothing is wrong", await tab.page.locator("main .error:visible").count(), 0);
  equal("all its layouts are listed", await tab.page.$$eval("[data-choice] code", (l) => l.map((e) => e.textContent)), listed.layouts.map((l) => l.layout));
  equal("by alias or kind", await tab.page.$$eval("[data-choice]", (l) => l.map((e) => (e as HTMLElement).dataset.choice)), ["#blocked", "#shared", "#ttg.slice"]);
  equal("with the shapes they are used with", await tab.page.$$eval("[data-way]", (l) => l.map((e) => (e as HTMLElement).dataset.way)),
    listed.layouts.flatMap((l) => l.uses.map((u) => `${u.shape.join(" × ")} ${u.element}`)));
  check("what is not read is told", (await tab.page.textContent(".offer"))!.includes("no attribute is defined as `#nowhere`"));
  await tab.page.click('[data-choice="#blocked"] [data-way="128 × 64 f16"]');
  check("a pick fills layout, shape and dtype", await tab.has("layout", listed.layouts[0]!.layout) && await tab.has("shape", "128x64") && await tab.has("dtype", "float16"), await tab.state());
  await tab.settled();
  equal("and is drawn", await tab.page.textContent('[data-grid="Tensor"] h2'), "Tensor (128 × 64)");
  const address = tab.page.url().split("#")[1]!;
  check("the pick is in the address", new URLSearchParams(address).get("l") === listed.layouts[0]!.layout, address);
  await tab.page.click('[data-choice="#shared"] [data-way]');
  check("the list stays for another pick", await tab.has("layout", listed.layouts[1]!.layout));
  equal("which is marked", await tab.page.$$eval('[data-way][aria-pressed="true"]', (l) => l.length), 1);
  await tab.page.fill("main textarea", "S[8]");
  check("and goes with another text", await tab.becomes(async () => await tab.page.locator(".offer:visible").count() === 0));
  await tab.page.fill("main textarea", module.replaceAll("128", "64") + "\n".repeat(400) + "// end");
  await tab.settled();
  const tall = await tab.page.$eval("main textarea", (e) => e.getBoundingClientRect().height);
  check("a long module leaves room for the rest", tall <= 280, tall);
  await tab.page.fill("main textarea", module + `// ${"x".repeat(40000)}`);
  await tab.page.waitForTimeout(400);
  check("what is too long for an address is not written there", tab.page.url().length < 40000);
  await tab.go(hash({ l: "%0 = tt.load %1 : tensor<32x16xf16, #blocked>" }));
  equal("an alias that is not defined is underlined", await tab.page.textContent(".wrong"), "#blocked");
  check("with what to do", (await tab.page.textContent("main .error"))!.includes("paste the line that defines it"));
  await tab.go(hash({ l: `%0 = tt.load %1 : tensor<32x16xf16, ${listed.layouts[0]!.layout}>` }));
  equal("a line with one layout is that layout", await tab.page.textContent('[data-grid="Tensor"] h2'), "Tensor (32 × 16)");
  const atom = "MMA_Atom\n  ThrID:      _32:_1\n  Shape_MNK:  (_16,_8,_8)\n  LayoutA_TV: ((_4,_8),(_2,_2)):((_32,_1),(_16,_8))\n  LayoutB_TV: ((_4,_8),_2):((_16,_1),_8)\n  LayoutC_TV: ((_4,_8),(_2,_2)):((_32,_1),(_16,_8))";
  await tab.go(hash({ l: atom }));
  await tab.page.click('[data-choice="LayoutB_TV"] [data-way]');
  check("a printed atom of CuTe has layouts too", await tab.has("layout", "((_4,_8),_2):((_16,_1),_8)") && await tab.has("shape", "32x2"), await tab.state());
  for (const [text, way, shape] of [["#ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp = [8, 4], warpsPerCTA = [2, 2], order = [1, 0]}>", "64 × 64", "64x64"], ["nChw16c", "2 × 32 × 8 × 8", "2x32x8x8"], ["{1,0:T(8,128)}", "128 × 128", "128x128"]] as const) {
    await tab.go(hash({ l: text, p: "" }));
    equal(`a layout of any shape asks for one: ${text.slice(0, 20)}`, await tab.page.textContent("h1"), "Which shape?");
    await tab.page.click(`[data-way="${way}"]`);
    check("and takes it", await tab.has("shape", shape) && await tab.becomes(async () => await tab.page.locator("main .error:visible, .offer:visible").count() === 0), await tab.state());
  }
  await tab.go(hash({ l: "S<3,4,3> o 0 o (8,64):(64,1)", p: "" }));
  const note = native(program, [{ op: "parse", layout: "S<3,4,3> o 0 o (8,64):(64,1)" }])[0]!.ok!.note;
  equal("which reading was taken is said", await tab.page.textContent(".reading-note"), note);
  await tab.page.fill("main textarea", smem);
  check("where there is something to say", await tab.becomes(async () => await tab.page.locator(".reading-note:visible").count() === 0));

  // No two notations of today read one text as different layouts; what the engine would ask is asked by hand.
  await tab.go(hash({ l: "(8,4):(1,8)", p: "" }));
  await tab.page.evaluate(() => {
    const { layout, store } = (window as unknown as { explorer: Explorer }).explorer;
    const reading = (notation: string, title: string) => ({ notation, title, layout: "S[(8,4):(1,8)]" });
    layout.refuse(store.get(), { kind: "syntax", message: "`layout`: the text can be read as cute and as xla", witness: { field: "layout", span: [0, 11], readings: [reading("cute", "CuTe shape and stride"), reading("xla", "XLA minor-to-major with tiles")] } },
      { layout: "(8,4):(1,8)" });
  });
  equal("a text with two meanings is asked about", [await tab.page.textContent("h1"), await tab.page.locator("[data-way]").count()], ["Which notation?", 2]);
  await tab.page.click('[data-way="Read it as cute"]');
  check("the choice is kept", await tab.has("notation", "cute"));
  check("in the link too", await tab.becomes(async () => tab.page.url().includes("r=cute")), tab.page.url());
  equal("and drawn", await tab.page.textContent('[data-grid="Tensor"] h2'), "Tensor (8 × 4)");
  await tab.page.locator("main .reading select").selectOption("xla");
  check("a notation that the reader names reads the text", await tab.becomes(async () => (await tab.page.textContent("main .error"))!.length > 0 && await tab.page.locator("main .error:visible").count() === 1));
  await tab.page.click('[data-preset="smem-8x64"]');
  check("another text is read anew", await tab.has("notation", ""));
  await tab.close("meaning");
});

await group("operators of CuTe", async () => {
  const tab = await Tab.open(browser, base);
  const a = "(8,(4,2)):(1,(8,32))";
  const cases: [string, Record<string, string | number>][] = [
    ["coalesce", {}], ["composition", { b: "(4,2):(2,8)" }], ["complement", { cosize: 256 }], ["right_inverse", {}], ["left_inverse", {}],
    ["logical_divide", { b: "(2:4,4:1)" }], ["zipped_divide", { b: "(2,4)" }], ["tiled_divide", { b: "(2,4)" }], ["flat_divide", { b: "(2,4)" }],
    ["logical_product", { b: "(2,2):(1,2)" }], ["zipped_product", { b: "(2,2):(1,2)" }], ["tiled_product", { b: "(2,2):(1,2)" }], ["flat_product", { b: "(2,2):(1,2)" }],
    ["blocked_product", { b: "(2,2):(2,1)" }], ["raked_product", { b: "(2,2):(2,1)" }],
  ];
  const of = (name: string) => (["coalesce", "complement", "right_inverse", "left_inverse"].includes(name) ? "layout" : "a");
  const answers = native(program, cases.map(([op, fields]) => ({ op, notation: "cute", [of(op)]: a, ...fields })));
  for (const [i, [name, fields]] of cases.entries()) {
    const operands = Object.fromEntries(Object.entries(fields).map(([k, v]) => [`x.${k}`, v]));
    await tab.go(hash({ v: "operators", l: a, o: `cute.${name}`, ...operands }));
    equal(`${name}: the answer of the program`, await tab.page.textContent("[data-result]"), answers[i]!.ok!.layout);
    check(`${name}: is drawn`, await tab.page.locator('[data-grid="Result"]:visible').count() === 1);
  }
  for (const [name] of cases) {
    await tab.page.click(`[data-operator="cute.${name}"]`);
    check(`${name}: begins with operands that it takes`, await tab.becomes(async () => await tab.page.locator("[data-result]").count() === 1), await tab.page.textContent(".result"));
  }
  await tab.go(hash({ v: "operators", l: "(8,16):(16,1)", o: "cute.flat_divide", "x.b": "(4,8)" }));
  equal("modes beyond two are drawn as tiles and rest", await tab.page.textContent('[data-grid="Result"] h2'), "Result · Tensor (32 × 4)");
  await tab.page.click(".answer >> text=Open");
  await tab.settled();
  equal("an answer opens with its text", await tab.page.inputValue("main textarea"), "(4,8,2,2):(16,1,64,8)");
  await tab.go(hash({ v: "operators", l: "size=[8, 16] stride=[16, 1]", o: "cute.zipped_divide", "x.b": "(4,8)" }));
  equal("another notation is converted first", await tab.page.textContent("[data-converted]"), "(8,16):(16,1)");
  equal("and divided as CuTe does", await tab.page.textContent("[data-result]"), "((4,8),(2,2)):((16,1),(64,8))");
  await tab.page.click("text=write it so");
  check("A may be written so", await tab.has("layout", "(8,16):(16,1)"));
  await tab.page.locator("[data-operand=b]").fill("S[4:1]");
  const wanted = native(program, [{ op: "zipped_divide", as: "cute", a: "(8,16):(16,1)", b: "S[4:1]" }])[0]!.ok!.layout;
  check("B may be in another notation", await tab.becomes(async () => await tab.page.textContent("[data-result]") === wanted), wanted);
  await tab.page.locator("[data-operand=b]").fill("(4,");
  check("and is refused in words", await tab.becomes(async () => await tab.page.locator(".result .error").count() === 1));
  await tab.go(hash({ v: "operators", l: "S[(8,4):(4@laneid,1@laneid)]", o: "cute.coalesce" }));
  check("what CuTe cannot write is said", (await tab.page.textContent(".result .error"))!.includes("laneid"), await tab.page.textContent(".result"));
  await tab.go(hash({ v: "operators", l: "(6,2):(8,1)", o: "cute.composition", "x.b": "(2,4):(3,1)" }));
  check("what both libraries get wrong is refused", await tab.page.locator(".result .error").count() === 1, await tab.page.textContent(".result"));
  await tab.shot("cute-operators", true);
  await tab.close("operators of CuTe");
});

await group("presets of every system", async () => {
  const tab = await Tab.open(browser, base);
  const groups = [...new Set(presets.map((p) => p.group))].sort((a, b) => Number(b === "First steps") - Number(a === "First steps"));
  equal("the first steps come first", groups[0], "First steps");
  equal("groups are those of the engine", await tab.page.$$eval(".gallery [data-group]", (l) => l.map((e) => [(e as HTMLElement).dataset.group, e.querySelectorAll("[data-preset]").length])), groups.map((g) => [g, presets.filter((p) => p.group === g).length]));
  for (const system of ["CuTe", "CuTe atoms", "Triton", "XLA", "oneDNN", "MLIR", "Shardings", "PyTorch and NumPy", "Spyre sticks"]) check(`there are presets of ${system}`, groups.includes(system), groups);
  // The first cell of every picture has the colour of the engine.
  const painted = () => tab.page.evaluate(() => [...document.querySelectorAll<HTMLElement>("[data-preset]")].map((b) => {
    const canvas = b.querySelector("canvas")!;
    const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
    const context = copy.getContext("2d", { willReadFrequently: true })!;
    context.drawImage(canvas, 0, 0);
    const { data, width } = context.getImageData(0, 0, copy.width, copy.height);
    const first = [...Array(data.length / 4).keys()].find((i) => data[4 * i + 3] === 255);
    // Past the edge of the first cell that has a colour.
    const at = first === undefined ? -1 : 4 * (first + width);
    return [b.dataset.preset!, at < 0 ? "" : `#${[0, 1, 2].map((k) => data[at + k]!.toString(16).padStart(2, "0")).join("")}`];
  }));
  await tab.becomes(async () => (await painted()).every(([, color]) => color !== ""));
  const seen = new Map(await painted() as [string, string][]);
  const sheets = native(program, presets.map((p) => ({ op: "sheets", layout: p.layout, shape: p.shape, dtype: p.dtype })));
  const cells = native(program, presets.map((p, i) => ({ op: "cells", layout: p.layout, shape: p.shape, dtype: p.dtype, side: sheets[i]!.ok!.sticks ? "physical" : "logical", rows: [0, 1], cols: [0, 1] })));
  for (const [i, p] of presets.entries()) equal(`${p.name}: its picture begins right`, seen.get(p.name), sheets[i]!.ok!.tones[cells[i]!.ok!.cells[0].colors[0]].fill);
  await tab.page.fill('[aria-label="Find a preset"]', "hopper nvmma");
  equal("words find presets", await tab.page.$$eval("[data-preset]", (l) => l.filter((e) => e.getClientRects().length).map((e) => (e as HTMLElement).dataset.preset)), ["triton-nvmma-shared"]);
  await tab.page.fill('[aria-label="Find a preset"]', "no such thing");
  check("or none", await tab.page.isVisible("text=No preset has these words"));
  await tab.page.fill('[aria-label="Find a preset"]', "");
  await tab.page.click('[data-preset="cute-sm80-a"]');
  await tab.settled();
  equal("an atom has threads and values", await tab.page.$$eval("main .grid-card:not([hidden]) h2", (l) => l.map((e) => e.textContent)), ["Threads × values (32 × 8)", "Numbers"]);
  equal("an atom is no memory with banks", await tab.page.locator('[data-card="Shared-memory access"], .chip').count(), 0);
  await tab.page.click('[data-group="Triton"] summary');
  check("a group can be folded", !(await tab.page.isVisible('[data-preset="triton-blocked"]')));
  await tab.shot("gallery");
  await tab.close("systems");
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
  check("and named", /^element \(\d, \d+\), \d+ → \d+$/.test((await tab.page.textContent("[data-copy]"))!), await tab.page.textContent("[data-copy]"));
  await tab.page.click('[aria-label="One copy on"]');
  check("a copy can be stepped to", await tab.has("step", 121));
  await tab.page.click('[aria-label="One copy back"]');
  check("and back", await tab.has("step", 120));
  // An element has one colour on both sides: the destination of a transpose, where only its own rows would have one.
  const ends = ["S[(16,32):(32,1)]", "S[(16,32):(1,16)]"].map((layout) => ({ op: "cells", layout, color_layout: "S[(16,32):(32,1)]", shape: [16, 32], dtype: "float16", side: "physical", rows: [0, 8], cols: [0, 64] }));
  const followed = native(program, ends).map((a) => new Map((a.ok!.cells as { elements: number[][]; colors: number[] }[]).map((c) => [c.elements[0]!.join(), c.colors.join()])));
  equal("colours follow elements", [...followed[1]!].filter(([element, color]) => followed[0]!.get(element) !== color), []);
  await tab.page.locator('main [data-grid="Source"] canvas').hover({ position: { x: 200, y: 60 } });
  check("an element that is pointed at is named", await tab.becomes(async () => (await tab.page.textContent(".caption"))!.includes("holds element")), await tab.page.textContent(".caption"));
  await tab.page.mouse.move(0, 0);
  await tab.shot("move");
  await tab.page.click("main >> text=Transpose");
  await tab.page.click(".player .primary");
  await tab.page.waitForFunction(() => document.querySelector(".player output")?.textContent?.startsWith("512 of 512"), null, { timeout: 20000 });
  check("playing ends at the last copy", true);
  await tab.page.click(".player .primary");
  await tab.page.waitForFunction(() => document.querySelector(".player output")?.textContent?.startsWith("512 of") === false);
  await tab.go(hash({ v: "move", k: 7 }));
  check("a link stops what plays", await tab.becomes(async () => await tab.page.textContent(".player .primary") === "Play"));
  equal("and has its step", [(await tab.state()).step, await tab.page.textContent(".player output")], [7, "7 of 500"]);
  await tab.go(hash({ v: "move", k: 99999 }));
  equal("a step past the end is the last", [await tab.page.textContent(".player output"), await tab.page.locator(".links path").count()], ["500 of 500", 1]);
  await tab.go(hash({ v: "move", f: "S[(4,", t: "S[16]", ms: "4x4" }));
  check("a bad source is underlined", await tab.page.locator(".wrong").count() === 1);
  await tab.close("moves");
});

/// As the page writes times: three digits in the largest unit that has one before the point.
const time = (us: number) => {
  const [value, unit] = us >= 1e6 ? [us / 1e6, "s"] : us >= 1000 ? [us / 1000, "ms"] : [us, "µs"];
  return `${value >= 100 ? value.toFixed(0) : value.toFixed(2).replace(/\.?0+$/, "")} ${unit}`;
};

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
  equal("its latency is the program's", await tab.page.textContent(".total b"), time(report.summary.latency_us));
  equal("every step is a node", await tab.page.locator(".node").count(), report.steps.length);
  equal("moves are coloured", await tab.page.locator(".node.move").count(), report.steps.filter((s: { kind: string }) => s.kind === "move").length);
  equal("every step of a run is on the timeline", await tab.page.locator('[data-card^="Timeline"] rect').count(), report.steps.filter((s: { load: boolean }) => !s.load).length);
  check("layouts are on the edges", (await tab.page.textContent(`[data-tensor="${report.tensors[0].name}"]`))!.includes(report.tensors[0].layout.order));
  equal("every bundle is listed", await tab.page.locator("[data-bundle]").count(), report.bundles.length);
  check("the time of launches is shown", (await tab.page.textContent(".totals"))!.includes(time(report.summary.launch_us)), await tab.page.textContent(".totals"));
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
  check("another file is refused", (await tab.page.textContent("pre.error"))!.includes(`version ${report.version}`));
  const open = (name: string, text: string) => tab.page.setInputFiles("main input[type=file]", { name, mimeType: "application/json", buffer: Buffer.from(text) });
  const broken: [string, object][] = [["machine", { machine: 1 }], ["steps[0].us", { steps: [{ ...report.steps[0], us: "1" }] }], ["tensors[0].layout", { tensors: [{ ...report.tensors[0], layout: null }] }],
    ["machine.cores", { machine: { ...report.machine, cores: 1e9 } }], ["lx.points[0]", { lx: { ...report.lx, points: [[1]] } }], ["notes", { notes: undefined }]];
  for (const [where, change] of broken) {
    await open("broken.json", JSON.stringify({ ...report, ...change }));
    check(`a broken report is refused at ${where}`, await tab.becomes(async () => (await tab.page.textContent("pre.error"))!.includes(`\`${where}\``)), await tab.page.textContent("pre.error"));
  }
  await open("again.json", JSON.stringify({ ...report, graph: "from-a-file" }));
  check("a good one after it is shown", await tab.becomes(async () => (await tab.page.textContent(".totals"))!.includes("from-a-file") && !(await tab.page.isVisible("pre.error"))));
  await tab.go(hash({ v: "model", m: "softmax" }));
  check("a link wins over a file", (await tab.page.textContent(".totals"))!.includes("softmax"), await tab.page.textContent(".totals"));
  await tab.page.fill("#graph-text", "half typed");
  await tab.go(hash({ v: "model", m: "llama-block" }));
  check("and over what is half typed", (await tab.page.inputValue("#graph-text")).includes("llama_block"));
  const last = await tab.page.locator(".node").count() - 1;
  await tab.page.locator(".node").nth(last).focus();
  await tab.page.keyboard.press(" ");
  check("a step is picked by a key", await tab.has("modelStep", last));
  const kept = await tab.page.evaluate(() => ({ top: document.querySelector(".program-scroll")!.scrollTop, step: (document.activeElement as HTMLElement).dataset.step }));
  check("and the graph stays where it is", kept.top > 0 && kept.step === String(last), kept);
  await tab.go("");
  await tab.page.evaluate((text) => {
    const files = new DataTransfer();
    files.items.add(new File([text], "dropped.json"));
    document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
  }, JSON.stringify({ ...report, graph: "dropped" }));
  check("a report that is dropped is shown", await tab.becomes(async () => (await tab.page.locator(".totals").allTextContents()).join().includes("dropped")));
  await tab.close("models");
});

await group("views follow the state", async () => {
  const tab = await Tab.open(browser, base);
  // A change is followed by a tab before it is in the address; back leads to the change.
  await tab.page.evaluate(() => {
    (window as unknown as { explorer: Explorer }).explorer.store.set({ layout: "S[(4,4):(4,1)]", pick: "" });
    document.querySelector<HTMLElement>('[data-tab="move"]')!.click();
  });
  await tab.page.goBack();
  check("back leads to the last change", await tab.has("layout", "S[(4,4):(4,1)]"), await tab.state());
  equal("and shows it", await tab.page.inputValue("main textarea"), "S[(4,4):(4,1)]");
  await tab.page.focus(".skip");
  await tab.page.keyboard.press("Enter");
  equal("the skip link leads into the view", await tab.page.evaluate(() => document.activeElement?.id), "main");
  equal("and leaves it as it is", (await tab.state()).layout, "S[(4,4):(4,1)]");

  const box = (name: string) => tab.page.locator("main .field", { hasText: name }).locator("select, input").first();
  const keeps = (name: string) => box(name).evaluate((e) => e === document.activeElement);
  await box("dtype").focus();
  await box("dtype").selectOption("int8");
  check("a box keeps the keyboard", await tab.has("dtype", "int8") && await keeps("dtype"));
  await tab.page.locator('[data-card="Shared-memory access"] button', { hasText: "row" }).press("Enter");
  check("so does a button", await tab.has("access", "row 0") && await tab.page.evaluate(() => document.activeElement?.textContent === "row"));
  await box("shape").fill("2x8");
  await box("shape").press("Enter");
  await tab.has("shape", "2x8");
  await tab.go(hash({ l: smem, s: "16x32", d: "float16", p: "" }));
  equal("a box with the keyboard follows a link", await box("shape").inputValue(), "16x32");
  await box("shape").fill("4x128");
  await box("shape").press("Enter");
  await box("swizzle").selectOption("128B");
  check("a mode is of the shape that is shown", await tab.becomes(async () => String((await tab.state()).layout).includes("Swizzle")) && await tab.has("shape", "4x128"), await tab.state());
  await tab.go(hash({ l: smem, s: "16x32", p: "" }));
  await box("shape").fill("");
  await box("shape").press("Enter");
  check("an emptied shape is the layout's own", await tab.becomes(async () => await box("shape").inputValue() === "8x64"));
  await tab.go(hash({ l: "S[(64,32):(32,1)]", p: "" }));
  await box("arrange").selectOption("stack");
  const live = () => tab.page.$$eval("main .zoom-text", (l) => l.map((e) => e.textContent).join());
  const other = await Tab.open(browser, base, hash({ l: "S[(64,32):(32,1)]", p: "", g: "stack" }));
  const wanted = await other.page.$$eval("main .zoom-text", (l) => l.map((e) => e.textContent).join());
  await other.close("stacked");
  check("drawings fit when they are arranged anew", await tab.becomes(async () => await live() === wanted), { live: await live(), wanted });
  await tab.go(hash({ l: "S[(3,4,5):(20,5,1)]", b: "1" }));
  await tab.page.locator(".slider input").focus();
  await tab.go(hash({ l: "S[(9,4,5):(20,5,1)]", b: "7" }));
  equal("so does a slider", await tab.page.$eval(".slider input", (e) => [(e as HTMLInputElement).value, (e as HTMLInputElement).max]), ["7", "8"]);

  for (const [link, name, shown] of [[{ w: 3 }, "elements per lane", "3"], [{ v: "move", md: "float64" }, "dtype", "float64"], [{ v: "model", y: "baseline" }, "policy", "baseline"]] as const) {
    await tab.go(hash(link));
    equal(`a box shows what a link says: ${name}`, await box(name).inputValue(), shown);
  }
  await tab.go(hash({ d: "nonsense" }));
  check("a link with an unknown dtype is refused in words", (await tab.page.textContent("main .error"))!.includes("nonsense"));
  await box("dtype").selectOption("float32");
  check("and can be mended", await tab.becomes(async () => await tab.page.locator("main .error:visible").count() === 0));
  await tab.go(hash({ l: "S[(4096,4096):(4096,1)]", p: "4000,4001" }));
  check("the element of a link is brought into view", await tab.becomes(async () => await tab.middle("logical", 0, 4000, 4001) !== null));
  check("with its link", await tab.becomes(async () => await tab.page.locator(".links path").count() === 1));
  await tab.page.focus('main [data-grid="Tensor"] .scroller');
  await tab.page.keyboard.press("ArrowRight");
  const pointed = await tab.page.textContent(".formula h2");
  await tab.page.focus("main textarea");
  check("what the keyboard left is not pointed at", await tab.becomes(async () => await tab.page.textContent(".formula h2") === "Element (4000, 4001)"), pointed);
  await tab.close("state");
});

await group("going to elements and places", async () => {
  const tab = await Tab.open(browser, base, hash({ l: "S[(2,8,4,2):(2,4@laneid,1@laneid,1)]", s: "16x8", d: "float32", p: "" }));
  const goal = tab.page.locator('[aria-label="Go to an element or a place"]');
  const go = async (text: string) => {
    await goal.fill(text);
    await goal.press("Enter");
    await tab.settled();
  };
  await go("9,4");
  check("an element is picked", await tab.has("pick", "9,4"));
  await go("laneid 3");
  const wanted = native(program, [{ op: "find", layout: "S[(2,8,4,2):(2,4@laneid,1@laneid,1)]", shape: [16, 8], dtype: "float32", place: { laneid: 3 } }])[0]!.ok!;
  equal("all elements of a lane are found", [wanted.count, await tab.page.textContent(".editor [role=status]")], [4, "laneid 3: 4 elements, outlined."]);
  check("and the search is in the link", await tab.becomes(async () => tab.page.url().includes("q=laneid")), tab.page.url());
  await go("warpid 3");
  check("another axis is refused", (await tab.page.textContent(".editor .error:visible"))!.includes("laneid"), await tab.page.textContent(".editor"));
  await go("16,0");
  check("an index outside is named", (await tab.page.textContent(".editor .error:visible"))!.includes("0 to 15"));
  // What was picked and the slab stay when only the access changes.
  await tab.go(hash({ l: "S[(3,8,64):(512,64,1)]", p: "" }));
  await tab.page.locator(".slider input").fill("2");
  await tab.canvas("Tensor").click({ position: (await tab.middle("logical", 2, 1, 1))! });
  await tab.page.click('[data-card="Shared-memory access"] >> text=row');
  await tab.settled();
  equal("another access changes nothing else", [(await tab.state()).pick, (await tab.state()).slab, (await tab.state()).access], ["2,1,1", "2", "row 0"]);
  // The width of an element is that of the text.
  await tab.go(hash({ l: "f32[64,32]{1,0}", d: "float16" }));
  check("the text decides the width", (await tab.page.textContent(".summary"))!.includes("32 bits"), await tab.page.textContent(".summary"));
  const code = native(program, [{ op: "index_code", layout: smem, language: "cuda" }])[0]!.ok!.code;
  await tab.go(hash({ l: smem }));
  // It follows the drawing, so that for a moment the code is that of the layout before.
  check("the place is shown as the engine's code", await tab.becomes(async () => await tab.page.textContent('[data-code="cuda"] pre') === code), await tab.page.textContent('[data-code="cuda"] pre'));
  await tab.go(hash({ l: "S[9007199254740993:1]", s: "", p: "" }));
  check("numbers past 2^53 keep their digits", await tab.becomes(async () => (await tab.page.textContent("main"))!.includes("9,007,199,254,740,993")));
  await tab.close("going");
});

await group("finding the way", async () => {
  const tab = await Tab.open(browser, base);
  check("one line says what the page is", (await tab.page.textContent("#intro"))!.startsWith("See where every element"));
  const stops = await tab.page.$$eval("#intro a", (l) => l.map((a) => [a.textContent!, a.getAttribute("href")!]));
  for (const [name, link] of stops) {
    await tab.go(link!.slice(1));
    check(`the tour shows ${name}`, await tab.becomes(async () => await tab.page.locator("main .error:visible").count() === 0 && await tab.page.locator("main canvas:visible, main .program:visible, main .flow:visible").count() > 0), link);
  }
  equal("the tour has six stops", stops.length, 6);
  await tab.go("");
  await tab.page.fill("#field-layout", "mma-m16n8-cd");
  check("the name of a preset is its text", await tab.has("layout", presets.find((p) => p.name === "mma-m16n8-cd")!.layout));
  await tab.go(hash({ v: "model", m: "llama-block" }));
  await tab.page.fill('[aria-label="Find a step or a tensor"]', "softmax");
  await tab.page.press('[aria-label="Find a step or a tensor"]', "Enter");
  const reply = native(program, [{ op: "compile", graph: readFileSync("../examples/llama-block.graph", "utf8"), options: { policy: "best", compare: true } }])[0]!.ok!;
  const text = (s: { name: string; op: string | null; kind: string }) => `${s.name} ${s.op ?? ""} ${s.kind}`.toLowerCase();
  const wanted = reply.steps.findIndex((s: { name: string; op: string | null; kind: string }, i: number) => i > 0 && text(s).includes("softmax"));
  if (wanted >= 0) check("a step is found by a word", await tab.has("modelStep", wanted), [wanted, (await tab.state()).modelStep]);
  await tab.page.fill('[aria-label="Find a step or a tensor"]', "no such step");
  await tab.page.press('[aria-label="Find a step or a tensor"]', "Enter");
  check("or it is said that there is none", await tab.becomes(async () => (await tab.page.textContent("main"))!.includes("No step has these words")));
  // Files are opened in the view that they are for.
  const drop = (name: string, text: string) => tab.page.evaluate(([name, text]) => {
    const files = new DataTransfer();
    files.items.add(new File([text!], name!));
    document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
  }, [name, text]);
  await drop("kernel.ttgir", "#b = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>\n%0 = a : tensor<32x16xf16, #b>\n%1 = a : tensor<64x16xf16, #b>");
  check("a module opens as layouts", await tab.becomes(async () => (await tab.state()).tab === "layout" && await tab.page.locator("[data-choice]").count() === 1));
  await drop("mine.graph", "graph mine(x: float16[64, 64]) {\n y = exp(x)\n return y\n}");
  check("a graph is compiled", await tab.becomes(async () => (await tab.state()).tab === "model" && (await tab.page.locator(".totals").allTextContents()).join().includes("mine")));
  const header = JSON.stringify({ "w.q": { dtype: "F16", shape: [8, 64], data_offsets: [0, 1024] }, "w.k": { dtype: "F32", shape: [4, 4], data_offsets: [1024, 1088] } });
  await tab.page.evaluate((header) => {
    const bytes = new TextEncoder().encode(header);
    const file = new Uint8Array(8 + bytes.length + 1088);
    new DataView(file.buffer).setBigUint64(0, BigInt(bytes.length), true);
    file.set(bytes, 8);
    const files = new DataTransfer();
    files.items.add(new File([file], "model.safetensors"));
    document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
  }, header);
  check("tensors of a file are listed", await tab.becomes(async () => await tab.page.locator("dialog[open] [data-tensor-name]").count() === 2));
  await tab.page.click('[data-tensor-name="w.k"]');
  check("and open as layouts", await tab.becomes(async () => {
    const s = await tab.state();
    return s.tab === "layout" && s.layout === "size=[4, 4] stride=[4, 1]" && s.dtype === "float32";
  }), await tab.state());
  await drop("broken.safetensors", "12345678{");
  check("a broken file is refused", await tab.becomes(async () => (await tab.page.locator(".toast").allTextContents()).join().includes("broken.safetensors")));
  // Every change is a place to go back to, typed text included.
  await tab.go(hash({ l: "S[(4,6):(6,1)]" }));
  await tab.page.fill("#field-layout", "S[(4,6):(1,4)]");
  check("typed text is in the address", await tab.becomes(async () => decodeURIComponent(tab.page.url()).includes("S[(4,6):(1,4)]")), tab.page.url());
  await tab.page.selectOption("main select >> nth=0", "float32");
  check("and so is a choice", await tab.becomes(async () => tab.page.url().includes("d=float32")), tab.page.url());
  await tab.page.goBack();
  check("back undoes the choice", await tab.has("dtype", "float16"), await tab.state());
  await tab.page.goBack();
  check("and then the typing", await tab.has("layout", "S[(4,6):(6,1)]"), await tab.state());
  await tab.close("finding");
});

await group("what is kept", async () => {
  const context = await browser.newContext();
  const report = native(program, [{ op: "compile", graph: readFileSync("../examples/softmax.graph", "utf8"), options: { policy: "best" } }])[0]!.ok!;
  const tab = await Tab.open(browser, base, hash({ v: "model" }));
  await tab.page.setInputFiles("main input[type=file]", { name: "mine.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify({ ...report, graph: "kept-one" })) });
  check("a report names itself in the link", await tab.becomes(async () => /rp=[zk]\./.test(tab.page.url())), tab.page.url().slice(0, 200));
  await tab.page.reload();
  await tab.ready();
  check("a reload shows it again", await tab.becomes(async () => (await tab.page.locator(".totals").allTextContents()).join().includes("kept-one")));
  const [download] = await Promise.all([tab.page.waitForEvent("download"), tab.page.click('.tools >> text="Save page"')]);
  const text = readFileSync(await download.path(), "utf8");
  check("a saved page holds its state", /<meta name="zellige-state" content="[^"]*rp=z\./.test(text));
  await tab.close("kept");
  // Opened without a link, by somebody else.
  const page = await context.newPage();
  await page.route("http://saved.test/", (route) => route.fulfill({ body: text, contentType: "text/html" }));
  await page.goto("http://saved.test/");
  await page.waitForSelector("body[data-ready]", { timeout: 30000 });
  await page.waitForFunction(() => document.querySelector(".totals")?.textContent?.includes("kept-one"), null, { timeout: 10000 });
  check("and opens with it", true);
  await context.close();
});

await group("accesses that are written, drawn by keys, and left", async () => {
  const tab = await Tab.open(browser, base, hash({ l: smem, p: "" }));
  const card = tab.page.locator('[data-card="Shared-memory access"]');
  await tab.page.click("text=draw it");
  await card.locator("input.mono").fill("0,0 1,0 2,0 3,0");
  await card.locator("input.mono").press("Enter");
  check("lanes can be written", await tab.becomes(async () => await card.locator(".verdict").getAttribute("data-ways") === "4"));
  await card.locator("input.mono").fill("0,0 nix");
  await card.locator("input.mono").press("Enter");
  check("and are refused in words", await tab.becomes(async () => (await card.textContent())!.includes("`nix` is no cell")));
  await card.locator("input.mono").fill("0,0");
  await card.locator("input.mono").press("Enter");
  await tab.page.focus('main [data-grid="Tensor"] .scroller');
  for (const key of ["Home", "ArrowDown", "Enter"]) await tab.page.keyboard.press(key);
  check("Enter draws", await tab.has("access", "lanes 0,0 1,0"), await tab.state());
  await tab.page.click("text=drawing…");
  await tab.settled();
  equal("what was drawn stays", (await tab.state()).access, "lanes 0,0 1,0");
  await tab.page.click("text=draw it");
  await tab.page.click('[data-preset="mma-m16n8-cd"]');
  await tab.settled();
  await tab.canvas("Tensor").click({ position: (await tab.middle("logical", 0, 3, 2))! });
  check("a layout without banks is picked from, not drawn over", await tab.has("pick", "3,2"), await tab.state());
  await tab.go(hash({ l: "S[(64,64):(64,1)]", d: "float32", a: "column 0", w: 4 }));
  const wanted = native(program, [{ op: "conflicts", layout: "S[(64,64):(64,1)]", dtype: "float32", access: { kind: "column", index: 0 }, vector: 4 }])[0]!.ok!;
  equal("every phase has its ways", await tab.page.$$eval("[data-phase]", (l) => l.map((e) => Number((e as HTMLElement).dataset.ways))), wanted.phases.map((p: { ways: number }) => p.ways));
  await tab.close("accesses");
});

await group("sharing, export, light and dark, small screens", async () => {
  const link = hash({ l: "Swizzle(3,3,3) o S[(64,64):(64,1)]", c: "line", a: "row 2", p: "7,9", s: "64x64" });
  const tab = await Tab.open(browser, base, link);
  equal("a link carries the whole view", await tab.page.evaluate(() => {
    const s = (window as unknown as { explorer: Explorer }).explorer.store.get();
    return [s.layout, s.color, s.access, s.pick];
  }), ["Swizzle(3,3,3) o S[(64,64):(64,1)]", "line", "row 2", "7,9"]);
  for (const view of ["model", "move", "operators", "compare", "layout"]) {
    await tab.page.click(`[data-tab="${view}"]`);
    await tab.settled();
    for (const name of ["SVG", "PNG"] as const) {
      const [download] = await Promise.all([tab.page.waitForEvent("download"), tab.page.click(`.tools >> text=${name}`)]);
      const bytes = readFileSync(await download.path());
      equal(`${name} of ${view}: its name`, download.suggestedFilename(), `${view}.${name.toLowerCase()}`);
      check(`${name} of ${view}: its bytes`, name === "SVG" ? /^<svg[\s\S]*<\/svg>\s*$/.test(bytes.toString("utf8")) : bytes.subarray(1, 4).toString() === "PNG" && bytes.length > 3000, bytes.length);
    }
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
  await dark.page.emulateMedia({ media: "print" });
  check("paper has light cells", await dark.becomes(async () => await dark.color("logical", 0, 0, 1) === tones.fill), await dark.color("logical", 0, 0, 1));
  await dark.page.emulateMedia({ media: "screen" });
  check("and the screen dark ones again", await dark.becomes(async () => await dark.color("logical", 0, 0, 1) === tones.dark_fill), await dark.color("logical", 0, 0, 1));
  await dark.page.click('[aria-label="Light or dark"]');
  await dark.settled();
  equal("the reader may choose", await dark.color("logical", 0, 0, 1), tones.fill);
  await dark.close("dark");

  for (const colorScheme of ["light", "dark"] as const) {
    const page = await Tab.open(browser, base, "", { colorScheme });
    const pale = await page.page.evaluate(() => {
      const style = getComputedStyle(document.documentElement);
      const light = (name: string) => {
        const hex = style.getPropertyValue(`--${name}`).trim();
        const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
      };
      const contrast = (a: string, b: string) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
      return ["ink", "soft", "faint", "accent", "warm", "good", "bad"].flatMap((text) => ["page", "surface", "raised"].map((ground) => `${text} on ${ground} ${contrast(text, ground).toFixed(2)}`))
        .filter((line) => Number(line.split(" ").at(-1)) < 4.5);
    });
    equal(`text can be read: ${colorScheme}`, pale, []);
    await page.close(colorScheme);
  }

  const phone = await Tab.open(browser, base, "", { viewport: { width: 390, height: 844 }, hasTouch: true });
  const ttgir = "#b = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>\n%0 = a : tensor<32x16xf16, #b>\n%1 = a : tensor<64x16xf16, #b>";
  for (const view of ["", hash({ v: "operators" }), hash({ v: "move" }), hash({ v: "compare", l: smem, e: "Swizzle(3,3,3) o " + smem }), hash({ v: "model" }), hash({ l: ttgir }), hash({ l: presets.find((p) => p.name === "triton-slice")!.layout, p: "" }), hash({ v: "operators", l: "(8,16):(16,1)", o: "cute.zipped_divide" })]) {
    await phone.go(view);
    const wide = await phone.page.evaluate(() => document.documentElement.scrollWidth);
    check(`nothing is wider than a phone: ${view || "layout"}`, wide <= 390, wide);
    await phone.page.setViewportSize({ width: 320, height: 640 });
    await phone.settled();
    const small = await phone.page.evaluate(() => document.documentElement.scrollWidth);
    check(`nor than a small one: ${view || "layout"}`, small <= 320, small);
    await phone.page.setViewportSize({ width: 390, height: 844 });
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
      ["explorer-notations", hash({ l: presets.find((p) => p.name === "xla-padded")!.layout, p: "1,3", d: "float32" }), { viewport: { width: 980, height: 880 } }],
      ["explorer-model", hash({ v: "model", m: "llama-block", n: 4 }), { viewport: { width: 1280, height: 1500 } }],
    ];
    for (const [name, link, options] of views) {
      const tab = await Tab.open(browser, base, link, { viewport: { width: 1280, height: 860 }, ...options });
      await tab.page.waitForTimeout(300);
      if (name === "explorer-notations") {
        await tab.becomes(() => tab.page.evaluate(() => (window as unknown as { explorer: Explorer }).explorer.layout.others.took >= 0));
        await tab.page.locator('section[aria-label="In other notations"]').evaluate((e) => e.scrollIntoView({ block: "end" }));
        await tab.settled();
      }
      await tab.page.screenshot({ path: `${pictures}/${name}.png` });
      await tab.close(name);
      check(`${name} is drawn`, true);
    }
  });
}

await browser.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
