// The table of all runs: sorted and filtered here, updated by events.
"use strict";
{
  const { make, load, listen, count, duration, throttled } = twoclocks;
  const byId = (id) => document.getElementById(id);
  const runs = new Map();
  let sorted = { key: "name", down: false };

  const progress = (run) => (run.steps ? Math.min(1, run.step / run.steps) : null);
  const COLUMNS = [
    { name: "run", key: "name", cell: (run) => make("a", { href: `run-${run.id}.html` }, run.name) },
    { name: "state", key: "state", cell: (run) => make("span", { class: `state ${run.state}`, title: run.note }, run.state) },
    { name: "progress", sort: progress, cell: progressCell, number: true },
    { name: "time left", sort: (run) => run.left, cell: (run) => duration(run.left), number: true },
    { name: "τ_rule", sort: (run) => run.rule_step, cell: (run) => run.rule, number: true, colour: "rule" },
    { name: "τ_mem", sort: (run) => run.memory_step, cell: (run) => run.memory, number: true, colour: "memory" },
    { name: "window", key: "window", cell: (run) => run.window },
    { name: "N", sort: (run) => run.n, cell: (run) => count(run.n), number: true },
    { name: "seed", sort: (run) => run.seed, cell: (run) => (run.seed === null ? "" : String(run.seed)), number: true },
    { name: "model", key: "model", cell: (run) => run.model },
    { name: "folder", key: "folder", cell: (run) => run.folder },
  ];
  for (const column of COLUMNS) column.sort ??= (run) => run[column.key];

  function progressCell(run) {
    const words = run.steps ? `${count(run.step)} of ${count(run.steps)}` : `step ${count(run.step)}`;
    if (!run.steps) return words;
    const bar = make("progress", { max: 1, value: progress(run), "aria-label": `progress of ${run.name}` });
    return make("span", { class: "progress" }, bar, words);
  }

  // Numbers before texts, and what is not known last, in either direction.
  function compare(a, b) {
    const column = COLUMNS.find((one) => one.name === sorted.name) ?? COLUMNS[0];
    const [x, y] = [column.sort(a), column.sort(b)];
    const empty = (value) => value === null || value === undefined || value === "";
    if (empty(x) || empty(y)) return empty(x) - empty(y);
    const order = typeof x === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    return sorted.down ? -order : order;
  }

  function matches(run) {
    const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = [run.name, run.model, run.sweep, run.folder, run.state, run.phase, run.window].join(" ").toLowerCase();
    return words.every((word) => text.includes(word)) && ["", run.state].includes(byId("state").value);
  }

  function draw() {
    const all = [...runs.values()];
    const shown = all.filter(matches).sort(compare);
    byId("runs").hidden = !all.length;
    byId("filters").hidden = !all.length;
    byId("empty").hidden = all.length > 0;
    byId("count").textContent = `${count(shown.length)} of ${count(all.length)}`;
    byId("runs").tBodies[0].replaceChildren(...shown.map(row));
    drawStates(all);
  }

  function row(run) {
    const cells = COLUMNS.map((column) => {
      const cell = make("td", { "data-label": column.name }, column.cell(run));
      if (column.number) cell.classList.add("number");
      if (column.colour) cell.classList.add(column.colour);
      return cell;
    });
    return make("tr", { id: `run-${run.id}` }, ...cells);
  }

  function drawStates(all) {
    const select = byId("state"), chosen = select.value;
    const states = [...new Set(all.map((run) => run.state))].sort();
    if ([...select.options].slice(1).map((one) => one.value).join() === states.join()) return;
    select.replaceChildren(make("option", { value: "" }, "all"), ...states.map((one) => make("option", { value: one }, one)));
    select.value = states.includes(chosen) ? chosen : "";
  }

  function drawHead() {
    const heads = COLUMNS.map((column) => {
      const button = make("button", { type: "button" }, column.name);
      const head = make("th", { scope: "col" }, button);
      if (column.number) head.classList.add("number");
      if (column.name === (sorted.name ?? "run")) head.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
      button.addEventListener("click", () => {
        sorted = { name: column.name, down: (sorted.name ?? "run") === column.name && !sorted.down };
        drawHead();
        draw();
        byId("runs").tHead.rows[0].cells[COLUMNS.indexOf(column)].firstChild.focus();
      });
      return head;
    });
    byId("runs").tHead.rows[0].replaceChildren(...heads);
  }

  function drawSweeps(sweeps) {
    byId("sweeps").hidden = !sweeps.length;
    const lines = sweeps.map((sweep) => {
      const button = make("button", { type: "button" }, sweep.name);
      button.addEventListener("click", () => { byId("filter").value = sweep.name; draw(); });
      const states = Object.entries(sweep.states).map(([state, number]) => `${count(number)} ${state}`).join(", ");
      return make("li", {}, button, ` ${count(sweep.cells)} cells: ${states || "none yet"}`, sweep.note ? `; ${sweep.note}` : "");
    });
    byId("sweep-list").replaceChildren(...lines);
  }

  const drawSoon = throttled(draw, 250);

  async function show() {
    const data = await load("data/runs.json");
    byId("folders").textContent = data.folders.join(", ");
    runs.clear();
    for (const run of data.runs) runs.set(run.id, run);
    drawHead();
    drawSweeps(data.sweeps);
    draw();
    return data.event;
  }

  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("filter").addEventListener("input", draw);
  byId("state").addEventListener("change", draw);
  show().then((after) => listen(after, "", {
    run: (run) => { runs.set(run.id, run); drawSoon(); },
    sweeps: (data) => drawSweeps(data.sweeps),
    reset: show,
  }));
}
