// The page: reads the address, shows what it asks for, and writes back what the reader changes.
const change = (changes, isStep = false) => {
  Object.assign(asked, changes);
  if (isStep) {
    location.hash = address();
    return;
  }
  history.replaceState(null, "", address());
  render();
};
const openProgram = (program) => change({ program: data.programs[program], tree: "", weight: "" }, true);

const option = (value, text, chosen) => h("option", { value, selected: value === chosen }, text);
const metricOptions = (select, chosen, metrics) => {
  select.replaceChildren(...metrics.map((metric) => option(data.metrics[metric].name, metricTitle(metric), data.metrics[chosen].name)));
};
const metricTitle = (metric) => {
  const { title, name } = data.metrics[metric];
  const unique = data.metrics.filter((other) => other.title === title).length === 1;
  return unique ? title : `${title} (${name})`;
};
const drawLegend = (there) => {
  at("managers").replaceChildren(...there.map((manager) => {
    const name = data.managers[manager];
    const isShown = !asked.without.includes(name);
    return h("button", {
      type: "button", class: "chip", "aria-pressed": String(isShown), title: name, "data-keep": `manager ${manager}`,
      onclick: () => change({ without: isShown ? [...asked.without, name] : asked.without.filter((other) => other !== name) }),
    }, symbol(manager), shortName(name, 48));
  }));
};

const render = () => {
  const focused = document.activeElement?.dataset?.keep ?? "";
  const isFound = matching(asked.of);
  const allManagers = present(rows.manager);
  const foundManagers = allManagers.filter((manager) => isFound(data.managers[manager]));
  const managers = foundManagers.filter((manager) => !asked.without.includes(data.managers[manager]));
  const { there, metric, x, y } = chosenMetrics();
  for (const [identifier, chosen] of Object.entries({ metric, x, y })) metricOptions(at(identifier), chosen, there);
  at("result").value = asked.result;
  for (const name of ["find", "of"]) if (at(name).value !== asked[name]) at(name).value = asked[name];
  for (const button of document.getElementsByName("show")) button.checked = (button.value === "values") === !showsRatios();
  drawLegend(foundManagers);
  const lines = linesOf([metric, x, y], managers);
  const isProgram = asked.program !== "";
  document.body.classList.toggle("of-program", isProgram);
  at("way").replaceChildren(...(isProgram ? [
    h("button", { type: "button", class: "link", onclick: () => change({ program: "", tree: "", weight: "" }, true) }, "All programs"),
    " › ", h("span", { "aria-current": "page" }, asked.program)] : []));
  at("plane-part").hidden = there.length < 2 || (isProgram && allManagers.length < 2);
  at("plane-title").textContent = `${capitalised(data.metrics[y].title)} against ${data.metrics[x].title}${isProgram ? `: ${asked.program}` : ""}`;
  at("metric-title").textContent = `${capitalised(metricTitle(metric))} ${isProgram ? "by manager" : "by program and manager"}`;
  at("metric-obtained").textContent = obtainedOf(metric);
  at("metric-obtained").className = `obtained ${obtainedOf(metric)}`;
  at("plane-obtained").textContent = [...new Set([x, y].map(obtainedOf))].join(" and ");
  at("metric-meaning").textContent = data.metrics[metric].explanation;
  drawPlane(x, y, managers, lines);
  at("matrix").hidden = isProgram;
  at("program").hidden = !isProgram;
  if (isProgram) drawProgram(metric, managers);
  else drawMatrix(metric, managers, lines);
  drawTrees(managers);
  const ofPrograms = `${new Set(lines.map((line) => line.program)).size} of ${counted(data.programs.length, "program")}, `;
  at("status").textContent = `Shows ${isProgram ? "" : ofPrograms}${managers.length} of ${counted(allManagers.length, "manager")}`;
  if (focused) document.querySelector(`[data-keep="${focused}"]`)?.focus();
};
const drawHead = () => {
  const { results, programs, managers, measurements, cuts, troubles } = data;
  at("title").textContent = data.folder;
  at("subtitle").textContent = [
    ...(results.length > 1 ? [counted(results.length, "results folder")] : []), counted(programs.length, "program"), counted(managers.length, "manager"), counted(measurements, "measurement"),
    ...new Set(results.map((result) => result.hardware)),
  ].slice(0, 5).join(" · ");
  at("result").replaceChildren(option("", `all ${results.length}`, ""), ...results.map((result) => option(result.name, result.name, "")));
  at("result-field").hidden = results.length < 2;
  const remarks = [...troubles, ...(cuts.length ? [`Too much for one page. Left out: ${cuts.join("; ")}. The data files have all.`] : []),
    ...(new Set(results.map((result) => result.hardware)).size > 1 ? ["The results are of different machines: compare ratios, not values."] : [])];
  at("remarks").hidden = !remarks.length;
  at("remarks").replaceChildren(h("ul", {}, remarks.map((text) => h("li", {}, text))));
  at("results").replaceChildren(...results.map((result) => h("tr", {},
    h("th", { scope: "row" }, result.page ? h("a", { href: encodeURI(result.page) }, result.name) : result.name),
    h("td", {}, result.study), h("td", {}, `${result.started} UTC${result.finished ? "" : ", not finished"}`),
    h("td", {}, result.baseline), h("td", {}, result.hardware))));
  at("made").textContent = `Made by Tare ${data.tare} from the measurements beside it.`;
};

let pending = 0;
const later = (work) => {
  cancelAnimationFrame(pending);
  pending = requestAnimationFrame(work);
};
for (const name of ["find", "of"]) at(name).addEventListener("input", (event) => {
  matrixRows = ROWS_AT_ONCE;
  asked[name] = event.target.value;
  later(() => change({}));
});
for (const name of ["result", "metric", "x", "y"]) at(name).addEventListener("change", (event) => change({ [name]: event.target.value }));
for (const button of document.getElementsByName("show")) button.addEventListener("change", () => change({ show: button.value === "values" ? "values" : "" }));
at("tree-choice").addEventListener("change", (event) => change({ tree: event.target.value, weight: "" }));
at("weight-choice").addEventListener("change", (event) => change({ weight: event.target.value }));
at("tree-find").addEventListener("input", (event) => {
  shownTree.found = event.target.value.trim().toLowerCase();
  later(drawTree);
});
at("whole").addEventListener("click", () => enlarge(0));
at("every").addEventListener("click", () => change({ without: [] }));
at("none").addEventListener("click", () => change({ without: [...data.managers] }));
at("reset").addEventListener("click", () => {
  at("tree-find").value = shownTree.found = "";
  change({ result: "", metric: "", find: "", of: "", without: [], show: "", x: "", y: "" });
});
addEventListener("hashchange", () => {
  readAddress();
  matrixRows = ROWS_AT_ONCE;
  render();
  scrollTo(0, 0);
  at("way").querySelector("button")?.focus({ preventScroll: true });
});
addEventListener("resize", () => later(render));
addEventListener("scroll", () => showTip(""), { passive: true });

readAddress();
drawHead();
render();
