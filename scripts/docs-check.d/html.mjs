// Opens an HTML block of the documentation in a browser, as the reader's site would serve it: node html.mjs FILE
//
// It replaces the placeholder URL and token with real ones, signs in as a creator on the connect page in the frame, and
// prints the URL that the browser ends at.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import path from "node:path";

const root = path.resolve(path.dirname(new URL(import.meta.url).pathname), "../..");
const { chromium } = createRequire(path.join(root, "web/package.json"))("playwright-core");
const { STAGEDOOR_URL, CLIENT_TOKEN, PORT } = process.env;

const source = (await readFile(process.argv[2], "utf8")).replaceAll("https://api.example.com", STAGEDOOR_URL).replaceAll("cst_…", CLIENT_TOKEN);
const server = createServer((request, response) => {
  response.setHeader("Content-Type", "text/html; charset=utf-8").end(request.url === "/" ? `<!doctype html><title>A site</title>${source}` : "<!doctype html><title>Done</title>");
});
await new Promise((resolve) => server.listen(Number(PORT), "127.0.0.1", resolve));
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
try {
  const page = await browser.newPage();
  page.on("console", (message) => message.type() === "error" && console.error(message.text()));
  await page.goto(`http://127.0.0.1:${PORT}/`);
  const frame = page.frameLocator("iframe");
  const email = frame.locator("input[name=email]");
  await email.waitFor({ state: "attached" });
  // The page offers OAuth first, where the platform has it.
  if (!(await email.isVisible())) await frame.locator("form:has([value=oauth]) + details > summary").click();
  await email.fill(`ok+embed${Date.now()}@sandbox.test`);
  await frame.locator("input[name=password]").fill("good");
  await frame.locator("input[name=password]").press("Enter");
  await page.waitForURL((url) => url.pathname !== "/", { timeout: 60_000 });
  console.log(page.url());
} finally {
  await browser.close();
  server.close();
}
