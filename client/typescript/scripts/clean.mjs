// Removes folders that the compiler writes, so that a file that is gone from src is gone from them too.
import { rmSync } from "node:fs";

for (const folder of process.argv.slice(2)) {
  if (folder !== "dist" && folder !== "build") throw new Error(`${folder} is not a folder that the compiler writes`);
  rmSync(new URL(`../${folder}`, import.meta.url), { recursive: true, force: true });
}
