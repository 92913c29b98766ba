// The plane of two metrics, usually time and space: a mark for each program and manager.
const REACH = 24;
const MOST_LABELS = 16;
let planePoints = [];
let planeCurrent = -1;

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
  planePoints = points;
  planeCurrent = -1;
  if (!points.length) {
    frame.replaceChildren(h("p", { class: "note" }, "Nothing that is shown has both of these figures. Choose other axes or fewer filters."));
    return;
  }
  const width = Math.max(300, frame.clientWidth);
  const height = Math.round(Math.min(460, Math.max(280, width * 0.5)));
  const left = 70;
  const bottom = height - 44;
  const across = scaleOf(points.map((point) => point.values[0]), left, width - 16, data.metrics[x].unit, ratio);
  const upwards = scaleOf(points.map((point) => point.values[1]), bottom, 12, data.metrics[y].unit, ratio);
  for (const point of points) point.at = [across.place(point.values[0]), upwards.place(point.values[1])];
  const marks = managers.map((manager) => {
    const mine = points.filter((point) => point.manager === manager);
    const of = (mean) => mine.filter((point) => Boolean(point.mean) === mean)
      .map((point) => shapeOf(manager)(...point.at, mean ? 8 : 4.5)).join("");
    return s("g", { fill: colourOf(manager) },
      s("path", { class: "mark", d: of(false) }), s("path", { class: "mean", d: of(true) }));
  });
  const title = (metric) => data.metrics[metric].title + (ratio ? ", relative to the baseline" : "");
  const svg = s("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, tabindex: 0, role: "application",
    "aria-roledescription": "scatter plot",
    "aria-label": `${title(y)} against ${title(x)}: ${counted(points.length, "mark")}. Arrow keys go from mark to mark, Enter opens a program.`,
  },
    ...across.ticks.map((tick) => [
      s("line", { class: "grid", x1: across.place(tick), x2: across.place(tick), y1: 12, y2: bottom }),
      s("text", { x: across.place(tick), y: bottom + 18, "text-anchor": "middle" }, across.name(tick)),
    ]).flat(),
    ...upwards.ticks.map((tick) => [
      s("line", { class: "grid", x1: left, x2: width - 16, y1: upwards.place(tick), y2: upwards.place(tick) }),
      s("text", { x: left - 8, y: upwards.place(tick) + 4, "text-anchor": "end" }, upwards.name(tick)),
    ]).flat(),
    ...(ratio ? [
      s("line", { class: "one", x1: across.place(1), x2: across.place(1), y1: 12, y2: bottom }),
      s("line", { class: "one", x1: left, x2: width - 16, y1: upwards.place(1), y2: upwards.place(1) }),
    ] : []),
    s("text", { class: "axis", x: (left + width) / 2, y: height - 6, "text-anchor": "middle" }, title(x)),
    s("text", { class: "axis", x: 14, y: bottom / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${bottom / 2})` }, title(y)),
    ...marks,
    ...planeLabels(points, width),
    s("circle", { class: "current", r: 10, hidden: true }));
  svg.addEventListener("pointermove", (event) => pointAt(svg, nearestTo(svg, event, width)));
  svg.addEventListener("pointerleave", () => pointAt(svg, -1));
  svg.addEventListener("blur", () => pointAt(svg, -1));
  svg.addEventListener("click", (event) => openPoint(nearestTo(svg, event, width)));
  svg.addEventListener("keydown", (event) => planeKey(svg, event));
  frame.replaceChildren(svg);
};

// Of few marks their managers' names, where one finds room beside its mark.
const planeLabels = (points, width) => {
  if (points.length > MOST_LABELS) return [];
  const taken = points.map(({ at: [x, y] }) => [x - 6, y - 6, x + 6, y + 6]);
  return points.flatMap((point) => {
    const text = shortName(data.managers[point.manager], 30);
    const [x, y] = point.at;
    const long = text.length * 7;
    for (const [left, top, anchor, tx, ty] of [
      [x + 9, y - 7, "start", x + 9, y + 4], [x - 9 - long, y - 7, "end", x - 9, y + 4],
      [x - long / 2, y - 23, "middle", x, y - 11], [x - long / 2, y + 9, "middle", x, y + 20],
    ]) {
      const box = [left, top, left + long, top + 14];
      const free = box[0] > 70 && box[2] < width && box[1] > 0 &&
        taken.every((other) => box[2] < other[0] || other[2] < box[0] || box[3] < other[1] || other[3] < box[1]);
      if (free) {
        taken.push(box);
        return [s("text", { class: "label", x: tx, y: ty, "text-anchor": anchor }, text)];
      }
    }
    return [];
  });
};
const nearestTo = (svg, event, width) => {
  const box = svg.getBoundingClientRect();
  const shrunk = box.width / width;
  let best = -1;
  let least = REACH;
  planePoints.forEach((point, number) => {
    const distance = Math.hypot(point.at[0] - (event.clientX - box.left) / shrunk, point.at[1] - (event.clientY - box.top) / shrunk);
    if (distance < least) { least = distance; best = number; }
  });
  return best;
};
const pointAt = (svg, number) => {
  if (number === planeCurrent && number < 0) return;
  planeCurrent = number;
  const ring = svg.querySelector(".current");
  ring.toggleAttribute("hidden", number < 0);
  if (number < 0) { showTip(""); return; }
  const [x, y] = planePoints[number].at;
  ring.setAttribute("cx", x);
  ring.setAttribute("cy", y);
  const box = ring.getBoundingClientRect();
  const { x: across, y: upwards } = chosenMetrics();
  showTip(planeText(planePoints[number], across, upwards), box.left + box.width / 2, box.top);
};
const openPoint = (number) => {
  const line = planePoints[number]?.line;
  if (line && !asked.program) openProgram(line.program);
};
const planeKey = (svg, event) => {
  const directions = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [1, -1], ArrowDown: [1, 1] };
  if (event.key === "Enter") openPoint(planeCurrent);
  if (event.key === "Escape") pointAt(svg, -1);
  const direction = directions[event.key];
  if (!direction) return;
  event.preventDefault();
  const [axis, sign] = direction;
  const order = [...planePoints.keys()].sort((a, b) => sign * (planePoints[a].at[axis] - planePoints[b].at[axis]) || sign * (a - b));
  pointAt(svg, order[Math.min(order.indexOf(planeCurrent) + 1, order.length - 1)]);
};
