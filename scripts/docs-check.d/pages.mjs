// Checks the documentation in a browser: node pages.mjs BASE_URL SCREENSHOTS
//
// It opens every page that is linked from /docs or listed in the sitemap. A page must answer 200, have no dead links or
// anchors, request nothing from other hosts, log nothing to the console, not scroll sideways at any width, and have no
// axe violations, in light and dark mode. ONLY=recipes,quickstart limits the checks to paths that contain one of these.
//
// The reference pages share a few templates, so widths and axe are checked only for the first pages of each folder. FULL=1
// checks all of them and takes screenshots of every page.
import { mkdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";

const [base, pictures] = process.argv.slice(2);
const root = path.resolve(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), "../..");
const require = createRequire(path.join(root, "web/package.json"));
const { chromium } = require("playwright-core");
const axe = await readFile(require.resolve("axe-core/axe.min.js"), "utf8");

const widths = [360, 390, 768, 1360];
const origin = new URL(base).origin;
const full = process.env.FULL === "1";
const only = (process.env.ONLY ?? "").split(",").filter(Boolean);
const faults = [];
const fault = (page, what) => faults.push(`${page}: ${what}`);

/** Reports whether a path is a page of the documentation. */
const isDocument = (pathname) => /^\/docs(\/|$)/.test(pathname) && !/\.(md|xml|txt|css|js|svg|png|json|go|ts|py)$/.test(pathname) && !pathname.startsWith("/docs/search");

/** The number of checked pages by folder of the reference. */
const looked = new Map();
const sampleSize = 4;

/** Reports whether a page must be checked, and not only read for its links. */
function wanted(pathname) {
  if (only.length > 0) return only.some((part) => pathname.includes(part));
  const [, folder] = /^(\/docs\/(?:api|sdk|events|problems))\//.exec(pathname) ?? [];
  if (full || !folder) return true;
  looked.set(folder, (looked.get(folder) ?? 0) + 1);
  return looked.get(folder) <= sampleSize;
}

/** Returns the file name of a page's screenshot. */
const nameOf = (pathname) => pathname.replace(/^\/docs\/?/, "").replaceAll("/", "-") || "index";

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
await mkdir(pictures, { recursive: true });

/** The state of the crawl: the anchors of each page, and all links. */
const anchors = new Map();
const links = [];
const queue = [];
const queued = new Set();
const enqueue = (pathname) => {
  if (queued.has(pathname)) return;
  queued.add(pathname);
  queue.push(pathname);
};

/** Checks a page at every width, and with axe in both themes. In dark mode only colours can differ. */
async function look(page, pathname) {
  await page.emulateMedia({ colorScheme: "light" });
  for (const width of widths) {
    await page.setViewportSize({ width, height: 900 });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (wide > 0) fault(pathname, `scrolls sideways by ${wide} px at ${width} px`);
  }
  // Wait two frames: one for the layout, and one for scripts that react to sizes.
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done()))));
  if (full) await page.screenshot({ path: path.join(pictures, `${nameOf(pathname)}-1360.png`) });
  await judge(page, pathname, "light", { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] });
  await page.emulateMedia({ colorScheme: "dark" });
  await judge(page, pathname, "dark", { type: "rule", values: ["color-contrast", "link-in-text-block"] });
  if (!full) return;
  await page.setViewportSize({ width: 390, height: 900 });
  await page.screenshot({ path: path.join(pictures, `${nameOf(pathname)}-390.png`) });
}

async function judge(page, pathname, theme, runOnly) {
  const found = await page.evaluate(async (rules) => {
    const { violations } = await window.axe.run(document, { runOnly: rules, resultTypes: ["violations"] });
    return violations.map((v) => `${v.id}: ${v.nodes.length} × ${v.nodes[0].html.slice(0, 120)}`);
  }, runOnly);
  for (const one of found) fault(pathname, `axe (${theme}): ${one}`);
}

/** Opens a tab that is reused for many pages, because opening one is slower than checking a page. */
async function opened(context) {
  const page = await context.newPage();
  const tab = { page, at: "" };
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") fault(tab.at, `console: ${message.text().slice(0, 200)}`);
  });
  page.on("pageerror", (error) => fault(tab.at, `script: ${error.message}`));
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol.startsWith("http") && url.origin !== origin) fault(tab.at, `requests ${url.host}`);
  });
  return tab;
}

async function visit(tab, pathname) {
  const { page } = tab;
  tab.at = pathname;
  try {
    const answer = await page.goto(base + pathname, { waitUntil: "load" });
    if (answer.status() !== 200) return fault(pathname, `answers ${answer.status()}`);
    const seen = await page.evaluate(() => ({
      ids: [...document.querySelectorAll("[id], a[name]")].map((e) => e.id || e.getAttribute("name")),
      links: [...document.querySelectorAll("a[href]")].map((e) => e.href),
      headings: document.querySelectorAll("h1").length,
      comments: document.body.innerHTML.includes("&lt;!-- check") || document.body.innerHTML.includes("&lt;!-- prelude"),
    }));
    anchors.set(pathname, new Set(seen.ids));
    if (seen.headings !== 1) fault(pathname, `has ${seen.headings} h1 headings`);
    if (seen.comments) fault(pathname, "shows a comment for docs-check");
    for (const href of new Set(seen.links)) {
      const url = new URL(href);
      if (url.origin !== origin) continue; // other sites are not checked, because this check must not depend on them
      links.push({ from: pathname, pathname: url.pathname, search: url.search, hash: url.hash });
      if (isDocument(url.pathname)) enqueue(url.pathname);
    }
    if (!wanted(pathname)) return;
    // Not with a script element, because the pages' policy blocks foreign scripts.
    await page.evaluate(axe);
    await look(page, pathname);
  } catch (error) {
    fault(pathname, String(error).split("\n")[0]);
  }
}

/** Returns the status of a linked URL that is not a page: a Markdown version, a picture, the dashboard. */
async function answers(pathname) {
  const answer = await fetch(base + pathname, { redirect: "manual", headers: { Accept: "text/html" } });
  await answer.body?.cancel();
  return answer.status;
}

enqueue("/docs");
const sitemap = await (await fetch(`${base}/docs/sitemap.xml`)).text();
for (const [, address] of sitemap.matchAll(/<loc>([^<]*)<\/loc>/g)) enqueue(new URL(address).pathname);

const worker = async () => {
  const context = await browser.newContext({ reducedMotion: "reduce", bypassCSP: false });
  const tab = await opened(context);
  for (let pathname = queue.shift(); pathname !== undefined; pathname = queue.shift()) await visit(tab, pathname);
  await context.close();
};
// Two rounds, because a worker may find the queue empty while the other still discovers pages.
for (let round = 0; round < 2; round++) await Promise.all([worker(), worker()]);

// The documentation must also be readable without scripts.
const plain = await browser.newContext({ javaScriptEnabled: false });
const bare = await plain.newPage();
for (const pathname of ["/docs", "/docs/quickstart", "/docs/recipes/own-ui", "/docs/search?q=webhook"]) {
  const answer = await bare.goto(base + pathname);
  const text = await bare.innerText("main");
  if (answer.status() !== 200 || text.length < 200) fault(pathname, "has almost no text without JavaScript");
}
await browser.close();

const others = new Map();
for (const { from, pathname, search, hash } of links) {
  const ids = anchors.get(pathname);
  if (ids) {
    if (hash && !ids.has(decodeURIComponent(hash.slice(1)))) fault(from, `links to ${pathname}${hash}, but the anchor does not exist`);
    continue;
  }
  const key = pathname + search;
  if (!others.has(key)) others.set(key, answers(key));
  const status = await others.get(key);
  if (status >= 400) fault(from, `links to ${key}, which answers ${status}`);
}

const unique = [...new Set(faults)];
for (const one of unique) console.error(one);
console.log(`${anchors.size} pages, ${links.length} links, ${unique.length} faults${full ? `; screenshots are in ${pictures}` : ""}`);
process.exit(unique.length === 0 && anchors.size > 0 ? 0 : 1);
