// A table of programs by managers, of one metric.
const ROWS_AT_ONCE = 100;
let matrixRows = ROWS_AT_ONCE;
let matrixSort = { column: -1, descending: false };

const drawMatrix = (metric, managers, lines) => {
  const ratio = showsRatios();
  const several = shownResults().length > 1;
  // First those that most lines have.
  const filled = new Map(managers.map((manager) => [manager, lines.filter((line) => hasCell(metric, line, manager)).length]));
  const columns = managers.filter((manager) => filled.get(manager)).sort((a, b) => filled.get(b) - filled.get(a) || a - b);
  const there = lines.filter((line) => columns.some((manager) => hasCell(metric, line, manager)));
  const sorted = sortedLines(metric, columns, there, ratio);
  const header = (title, column, extra = {}) => {
    const order = matrixSort.column === column ? (matrixSort.descending ? "descending" : "ascending") : null;
    return h("th", { scope: "col", "aria-sort": order, ...extra },
      h("button", { type: "button", title, "data-keep": `sort ${column}`, onclick: () => sortBy(column) }, shortName(title, 40)));
  };
  const body = sorted.slice(0, matrixRows).map((line) => h("tr", {},
    h("th", { scope: "row" }, h("button", { type: "button", class: "link", title: data.programs[line.program], onclick: () => openProgram(line.program) }, shortName(data.programs[line.program], 90))),
    several ? h("td", { class: "quiet" }, data.results[line.result].name) : null,
    columns.map((manager) => cellOf(metric, line, manager, ratio))));
  const mean = ratio && there.length > 1 ? meanRow(metric, columns, there, several) : null;
  const more = sorted.length - body.length;
  at("matrix").replaceChildren(
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": data.metrics[metric].title },
      h("table", {},
        h("thead", {}, h("tr", {}, header("program", -1), several ? h("th", { scope: "col" }, "results") : null,
          columns.map((manager) => header(data.managers[manager], manager, { class: "n" })))),
        h("tbody", {}, mean, body))),
    more > 0 ? h("button", { type: "button", class: "more", "data-keep": "more", onclick: () => { matrixRows += ROWS_AT_ONCE; render(); } },
      `Show ${Math.min(more, ROWS_AT_ONCE)} more of ${counted(more, "program")}`) : "",
    h("p", { class: "note" }, ratio
      ? "▼ and ▲: less and more than the baseline, beyond noise. ? : not known well enough. † : some runs gave no figure."
      : "Medians of the runs. † : some runs gave no figure."));
};
const hasCell = (metric, { result, program }, manager) => byMetric[metric].has(keyOf(result, program, manager));
const sortBy = (column) => {
  matrixSort = { column, descending: matrixSort.column === column && !matrixSort.descending };
  render();
};
const sortedLines = (metric, columns, lines, ratio) => {
  const { column, descending } = matrixSort;
  const sign = descending ? -1 : 1;
  if (!columns.includes(column)) {
    return [...lines].sort((a, b) => sign * data.programs[a.program].localeCompare(data.programs[b.program], undefined, { numeric: true }));
  }
  const values = new Map(lines.map((line) => [line, valueAt(metric, line, column, ratio)]));
  return [...lines].sort((a, b) => {
    const [one, other] = [values.get(a), values.get(b)];
    if (one === null || other === null) return (one === null) - (other === null);
    return sign * (one - other);
  });
};
const SIGNS = { lower: "▼", higher: "▲", baseline: "", "no difference seen": "" };
const cellOf = (metric, line, manager, ratio) => {
  const key = keyOf(line.result, line.program, manager);
  const row = byMetric[metric].get(key);
  if (row === undefined) return h("td", { class: "n quiet" }, "");
  const failed = failedRuns.get(key);
  const verdict = rows.verdict[row];
  const title = `${data.programs[line.program]} under ${data.managers[manager]}: ${rowText(row, metric)}${failed ? `; ${failed.join(", ")}` : ""}`;
  if (rows.median[row] === null) return h("td", { class: "n quiet", title }, failed ? failed.join(", ") : "no data");
  const text = ratio ? formatRatio(rows.ratio[row]) : formatValue(rows.median[row], data.metrics[metric].unit);
  const sign = ratio && rows.ratio[row] !== null ? SIGNS[verdict] ?? "?" : "";
  return h("td", { class: `n ${ratio ? toneOf(verdict) : ""}`, title },
    sign ? h("span", { class: "sign" }, sign) : null, text, failed ? "†" : "");
};
const toneOf = (verdict) => (verdict === "lower" || verdict === "higher" ? verdict : verdict === "baseline" ? "" : "quiet");
const rowText = (row, metric) => {
  const unit = data.metrics[metric].unit;
  const middle = `${formatValue(rows.median[row], unit)} (${formatValue(rows.low[row], unit)} to ${formatValue(rows.high[row], unit)})`;
  const ratio = rows.ratio[row] === null ? "" : `, ${formatRatio(rows.ratio[row])} (${formatRatio(rows.ratio_low[row])} to ${formatRatio(rows.ratio_high[row])})`;
  return `${middle}${ratio}, ${rows.verdict[row]}, ${counted(rows.runs[row], "run")}`;
};
const meanRow = (metric, columns, lines, several) => {
  const { count, means } = geometricMeans([metric], lines, columns);
  if (!count) return null;
  return h("tr", { class: "mean-row" }, h("th", { scope: "row" }, `geometric mean of ${counted(count, "program")}`), several ? h("td") : null,
    columns.map((manager) => h("td", { class: "n" }, formatRatio(means.get(manager)?.[0]))));
};
