// Builds the sources into one HTML file without anything from elsewhere:
// ../ut_tf/insights/page/index.html, and the licenses of what is bundled beside it.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "..", "ut_tf", "insights", "page");
const sources = [
  "../ut_tf/web/theme.css",
  "build.mjs",
  "package.json",
  "package-lock.json",
  "tsconfig.json",
];

function filesBelow(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? filesBelow(join(folder, entry.name)) : [join(folder, entry.name)],
  );
}

// The same digest is computed by tests/insights/page/test_form.py.
function sourcesDigest() {
  const names = [...sources, ...filesBelow(join(here, "src")).map((path) => relative(here, path))];
  const digest = createHash("sha256");
  for (const name of names.map((path) => path.replaceAll("\\", "/")).sort()) {
    digest.update(`${name}\0`);
    digest.update(readFileSync(join(here, name)));
    digest.update("\0");
  }
  return digest.digest("hex");
}

async function bundle(entry) {
  const result = await build({
    entryPoints: [join(here, "src", entry)],
    bundle: true,
    minify: true,
    write: false,
    metafile: true,
    format: "iife",
    charset: "ascii",
    target: "es2022",
    legalComments: "none",
    loader: { ".woff2": "dataurl" },
    outdir: "out",
  });
  return { text: result.outputFiles[0].text.trim(), inputs: Object.keys(result.metafile.inputs) };
}

function bundledPackages(inputs) {
  const pattern = /node_modules\/((?:@[^/]+\/)?[^/]+)\//;
  return [...new Set(inputs.map((path) => path.match(pattern)?.[1]).filter(Boolean))].sort();
}

function licenses(packages) {
  const texts = packages.map((name) => {
    const folder = join(here, "node_modules", name);
    const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const text = readFileSync(join(folder, "LICENSE"), "utf8").trim();
    return `${name} ${version}\n${"-".repeat(60)}\n${text}\n`;
  });
  return `index.html contains the packages below, each under its own license.\n\n${texts.join("\n\n")}`;
}

const script = await bundle("main.ts");
const style = await bundle("style.css");
const scriptHash = createHash("sha256").update(script.text).digest("base64");
const parts = {
  "{{sources}}": sourcesDigest(),
  "{{script-hash}}": scriptHash,
  "/*{{style}}*/": style.text,
  "/*{{script}}*/": script.text,
};
let html = readFileSync(join(here, "src", "index.html"), "utf8");
for (const [mark, text] of Object.entries(parts)) {
  if (html.split(mark).length !== 2) throw new Error(`src/index.html must contain ${mark} once`);
  html = html.replace(mark, () => text);
}
for (const mark of ["<!--title-->", "<!--static-->", "<!--insights-->"]) {
  if (html.split(mark).length !== 2) throw new Error(`the page must contain ${mark} once`);
}
mkdirSync(target, { recursive: true });
writeFileSync(join(target, "index.html"), html);
writeFileSync(
  join(target, "LICENSES.txt"),
  licenses(bundledPackages([...script.inputs, ...style.inputs])),
);
console.log(`${relative(process.cwd(), join(target, "index.html"))}: ${html.length} characters`);
