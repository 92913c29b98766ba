// The served page: asks its server for what the address asks for, and shows that.
const data = JSON.parse(at("data").textContent);
const TIMES = ["wall_seconds", "iteration_seconds", "work_wall_seconds", "mutator_seconds", "instructions", "simulated_cycles"];
const SPACES = ["peak_resident_bytes", "resident_bytes", "peak_reserved_bytes", "min_heap_high_bytes", "max_live_bytes", "peak_free_bytes"];
const PORTION = 100;
const FOLDERS_PORTION = 20;
const CHOICES = ["study", "metric", "machine", "programs", "managers", "program", "show", "against"];
const asked = Object.fromEntries(CHOICES.map((name) => [name, ""]));
const readAddress = () => {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const name of CHOICES) asked[name] = given.get(name) ?? "";
};
const address = () => `#${new URLSearchParams(Object.entries(asked).filter(([, value]) => value))}`;
const change = (changes, isStep = false) => {
  Object.assign(asked, changes);
  Object.assign(shown, { rows: PORTION, folders: FOLDERS_PORTION });
  if (isStep) { location.hash = address(); return; }
  history.replaceState(null, "", address());
  render();
};
const openProgram = (program) => change({ program }, true);
const showsRatios = () => asked.show !== "values";
const shown = { rows: PORTION, folders: FOLDERS_PORTION, sort: "", descending: false, turn: 0 };

// What was asked for, or else the first of the usual ones that is there.
const choose = () => {
  const study = data.studies.find(({ name }) => name === asked.study) ?? data.studies[0];
  const there = study.metrics.map(({ name }) => name);
  const one = (name, usual, other) => (there.includes(name) ? name : usual.find((each) => there.includes(each)) ?? there[Math.min(other, there.length - 1)]);
  return { study, there, metric: one(asked.metric, TIMES, 0), against: one(asked.against, SPACES, 1) };
};
const fetched = async (what, query) => {
  const response = await fetch(`${what}?${new URLSearchParams(query)}`);
  if (!response.ok) throw new Error(await response.text());
  return (await response.json());
};
// Rows by columns as objects.
const rowsOf = ({ columns, rows }) => Array.from({ length: rows }, (_, row) =>
  Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, values[row]])));

const render = async () => {
  const turn = ++shown.turn;
  const { study, there, metric, against } = choose();
  const isProgram = asked.program !== "";
  drawChoices(study, there, metric, against);
  document.body.classList.toggle("of-program", isProgram);
  at("way").replaceChildren(...(isProgram ? [h("button", { type: "button", class: "link", onclick: () => change({ program: "" }, true) }, "All programs"),
    " › ", h("span", { "aria-current": "page" }, asked.program)] : []));
  const query = { study: study.name, metric, machine: asked.machine, managers: asked.managers, ...(isProgram ? { program: asked.program } : { programs: asked.programs }) };
  document.querySelector("main").classList.add("waiting");
  try {
    const [table, other] = await Promise.all([fetched("overview", query), isProgram ? fetched("folders", query) : fetched("overview", { ...query, metric: against })]);
    if (turn !== shown.turn) return;
    shown.view = { metric, against, study, table, other, cells: rowsOf(table), others: rowsOf(other) };
    draw();
  } catch (error) {
    if (turn === shown.turn) at("status").textContent = error instanceof TypeError ? "The server has ended. Start tare explore again." : error.message;
  }
  if (turn === shown.turn) document.querySelector("main").classList.remove("waiting");
};
const option = (value, text, chosen) => h("option", { value, selected: value === chosen }, text);
const titleOf = (metric) => {
  const { title } = data.metrics[metric];
  return Object.values(data.metrics).filter((other) => other.title === title).length > 1 ? `${title} (${metric})` : title;
};
const drawChoices = (study, there, metric, against) => {
  at("study").replaceChildren(...data.studies.map(({ name, runs }) => option(name, `${name} (${inUnits(runs, 1000, COUNT_UNITS)})`, study.name)));
  at("metric").replaceChildren(...there.map((name) => option(name, titleOf(name), metric)));
  at("against").replaceChildren(...there.map((name) => option(name, titleOf(name), against)));
  at("machine").replaceChildren(option("", `all ${data.machines.length}`, asked.machine), ...data.machines.map(([name, folders]) => option(name, `${name} (${folders.toLocaleString("en")})`, asked.machine)));
  for (const [identifier, name] of [["programs", "programs"], ["managers-find", "managers"]]) if (at(identifier).value !== asked[name]) at(identifier).value = asked[name];
  for (const button of document.getElementsByName("show")) button.checked = (button.value === "values") === !showsRatios();
};

const valueOf = (cell) => (showsRatios() ? cell.ratio : cell.median);
const valueText = (value, metric) => (showsRatios() ? formatRatio(value) : formatValue(value, data.metrics[metric].unit));
const rangeOf = (cell) => (showsRatios() ? [cell.ratio_low, cell.ratio_high] : [cell.low, cell.high]);
const rangeText = (cell, metric) => {
  const [low, high] = rangeOf(cell);
  if (low === null || high === null || valueOf(cell) === null) return "";
  const name = (value) => valueText(value, metric).replace("×", "");
  return low === high ? "" : `${name(low)} to ${name(high)}`;
};
const cellTitle = (cell, metric) => {
  const { unit } = data.metrics[metric];
  const value = (number) => formatValue(number, unit);
  return `${cell.program} under ${cell.manager}: ${value(cell.median)} (${value(cell.low)} to ${value(cell.high)})${cell.ratio === null ? "" : `, ${formatRatio(cell.ratio)}`}; ${counted(cell.folders, "results folder")}, ${counted(cell.runs, "run")}${cell.failed ? `, ${cell.failed.toLocaleString("en")} without a figure` : ""}`;
};
const draw = () => {
  const { metric, table, cells, study } = shown.view;
  const managers = managersOf(cells);
  const { title, explanation } = data.metrics[metric];
  const isProgram = asked.program !== "";
  at("matrix-title").textContent = `${capitalised(title)} by ${isProgram ? "manager" : "program and manager"}`;
  at("meaning").textContent = explanation;
  const { obtained } = study.metrics.find(({ name }) => name === metric);
  at("obtained").textContent = obtained;
  at("obtained").className = `obtained ${obtained}`;
  at("folders-part").hidden = !isProgram;
  const runs = cells.reduce((sum, cell) => sum + cell.runs, 0);
  at("status").textContent = `Shows ${counted(new Set(cells.map(({ program }) => program)).size, "program")}, ${counted(managers.length, "manager")}, ${counted(runs, "run")}${table.of > table.rows ? `. Of ${table.of.toLocaleString("en")} cells only the first ${table.rows.toLocaleString("en")}: name programs` : ""}`;
  at("matrix-note").textContent = `${showsRatios() ? "Medians relative to the baseline's in the same results folder." : "Medians."} Each results folder counts once. ${isProgram ? "The intervals are" : "Below: 95% interval"} of the median over the folders; of fewer than six, all that they span.${isProgram ? "" : " † : some runs gave no figure."}${!showsRatios() && !asked.machine && data.machines.length > 1 ? " The results are of different machines: choose one, or compare ratios." : ""}`;
  if (isProgram) drawManagers(metric, cells, managers);
  else drawMatrix(metric, cells, managers);
  if (isProgram) drawTrend(metric, managers);
  else drawPlane(managers);
};
const managersOf = (cells) => [...new Set(cells.map(({ manager }) => manager))];
const header = (title, key, isNumber) => h("th", { scope: "col", class: isNumber ? "n" : null, "aria-sort": shown.sort === key ? (shown.descending ? "descending" : "ascending") : null },
  h("button", { type: "button", "data-keep": key, onclick: () => {
    Object.assign(shown, { descending: shown.sort === key && !shown.descending, sort: key });
    draw();
    [...document.querySelectorAll("[data-keep]")].find((button) => button.dataset.keep === key)?.focus();
  } }, shortName(title, 40)));
const byValue = (lines, value) => [...lines].sort((a, b) => {
  const [one, other] = [value(a), value(b)];
  if (one === null || other === null || one === undefined || other === undefined) return (one ?? null) === null ? ((other ?? null) === null ? 0 : 1) : -1;
  return (typeof one === "number" ? one - other : one.localeCompare(other, "en", { numeric: true })) * (shown.descending ? -1 : 1);
});
const moreButton = (left, what) => (left > 0 ? h("button", { type: "button", class: "more", onclick: () => { shown.rows += PORTION; shown.folders += PORTION; draw(); } }, `Show ${Math.min(left, PORTION)} more of ${counted(left, what)}`) : "");
const scrolling = (label, table) => h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, table);

const drawMatrix = (metric, cells, managers) => {
  const lines = new Map();
  for (const cell of cells) {
    if (!lines.has(cell.program)) lines.set(cell.program, { program: cell.program, folders: 0, runs: 0, of: new Map() });
    const line = lines.get(cell.program);
    line.of.set(cell.manager, cell);
    line.folders = Math.max(line.folders, cell.folders);
    line.runs += cell.runs;
  }
  const key = (line) => (shown.sort === "program" || !shown.sort ? line.program : shown.sort in line ? line[shown.sort] : line.of.get(shown.sort.slice(1)) && valueOf(line.of.get(shown.sort.slice(1))));
  const sorted = byValue([...lines.values()], key);
  if (!sorted.length) { at("matrix").replaceChildren(h("p", { class: "note" }, "Nothing has these names.")); return; }
  at("matrix").replaceChildren(scrolling(data.metrics[metric].title, h("table", {},
    h("thead", {}, h("tr", {}, header("program", "program"), header("folders", "folders", true), header("runs", "runs", true), managers.map((manager) => header(manager, `=${manager}`, true)))),
    h("tbody", {}, sorted.slice(0, shown.rows).map((line) => h("tr", {},
      h("th", { scope: "row" }, h("button", { type: "button", class: "link", title: line.program, onclick: () => openProgram(line.program) }, shortName(line.program, 90))),
      h("td", { class: "n quiet" }, line.folders.toLocaleString("en")), h("td", { class: "n quiet" }, line.runs.toLocaleString("en")),
      managers.map((manager) => matrixCell(line.of.get(manager), metric))))))),
  moreButton(sorted.length - shown.rows, "program"));
};
const matrixCell = (cell, metric) => {
  if (!cell) return h("td");
  const value = valueOf(cell);
  return h("td", { class: "n", title: cellTitle(cell, metric) }, value === null ? (cell.runs ? "–" : "no figure") : valueText(value, metric), cell.failed ? "†" : "",
    h("span", { class: "range" }, rangeText(cell, metric)));
};
const drawManagers = (metric, cells, managers) => {
  const unit = data.metrics[metric].unit;
  const value = (number) => formatValue(number, unit);
  const interval = (low, high, name) => (low === null ? "–" : `${name(low)} to ${name(high)}`);
  const columns = [["manager", "manager"], ["median", "median"], ["95% interval", "low"], ["ratio", "ratio"], ["95% interval", "ratio_low"], ["folders", "folders"], ["runs", "runs"], ["no figure", "failed"]];
  const sorted = shown.sort in (cells[0] ?? {}) ? byValue(cells, (cell) => cell[shown.sort]) : cells;
  at("matrix").replaceChildren(scrolling(data.metrics[metric].title, h("table", { class: "managers" },
    h("thead", {}, h("tr", {}, columns.map(([title, key], place) => header(title, key, place > 0)))),
    h("tbody", {}, sorted.map((cell) => h("tr", {}, h("th", { scope: "row" }, symbol(managers.indexOf(cell.manager)), cell.manager),
      h("td", { class: "n" }, value(cell.median)), h("td", { class: "n quiet" }, interval(cell.low, cell.high, value)),
      h("td", { class: "n" }, formatRatio(cell.ratio)), h("td", { class: "n quiet" }, interval(cell.ratio_low, cell.ratio_high, formatRatio)),
      ...["folders", "runs", "failed"].map((name) => h("td", { class: "n" }, cell[name].toLocaleString("en")))))))));
};
const axisOf = (metric) => ({ title: data.metrics[metric].title + (showsRatios() ? ", relative to the baseline" : ""), unit: data.metrics[metric].unit, ratio: showsRatios() });
const drawFigure = (points, title, note, axes) => {
  at("figure-title").textContent = title;
  at("figure-note").textContent = note;
  if (points.length) scatter(at("figure"), points, axes);
  else at("figure").replaceChildren(h("p", { class: "note" }, "Nothing that is shown has these figures."));
};
const drawPlane = (managers) => {
  const { metric, against, cells, others } = shown.view;
  const keyOf = ({ program, manager }) => JSON.stringify([program, manager]);
  const upwards = new Map(others.map((cell) => [keyOf(cell), cell]));
  const points = cells.map((cell) => [cell, upwards.get(keyOf(cell))])
    .filter(([cell, other]) => other && valueOf(cell) !== null && valueOf(other) !== null)
    .map(([cell, other]) => ({
      values: [valueOf(cell), valueOf(other)], series: managers.indexOf(cell.manager), program: cell.program, label: cell.manager,
      text: () => `${cell.program} under ${cell.manager}: ${data.metrics[metric].title} ${valueText(valueOf(cell), metric)}, ${data.metrics[against].title} ${valueText(valueOf(other), against)}`,
    }));
  drawKey(at("key"), managers.map((name, number) => [number, name]));
  drawFigure(points, `${capitalised(data.metrics[against].title)} against ${data.metrics[metric].title}`,
    "A mark is a program under a manager. Towards the lower left is better. Choose a mark to open its program.",
    { across: axisOf(metric), upwards: axisOf(against), label: "Arrow keys go from mark to mark, Enter opens a program.", open: ({ program }) => openProgram(program) });
};
const reportOf = (folder) => { location.href = `report/${encodeURIComponent(folder)}`; };
const drawTrend = (metric, managers) => {
  const { other, others } = shown.view;
  const points = others.filter((row) => row.started !== null && valueOf(row) !== null).map((row) => ({
    values: [Date.parse(`${row.started.replace(" ", "T")}Z`), valueOf(row)], series: managers.indexOf(row.manager), folder: row.folder, label: row.manager,
    text: () => `${row.started} UTC, ${row.manager}: ${valueText(valueOf(row), metric)}, ${counted(row.runs, "run")}, ${row.folder}`,
  }));
  drawKey(at("key"), managers.map((name, number) => [number, name]));
  drawFigure(points, `${capitalised(data.metrics[metric].title)} by date`,
    `A mark is the median of a results folder${other.of > other.rows ? `, the newest ${other.rows.toLocaleString("en")} of ${other.of.toLocaleString("en")} marks` : ""}. Choose a mark to open its report.`,
    { across: { title: "when it was measured", time: true }, upwards: axisOf(metric), label: "Arrow keys go from mark to mark, Enter opens a report.", open: ({ folder }) => reportOf(folder) });
  drawFolders(metric, managers, others);
};
const drawFolders = (metric, managers, rows) => {
  const lines = new Map();
  for (const row of rows) {
    if (!lines.has(row.folder)) lines.set(row.folder, { ...row, of: new Map() });
    lines.get(row.folder).of.set(row.manager, row);
  }
  const newest = [...lines.values()];
  at("folders-title").textContent = "Results folders";
  at("folders").replaceChildren(scrolling("Results folders", h("table", {},
    h("thead", {}, h("tr", {}, ["results", "measured (UTC)", "machine"].map((title) => h("th", { scope: "col" }, title)), managers.map((manager) => h("th", { scope: "col", class: "n" }, shortName(manager, 40))))),
    h("tbody", {}, newest.slice(0, shown.folders).map((line) => h("tr", {}, h("th", { scope: "row" }, reportLink(line.folder)), h("td", {}, (line.started ?? "").slice(0, 16)), h("td", { class: "quiet" }, line.machine),
      managers.map((manager) => {
        const row = line.of.get(manager);
        const value = row && valueOf(row);
        return h("td", { class: "n" }, value === undefined || value === null ? "–" : valueText(value, metric), row?.failed ? "†" : "");
      })))))), moreButton(newest.length - shown.folders, "folder"));
};

const drawHead = () => {
  at("title").textContent = data.folder;
  at("subtitle").textContent = [counted(data.folders, "results folder"), counted(data.programs, "program"), counted(data.managers, "manager"), counted(data.measurements, "measurement")].join(" · ");
  at("remarks").hidden = !data.troubles.length;
  at("remarks").replaceChildren(h("ul", {}, data.troubles.map((text) => h("li", {}, `Left out: ${text}`))));
  at("example").replaceChildren(...EXAMPLES.map(([title], number) => option(number, title, 0)));
  at("made").textContent = `Served by Tare ${data.tare} on this machine. Measurements that come while it runs show once it is started again.`;
};
const fillExample = () => {
  const { study, metric } = choose();
  const literal = (text) => `'${text.replaceAll("'", "''")}'`;
  at("sql").value = EXAMPLES[at("example").value][1].replaceAll("$study", () => literal(study.name)).replaceAll("$metric", () => literal(metric));
};
let pending = 0;
const later = (work, wait) => {
  clearTimeout(pending);
  pending = setTimeout(work, wait);
};
for (const name of ["study", "metric", "machine", "against"]) at(name).addEventListener("change", (event) => change({ [name]: event.target.value }));
for (const [identifier, name] of [["programs", "programs"], ["managers-find", "managers"]]) at(identifier).addEventListener("input", (event) => {
  asked[name] = event.target.value;
  later(() => change({}), 200);
});
for (const button of document.getElementsByName("show")) button.addEventListener("change", () => change({ show: button.value === "values" ? "values" : "" }));
at("reset").addEventListener("click", () => change(Object.fromEntries(CHOICES.filter((name) => name !== "program").map((name) => [name, ""]))));
at("as-sql").addEventListener("click", () => {
  at("sql").value = shown.view?.table.sql ?? "";
  at("sql").focus();
  at("query-part").scrollIntoView();
});
at("example").addEventListener("change", fillExample);
at("query").addEventListener("submit", (event) => { event.preventDefault(); run(); });
at("sql").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run(); } });
at("download").addEventListener("click", download);
for (const name of ["draw-x", "draw-y", "draw-by"]) at(name).addEventListener("change", drawPoints);
addEventListener("hashchange", () => {
  readAddress();
  Object.assign(shown, { rows: PORTION, folders: FOLDERS_PORTION });
  render();
  scrollTo(0, 0);
});
addEventListener("resize", () => later(() => { if (shown.view) draw(); if (answer && !at("draw-part").hidden) drawPoints(); }, 100));
addEventListener("scroll", () => showTip(""), { passive: true });

readAddress();
drawHead();
fillExample();
render();
