import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig, type Plugin } from "vite";

/// Puts script, style and engine into index.html: one file that opens from a disk, a server or a
/// program, and asks nobody for anything.
function oneFile(folder: string, engine: string): Plugin {
  return {
    name: "one-file",
    closeBundle() {
      const assets = join(folder, "assets");
      let html = readFileSync(join(folder, "index.html"), "utf8");
      const hashes: string[] = [];
      for (const name of readdirSync(assets)) {
        const text = readFileSync(join(assets, name), "utf8");
        const path = `[^"]*${name.replaceAll(".", "\\.")}`;
        if (name.endsWith(".css")) {
          const tag = new RegExp(`<link[^>]*href="${path}"[^>]*>`);
          html = html.replace(tag, () => `<style>${text}</style>`);
        } else if (name.endsWith(".js")) {
          const tag = new RegExp(`\\s*<script[^>]*src="${path}"[^>]*></script>`);
          if (!tag.test(html)) throw new Error(`${name} is not in index.html`);
          html = html.replace(tag, "");
          const script = text.replaceAll("</script", "<\\/script");
          // The policy of the page names its scripts by their text, so that nothing else runs in it.
          hashes.push(`'sha256-${createHash("sha256").update(script).digest("base64")}'`);
          html = html.replace("</body>", () => `<script type="module">${script}</script></body>`);
        } else {
          throw new Error(`${name} cannot be put into the page`);
        }
      }
      const open = "script-src 'unsafe-inline'";
      if (!html.includes(open)) throw new Error("the policy of index.html has no place for the hashes of scripts");
      html = html.replace(open, `script-src ${hashes.join(" ")}`);
      const bytes = gzipSync(readFileSync(engine), { level: 9 }).toString("base64");
      html = html.replace("<!-- engine -->", () =>
        `<script type="text/plain" id="engine">${bytes}</script>`);
      writeFileSync(join(folder, "index.html"), html);
      rmSync(assets, { recursive: true });
    },
  };
}

export default defineConfig({
  base: "./",
  build: { target: "es2022", modulePreload: false, assetsInlineLimit: 0 },
  plugins: [oneFile("dist", "generated/zellige_explorer_bg.wasm")],
});
