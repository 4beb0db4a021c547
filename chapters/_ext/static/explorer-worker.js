// Runs the engine for the page: Pyodide and the engine's wheel, both from this site.
// The page sends {explorer, raw, ticket}; the answer carries the same ticket.
const base = new URL(".", self.location.href);
const say = (progress) => self.postMessage({ progress });

async function start() {
  say("Loading Python…");
  const { loadPyodide } = await import(new URL("pyodide/pyodide.mjs", base).href);
  const wheel = fetch(new URL("engine.json", base), { cache: "no-cache" })
    .then((answer) => answer.json())
    .then(({ wheel }) => fetch(new URL(wheel, base)))
    .then((answer) => {
      if (!answer.ok) throw new Error(`${answer.url} answers ${answer.status}`);
      return answer.arrayBuffer();
    });
  const python = await loadPyodide({ indexURL: new URL("pyodide/", base).href });
  say("Loading the engine…");
  python.unpackArchive(await wheel, "wheel");
  const update = python.pyimport("shardbook.explorers.host").update;
  // An update makes thousands of small values and no cycles: collecting them in the middle of one
  // costs a twentieth of its time.
  python.runPython("import gc; gc.freeze(); gc.set_threshold(50_000)");
  return update;
}

const ready = start();
self.onmessage = async ({ data: { explorer, raw, ticket } }) => {
  try {
    const update = await ready;
    self.postMessage({ ticket, view: JSON.parse(update(explorer, JSON.stringify(raw))) });
  } catch (error) {
    self.postMessage({ ticket, failure: String(error.message || error) });
  }
};
