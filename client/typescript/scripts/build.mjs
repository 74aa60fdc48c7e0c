// Compiles a project into a folder: node scripts/build.mjs tsconfig.json dist
// It compiles beside it and swaps the two at the end, so that nobody who uses the folder meanwhile sees half of it, and
// a file that is gone from the sources is gone from it too.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";

const [project, folder] = process.argv.slice(2);
const root = new URL("../", import.meta.url).pathname;
mkdirSync(`${root}node_modules`, { recursive: true });
const made = mkdtempSync(`${root}node_modules/.build-`);
try {
  const tsc = spawnSync(process.execPath, [`${root}node_modules/typescript/bin/tsc`, "-p", root + project, "--outDir", `${made}/new`], { stdio: "inherit" });
  if (tsc.status !== 0) process.exitCode = tsc.status ?? 1;
  else swap();
} finally {
  rmSync(made, { recursive: true, force: true });
}

function swap() {
  try {
    renameSync(root + folder, `${made}/old`);
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
  }
  renameSync(`${made}/new`, root + folder);
}
