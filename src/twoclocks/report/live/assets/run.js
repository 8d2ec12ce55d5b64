// The page of one run: facts, decision, forecast, curves that grow, latest samples.
"use strict";
{
  const { make, load, listen, count, duration, throttled, Chart } = twoclocks;
  const byId = (id) => document.getElementById(id);
  const id = /run-([0-9a-f]+)\.html$/.exec(location.pathname)?.[1] ?? "";
  const MOST_POINTS = 1000; // per panel; the server thins longer ones
  let charts = [];
  let isDamaged = false;

  function facts(place, pairs) {
    const shown = pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined);
    byId(place).replaceChildren(...shown.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  }

  function showRun(run) {
    document.title = `${run.name} · twoclocks`;
    byId("name").textContent = run.name;
    byId("state").textContent = run.state;
    byId("state").className = `state ${run.state}`;
    byId("note").textContent = run.note;
    isDamaged = run.state === "damaged";
    if (isDamaged) byId("decision").hidden = true;
    const step = run.steps ? `${count(run.step)} of ${count(run.steps)}` : count(run.step);
    facts("facts", [
      ["step", step], ["time left", duration(run.left)], ["evaluations", count(run.evaluations)],
      [run.rule.startsWith("τ_gen") ? "τ_gen" : "τ_rule", run.rule.replace("τ_gen ", "")], ["τ_mem", run.memory],
      ["window", run.window], ["model", run.model], ["training samples N", count(run.n)],
      ["seed", run.seed === null ? "" : String(run.seed)], ["sweep", run.sweep], ["folder", run.folder],
    ]);
  }

  function showDecision(decision) {
    byId("decision").hidden = !decision || isDamaged; // rows before the damage decide nothing
    if (!decision) return;
    // "Go on" would be bad advice where a policy only watches while the model copies.
    const watched = decision.phase.startsWith("copying") ? "Not stopped" : "Go on";
    byId("verdict").textContent = `${decision.stop ? "Stop" : watched}: ${decision.phase} at step ${count(decision.step)}.`;
    facts("rates", [
      ["why", decision.reason], ["policy", decision.policy], ["copies, with interval", decision.copies],
      ["copies by chance", decision.chance], ["valid", decision.valid],
    ]);
  }

  function showClocks(data) {
    for (const chart of charts) {
      chart.bands = data.bands;
      chart.window = data.window ?? null;
      chart.draw();
    }
    showDecision(data.decision);
  }

  function showPage(data) {
    showRun(data.run);
    byId("panels").replaceChildren();
    charts = data.panels.map((panel) => new Chart(panel, byId("panels")));
    byId("no-curves").hidden = charts.length > 0;
    showClocks(data);
  }

  const fill = (tag, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };

  const DRAWN = {
    image: (source, words) => make("img", { src: source, alt: words }),
    text: (text) => make("p", { class: "text" }, text),
    grid: (cells, words, colours) => {
      const svg = fill("svg", { viewBox: `0 0 ${cells[0].length} ${cells.length}`, role: "img", "aria-label": words });
      cells.forEach((line, y) => line.forEach((cell, x) => {
        const square = fill("rect", { x, y, width: 0.94, height: 0.94 });
        square.style.fill = colours[cell];
        svg.append(square);
      }));
      return svg;
    },
  };

  function showSamples(samples) {
    if (samples.kind === "none") {
      byId("sample-words").textContent = samples.reason;
      byId("samples").replaceChildren();
      byId("sample-note").textContent = "";
      return;
    }
    byId("sample-words").textContent = `Step ${count(samples.step)}, ${samples.counts}.`;
    byId("sample-note").textContent = samples.note;
    byId("samples").className = samples.kind === "text" ? "texts" : "tiles";
    byId("samples").replaceChildren(...samples.tiles.map((tile) => {
      const draw = DRAWN[samples.kind];
      const shown = make("div", { class: `tile ${tile.colour}`, title: tile.words }, draw(tile.sample, `sample: ${tile.words}`, samples.colours));
      if (tile.original !== null) {
        const original = draw(tile.original, "its training original", samples.colours);
        original.classList.add("original");
        shown.append(original);
      }
      shown.append(make("b", {}, tile.mark));
      return shown;
    }));
  }

  async function showDetails() {
    const data = await load(`data/details-${id}.json`);
    byId("forecast").textContent = `${data.forecast.text}.`;
    showSamples(data.samples);
  }

  const detailsSoon = throttled(showDetails, 5000);

  async function show() {
    const data = await load(`data/run-${id}.json`);
    showPage(data);
    detailsSoon();
    return data.event;
  }

  function grow(data) {
    const known = new Set(charts.flatMap((chart) => chart.panel.curves.map((curve) => curve.key)));
    const isNew = (points) => points.some(([, values]) => Object.keys(values).some((key) => !known.has(key)));
    if (data.points === null || isNew(data.points)) return void show();
    for (const [step, values] of data.points) for (const chart of charts) chart.append(step, values);
    showClocks(data);
    if (charts.some((chart) => chart.panel.steps.length > MOST_POINTS)) show();
    else detailsSoon();
  }

  show().then((after) => listen(after, id, { run: showRun, rows: grow, reset: show }));
}
