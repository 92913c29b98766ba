// What was measured, ready to look things up in.
const data = JSON.parse(at("data").textContent);
const rows = data.rows;
const keyOf = (result, program, manager) =>
  (result * data.programs.length + program) * data.managers.length + manager;
const byMetric = data.metrics.map(() => new Map());
rows.metric.forEach((metric, row) =>
  byMetric[metric].set(keyOf(rows.result[row], rows.program[row], rows.manager[row]), row));
const failedRuns = new Map();
for (const [result, program, manager, status, count] of data.failures) {
  const key = keyOf(result, program, manager);
  failedRuns.set(key, [...(failedRuns.get(key) ?? []), `${count} ${status}`]);
}
const baselineOf = data.results.map((result) => data.managers.indexOf(result.baseline));
const metricCalled = (name) => data.metrics.findIndex((metric) => metric.name === name);
const TIMES = ["wall_seconds", "iteration_seconds", "work_wall_seconds", "mutator_seconds", "instructions", "simulated_cycles"];
const SPACES = ["peak_resident_bytes", "resident_bytes", "peak_reserved_bytes", "min_heap_high_bytes", "max_live_bytes", "peak_free_bytes"];

// The question that the page shows the answer to. It is in the address, so that a view can be kept,
// sent, and left with the button Back.
const asked = {
  result: "", metric: "", find: "", of: "", without: [], show: "", x: "", y: "", program: "", tree: "", weight: "",
};
const readAddress = () => {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const name of Object.keys(asked)) {
    asked[name] = name === "without" ? given.getAll(name) : given.get(name) ?? "";
  }
};
const address = () => {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(asked)) {
    for (const one of [value].flat()) if (one !== "") given.append(name, one);
  }
  return `#${given}`;
};

// The metrics and managers of what is shown, whatever managers are left out.
const present = (column) => {
  const results = new Set(shownResults());
  const programs = new Set(shownPrograms());
  const found = new Set();
  column.forEach((value, row) => { if (results.has(rows.result[row]) && programs.has(rows.program[row])) found.add(value); });
  return [...found].sort((a, b) => a - b);
};
// The metric that was asked for, or else the first of the usual ones that is there.
const chosenMetric = (name, usual, there, other = 0) =>
  there.find((metric) => data.metrics[metric].name === name) ??
  usual.map(metricCalled).find((metric) => there.includes(metric)) ?? there[Math.min(other, there.length - 1)] ?? 0;
const chosenMetrics = () => {
  const there = present(rows.metric);
  return {
    there,
    metric: chosenMetric(asked.metric, TIMES, there),
    x: chosenMetric(asked.x, TIMES, there),
    y: chosenMetric(asked.y, SPACES, there, 1),
  };
};
const shownResults = () => {
  const only = data.results.findIndex((result) => result.name === asked.result);
  return only >= 0 ? [only] : data.results.map((_, result) => result);
};
// Whether a name has all the words in it.
const matching = (text) => {
  const words = text.toLowerCase().split(/\s+/);
  return (name) => words.every((word) => name.toLowerCase().includes(word));
};
const shownPrograms = () => {
  if (asked.program) return [data.programs.indexOf(asked.program)].filter((program) => program >= 0);
  const isFound = matching(asked.find);
  return [...data.programs.keys()].filter((program) => isFound(data.programs[program]));
};
const showsRatios = () => asked.show !== "values";

// The lines of results and programs that have a row of any of `metrics` under one of `managers`.
const linesOf = (metrics, managers) => {
  const lines = [];
  const programs = shownPrograms();
  for (const result of shownResults()) {
    for (const program of programs) {
      const keys = managers.map((manager) => keyOf(result, program, manager));
      if (metrics.some((metric) => keys.some((key) => byMetric[metric].has(key)))) lines.push({ result, program });
    }
  }
  return lines;
};
const valueAt = (metric, { result, program }, manager, ratio) => {
  const row = byMetric[metric].get(keyOf(result, program, manager));
  return row === undefined ? null : (ratio ? rows.ratio : rows.median)[row];
};
// Geometric means of ratios over the lines that all managers have a ratio in, so that all means are
// over the same programs. A manager that has no ratio at all has no mean, and does not take those of
// the others away.
const geometricMeans = (metrics, lines, managers) => {
  const has = (line, manager) => metrics.every((metric) => valueAt(metric, line, manager, true) > 0);
  const able = managers.filter((manager) => lines.some((line) => has(line, manager)));
  const common = lines.filter((line) => able.every((manager) => has(line, manager)));
  const mean = (metric, manager) => Math.exp(
    common.reduce((sum, line) => sum + Math.log(valueAt(metric, line, manager, true)), 0) / common.length);
  const means = new Map(common.length ? able.map((manager) => [manager, metrics.map((metric) => mean(metric, manager))]) : []);
  return { count: common.length, means };
};
const obtainedOf = (metric) =>
  [...new Set(shownResults().map((result) => data.results[result].obtained[data.metrics[metric].name]))]
    .filter(Boolean).sort().join(" and ");
const lineName = ({ result, program }) =>
  data.results.length > 1 ? `${data.programs[program]} in ${data.results[result].name}` : data.programs[program];
