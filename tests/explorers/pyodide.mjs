// Runs explorers under Pyodide: reads [[explorer, raw], …] as JSON, writes the list of answers.
// node pyodide.mjs PYODIDE_FOLDER WHEEL CASES ANSWERS
import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, wheel, cases, answers] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(resolve(folder, "pyodide.mjs")).href);
const python = await loadPyodide({ indexURL: resolve(folder) + "/" });
python.unpackArchive(new Uint8Array(readFileSync(wheel)), "wheel");
const update = python.pyimport("shardbook.explorers.host").update;
const views = JSON.parse(readFileSync(cases, "utf8")).map(([id, raw]) => update(id, JSON.stringify(raw)));
const modules = python.runPython("import sys; ' '.join(sorted(sys.modules))").split(" ");
writeFileSync(answers, JSON.stringify({ views, modules }));
