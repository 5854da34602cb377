// SPDX-License-Identifier: Apache-2.0
// Runs a reader's code: Python, and in it the model of Triton. The page's script makes a worker of this text, with BASE,
// the site's address, in front, so that it inherits the page's policy: nothing but this host can be asked for anything.
// Python sees nothing of the page, nor of this script.

const MOST = 20000; // characters that code may print
let printed = 0, ready;

/** Say how much of Python has come: of the bytes that its files have, by the build's own count. */
function watch(all) {
  const plain = fetch;
  let come = 0, said = 0;
  globalThis.fetch = async (...asked) => {
    const answer = await plain(...asked);
    if (answer.ok && answer.url.includes("/pyodide/")) count(answer.clone()); // the browser keeps what it compiles of its own
    return answer;
  };
  const count = async ({ body }) => {
    const reader = body.getReader();
    for (let part; !(part = await reader.read()).done; ) {
      come += part.value.length;
      const share = Math.floor((10 * come) / all) * 10;
      if (share > said && share < 100) postMessage({ loading: `Loading Python, ${(said = share)} %` });
    }
  };
}

async function begin() {
  postMessage({ loading: "Loading Python" });
  const all = Number(await (await fetch(`${BASE}assets/browser/bytes.txt`)).text());
  watch(all);
  const { loadPyodide } = await import(`${BASE}assets/browser/pyodide/pyodide.mjs`);
  const fetched = ["assets/browser/model.zip", "practice/triton-practice.zip"].map(async (path) => {
    const answer = await fetch(BASE + path);
    if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
    return answer.arrayBuffer();
  });
  const python = await loadPyodide({ indexURL: `${BASE}assets/browser/pyodide/`, jsglobals: Object.create(null) });
  postMessage({ loading: "Starting Python" });
  for (const zip of fetched) python.unpackArchive(await zip, "zip", { extractDir: "/site" });
  python.setStdout({ batched: say });
  python.setStderr({ batched: say });
  return python.runPython(`
    import sys
    sys.path[:0] = ["/site", "/site/practice"]
    import browser
    browser.install()
    from browser import page
    page`);
}

function say(line) {
  if (line[0] === "\x01") return postMessage({ state: line.slice(1) }); // how far a check is: browser/page.py
  if (printed > MOST) return;
  printed += line.length + 1;
  postMessage({ out: printed > MOST ? `${line.slice(0, MOST)}\n… and more, which is not shown\n` : `${line}\n` });
}

onmessage = async ({ data: { text, check, seed, whole, section } }) => {
  printed = 0;
  try {
    const page = await (ready ??= begin());
    if (text === undefined) return; // somebody has begun to write, and will want it
    postMessage({ state: check ? "Checking…" : "Running…" });
    const began = performance.now();
    const answer = JSON.parse(check ? page.check_exercise(check, text) : page.run(text, seed, whole, section));
    postMessage({ answer, took: performance.now() - began });
  } catch (error) {
    const last = String(error.message ?? error).trim().split("\n").at(-1);
    // What Python answers cannot be read once its memory is full.
    postMessage({ failed: error instanceof SyntaxError ? "Python's memory is full. Press the button again to start anew." : last });
  }
};
