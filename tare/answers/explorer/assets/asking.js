// The query box: a query, its answer as a table that sorts, as CSV and as a figure.
const reportLink = (folder) => h("a", { href: `report/${encodeURIComponent(folder)}` }, folder);
const EXAMPLES = [
  ["Runs, median and interval of each manager", `SELECT manager, count(value) AS runs, median(value) AS median, low95(value) AS low, high95(value) AS high
FROM measurements
WHERE study = $study AND metric = $metric
GROUP BY manager ORDER BY median`],
  ["Best manager of each program", `SELECT program, arg_min(manager, ratio) AS best, min(ratio) AS ratio
FROM (SELECT program, manager, median(ratio) AS ratio FROM medians
      WHERE study = $study AND metric = $metric GROUP BY ALL)
GROUP BY program ORDER BY ratio`],
  ["A figure over the months", `SELECT date_trunc('month', started) AS month, manager, median(ratio) AS ratio, count(*) AS medians
FROM medians JOIN folders USING (folder)
WHERE study = $study AND metric = $metric
GROUP BY ALL ORDER BY ALL`],
  ["Results with the widest intervals", `SELECT folder, program, manager, (high - low) / median AS width, runs
FROM medians
WHERE study = $study AND metric = $metric AND median > 0
ORDER BY width DESC LIMIT 100`],
  ["Runs that gave no figure", `SELECT status, program, manager, count(*) AS runs, count(DISTINCT folder) AS folders
FROM measurements WHERE status <> 'ok'
GROUP BY ALL ORDER BY runs DESC`],
];
let answer = null;
let answerSort = { column: -1, descending: false };

const post = async (form) => {
  const response = await fetch(`query.${form}`, { method: "POST", body: at("sql").value });
  if (!response.ok) throw new Error(await response.text());
  return response;
};
const asking = async (button, work) => {
  for (const one of document.querySelectorAll(".act")) one.disabled = true;
  at("trouble").hidden = true;
  at("said").textContent = "asking …";
  try {
    at("said").textContent = await work();
  } catch (error) {
    at("said").textContent = "";
    at("trouble").textContent = error instanceof TypeError ? "The server has ended. Start tare explore again." : error.message;
    at("trouble").hidden = false;
  }
  for (const one of document.querySelectorAll(".act")) one.disabled = false;
  button.focus({ preventScroll: true });
};
const run = () => asking(document.activeElement === at("sql") ? at("sql") : at("run"), async () => {
  answer = await (await post("json")).json();
  answerSort = { column: -1, descending: false };
  drawAnswer();
  offerDrawing();
  const rows = counted(answer.rows.length, "row");
  return `${answer.cut ? `The first ${rows}; the CSV has all` : rows}, in ${formatSeconds(answer.seconds)}`;
});
const download = () => asking(at("download"), async () => {
  const blob = await (await post("csv")).blob();
  const link = h("a", { href: URL.createObjectURL(blob), download: "tare.csv" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  return `${formatValue(blob.size, "B")} of CSV`;
});

const columnOf = (column) => answer.rows.map((row) => row[column]);
const isNumeric = (values) => values.some((value) => typeof value === "number") && values.every((value) => value === null || typeof value === "number");
const isTime = (values) => values.some(Boolean) && values.every((value) => value === null || /^\d{4}-\d\d-\d\d/.test(value));
const cellText = (value) => {
  if (value === null) return "";
  if (typeof value !== "number") return String(value);
  return Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toPrecision(6)));
};
const sortedRows = () => {
  const { column, descending } = answerSort;
  if (column < 0) return answer.rows;
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
  return [...answer.rows].sort(({ [column]: a }, { [column]: b }) =>
    (a === null || b === null ? (a === null) - (b === null) : compare(a, b) * (descending ? -1 : 1)));
};
const drawAnswer = () => {
  const { columns } = answer;
  const kinds = columns.map((_, column) => (isNumeric(columnOf(column)) ? "n" : null));
  const order = (column) => (answerSort.column === column ? (answerSort.descending ? "descending" : "ascending") : null);
  const sort = (column) => {
    answerSort = { column, descending: answerSort.column === column && !answerSort.descending };
    drawAnswer();
    at("answer").querySelectorAll("thead button")[column].focus();
  };
  at("answer").replaceChildren(
    h("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": "The answer" }, h("table", {},
      h("thead", {}, h("tr", {}, columns.map((name, column) =>
        h("th", { scope: "col", class: kinds[column], "aria-sort": order(column) }, h("button", { type: "button", onclick: () => sort(column) }, name))))),
      h("tbody", {}, sortedRows().map((row) => h("tr", {}, row.map((value, column) =>
        h("td", { class: kinds[column], title: typeof value === "number" ? String(value) : null },
          columns[column] === "folder" && value ? reportLink(value) : cellText(value)))))))));
};

// What can be drawn: numbers and dates over one another, coloured by a column of few texts.
const MOST_COLOURS = 40;
const offerDrawing = () => {
  const columns = answer.columns.map((name, column) => ({ name, column, values: columnOf(column) }));
  const numbers = columns.filter(({ values }) => isNumeric(values));
  const places = [...columns.filter(({ values }) => isTime(values)), ...numbers];
  const texts = columns.filter(({ values }) => !isNumeric(values) && new Set(values).size <= MOST_COLOURS);
  at("draw-part").hidden = !numbers.length || places.length < 2;
  if (at("draw-part").hidden) return;
  const options = (select, list, chosen) => select.replaceChildren(...list.map(({ name, column }) => h("option", { value: column, selected: column === chosen }, name)));
  options(at("draw-x"), places, places[0].column);
  options(at("draw-y"), numbers, (numbers.find(({ column }) => column !== places[0].column) ?? numbers[0]).column);
  options(at("draw-by"), [{ name: "one for all", column: -1 }, ...texts], (texts.find(({ name }) => name === "manager") ?? texts[0])?.column ?? -1);
  drawPoints();
};
const drawPoints = () => {
  const [x, y, by] = ["draw-x", "draw-y", "draw-by"].map((name) => Number(at(name).value));
  const time = isTime(columnOf(x));
  const series = by < 0 ? [""] : [...new Set(columnOf(by).map((value) => String(value ?? "")))].sort();
  const points = answer.rows.filter((row) => row[x] !== null && row[y] !== null).map((row) => ({
    values: [time ? Date.parse(`${row[x].replace(" ", "T")}Z`) || Date.parse(row[x]) : row[x], row[y]],
    series: by < 0 ? 0 : series.indexOf(String(row[by] ?? "")),
    label: by < 0 ? "" : String(row[by] ?? ""),
    text: () => answer.columns.map((name, column) => `${name} ${cellText(row[column])}`).join(", "),
  }));
  drawKey(at("draw-key"), by < 0 ? [] : series.map((name, number) => [number, name]));
  const ratio = (column) => answer.columns[column].includes("ratio");
  scatter(at("drawing"), points, {
    across: { title: answer.columns[x], time, ratio: ratio(x) }, upwards: { title: answer.columns[y], ratio: ratio(y) },
    label: "Arrow keys go from mark to mark.",
  });
};
const drawKey = (list, entries) => {
  list.hidden = !entries.length;
  list.replaceChildren(...entries.map(([number, name]) => h("li", {}, symbol(number), shortName(name, 60))));
};
