// The plane of two metrics, usually time and space: a mark for each program and manager.
const planeData = (x, y, managers, lines) => {
  const ratio = showsRatios();
  const points = [];
  for (const line of lines) {
    for (const manager of managers) {
      const values = [valueAt(x, line, manager, ratio), valueAt(y, line, manager, ratio)];
      if (values[0] !== null && values[1] !== null) points.push({ line, manager, values });
    }
  }
  return points;
};
const planeText = (point, x, y) => {
  const text = (metric, value) =>
    `${data.metrics[metric].title} ${showsRatios() ? formatRatio(value) : formatValue(value, data.metrics[metric].unit)}`;
  const what = point.line ? `${lineName(point.line)} under ` : "Geometric mean of ";
  return `${what}${data.managers[point.manager]}: ${text(x, point.values[0])}, ${text(y, point.values[1])}`;
};

const drawPlane = (x, y, managers, lines) => {
  const frame = at("plane");
  const points = planeData(x, y, managers, lines);
  const ratio = showsRatios();
  if (ratio && !asked.program && lines.length > 1) {
    for (const [manager, values] of geometricMeans([x, y], lines, managers).means) points.push({ manager, values, mean: true });
  }
  if (!points.length) {
    frame.replaceChildren(h("p", { class: "note" }, "Nothing that is shown has both of these figures. Choose other axes or fewer filters."));
    return;
  }
  for (const point of points) {
    Object.assign(point, { series: point.manager, label: data.managers[point.manager], text: () => planeText(point, x, y) });
  }
  const axis = (metric) => ({
    title: data.metrics[metric].title + (ratio ? ", relative to the baseline" : ""), unit: data.metrics[metric].unit, ratio,
  });
  scatter(frame, points, {
    across: axis(x), upwards: axis(y), label: "Arrow keys go from mark to mark, Enter opens a program.",
    open: ({ line }) => { if (line && !asked.program) openProgram(line.program); },
  });
};
