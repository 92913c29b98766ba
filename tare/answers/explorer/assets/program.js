// One program: its managers, its runs and all of its figures.
const drawProgram = (metric, managers) => {
  const lines = linesOf(data.metrics.map((_, number) => number), managers);
  at("program").replaceChildren(...lines.flatMap((line) => [
    data.results.length > 1 ? h("h3", {}, data.results[line.result].name) : "",
    ...managersTable(metric, line, managers),
    ...runsFigure(metric, line, managers),
    figuresTable(line, managers),
  ]));
};
const interval = (low, high, name) => (low === null ? "–" : `${name(low)} to ${name(high)}`);
const managersTable = (metric, line, managers) => {
  const { title, unit } = data.metrics[metric];
  const shown = managers.filter((manager) => hasCell(metric, line, manager));
  if (!shown.length) return [h("p", { class: "note" }, `Nothing that is shown has a figure for ${title}.`)];
  const heads = ["manager", "median", "95% interval", "ratio", "95% interval", "verdict", "runs"];
  return [h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title }, h("table", { class: "managers" },
    h("thead", {}, h("tr", {}, heads.map((text, place) => h("th", { scope: "col", class: place && place !== 5 ? "n" : null }, text)))),
    h("tbody", {}, shown.map((manager) => {
      const key = keyOf(line.result, line.program, manager);
      const row = byMetric[metric].get(key);
      const failed = failedRuns.get(key);
      const value = (number) => formatValue(number, unit);
      return h("tr", {},
        h("th", { scope: "row" }, symbol(manager), data.managers[manager]),
        h("td", { class: "n" }, value(rows.median[row])),
        h("td", { class: "n quiet" }, interval(rows.low[row], rows.high[row], value)),
        h("td", { class: "n" }, formatRatio(rows.ratio[row])),
        h("td", { class: "n quiet" }, interval(rows.ratio_low[row], rows.ratio_high[row], formatRatio)),
        h("td", { class: toneOf(rows.verdict[row]) }, [rows.verdict[row], ...(failed ?? [])].join("; ")),
        h("td", { class: "n" }, String(rows.runs[row])));
    }))))];
};
const RUN_HEIGHT = 26;
const runsFigure = (metric, line, managers) => {
  const shown = managers.map((manager) => ({ manager, row: byMetric[metric].get(keyOf(line.result, line.program, manager)) }))
    .filter(({ row }) => row !== undefined && rows.values?.[row].length > 1);
  if (!shown.length) return [];
  const width = Math.max(300, at("program").clientWidth);
  const left = Math.min(230, width * 0.42);
  const height = RUN_HEIGHT * shown.length + 34;
  const { title, unit } = data.metrics[metric];
  const scale = scaleOf(shown.flatMap(({ row }) => rows.values[row]), left, width - 12, unit, false);
  const runs = ({ manager, row }, number) => {
    const y = (number + 0.5) * RUN_HEIGHT + 4;
    const median = scale.place(rows.median[row]);
    return [
      s("line", { class: "grid", x1: left, x2: width - 12, y1: y, y2: y }),
      s("text", { x: left - 10, y: y + 4, "text-anchor": "end" }, shortName(data.managers[manager], Math.floor(left / 7.4))),
      s("path", { class: "run", fill: colourOf(manager), d: rows.values[row].map((value) => shapeOf(manager)(scale.place(value), y, 3.6)).join("") }),
      s("line", { class: "median", x1: median, x2: median, y1: y - 10, y2: y + 10 }),
    ];
  };
  const end = height - 26;
  return [h("figure", { class: "full" }, h("h4", {}, `${capitalised(title)} of every run`),
    s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `${title} of every run, by manager; the table above has their medians` },
      ...scale.ticks.flatMap((tick) => [
        s("line", { class: "grid", x1: scale.place(tick), x2: scale.place(tick), y1: 4, y2: end }),
        s("text", { x: scale.place(tick), y: end + 18, "text-anchor": "middle" }, scale.name(tick)),
      ]), ...shown.flatMap(runs)),
    h("figcaption", {}, "Each mark is a run; the long stroke is the median."))];
};
const figuresTable = (line, managers) => {
  const metrics = [...data.metrics.keys()].filter((metric) => managers.some((manager) => hasCell(metric, line, manager)));
  const shown = managers.filter((manager) => metrics.some((metric) => hasCell(metric, line, manager)));
  return h("details", {}, h("summary", {}, `${counted(metrics.length, "figure")} in all`),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "All figures" }, h("table", {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "figure"), shown.map((manager) => h("th", { scope: "col", class: "n" }, shortName(data.managers[manager], 40))))),
      h("tbody", {}, metrics.map((metric) => h("tr", {},
        h("th", { scope: "row", title: data.metrics[metric].explanation }, data.metrics[metric].title),
        shown.map((manager) => cellOf(metric, line, manager, false))))))));
};
