import { defineConfig } from "vite";

/// The browser tests as one script that Node runs.
export default defineConfig({
  build: { ssr: "tests/web.ts", outDir: "tests/out/js", target: "node20", minify: false },
});
