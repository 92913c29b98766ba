// Marks in a plane of two figures. A point has its `values`, the number of its `series`, and a `text`;
// some have a `label`, stand for a `mean`, or can be opened. An axis is in a `unit`, of ratios, or of time.
const REACH = 24;
const MOST_LABELS = 16;
const LEFT = 70;
const DAY = 86_400_000;
const timeScale = (values, start, end) => {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  const margin = (high - low) * 0.03 || DAY / 2;
  [low, high] = [low - margin, high + margin];
  const count = Math.max(2, Math.round(Math.abs(end - start) / 160));
  const rough = (high - low) / count;
  const step = [DAY / 24, DAY / 4, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 91 * DAY, 182 * DAY].find((one) => one >= rough) ?? Math.ceil(rough / DAY) * DAY;
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) ticks.push(tick);
  const name = (value) => new Date(value).toISOString().slice(0, step < DAY ? 16 : 10).replace("T", " ");
  const place = (value) => start + ((value - low) / (high - low)) * (end - start);
  return { place, ticks: ticks.filter((tick) => place(tick) < end - 40), name }; // dates are long
};
const axisScale = ({ time, unit, ratio }, values, start, end) =>
  (time ? timeScale(values, start, end) : scaleOf(values, start, end, unit ?? "", ratio ?? false));

const scatter = (frame, points, { across, upwards, label, open = () => {} }) => {
  const width = Math.max(300, frame.clientWidth);
  const height = Math.round(Math.min(460, Math.max(280, width * 0.5)));
  const bottom = height - 44;
  const horizontal = axisScale(across, points.map((point) => point.values[0]), LEFT, width - 16);
  const vertical = axisScale(upwards, points.map((point) => point.values[1]), bottom, 12);
  for (const point of points) point.at = [horizontal.place(point.values[0]), vertical.place(point.values[1])];
  const marks = [...new Set(points.map((point) => point.series))].map((series) => {
    const mine = points.filter((point) => point.series === series);
    const of = (mean) => mine.filter((point) => Boolean(point.mean) === mean)
      .map((point) => shapeOf(series)(...point.at, mean ? 8 : points.length > 1500 ? 2.6 : 4.5)).join("");
    return s("g", { fill: colourOf(series) },
      s("path", { class: "mark", d: of(false) }), s("path", { class: "mean", d: of(true) }));
  });
  const ones = [[across, horizontal, (at) => ({ x1: at, x2: at, y1: 12, y2: bottom })],
    [upwards, vertical, (at) => ({ x1: LEFT, x2: width - 16, y1: at, y2: at })]];
  const svg = s("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, tabindex: 0, role: "application",
    "aria-roledescription": "scatter plot",
    "aria-label": `${upwards.title} against ${across.title}: ${counted(points.length, "mark")}. ${label}`,
  },
    ...horizontal.ticks.map((tick) => [
      s("line", { class: "grid", x1: horizontal.place(tick), x2: horizontal.place(tick), y1: 12, y2: bottom }),
      s("text", { x: horizontal.place(tick), y: bottom + 18, "text-anchor": "middle" }, horizontal.name(tick)),
    ]).flat(),
    ...vertical.ticks.map((tick) => [
      s("line", { class: "grid", x1: LEFT, x2: width - 16, y1: vertical.place(tick), y2: vertical.place(tick) }),
      s("text", { x: LEFT - 8, y: vertical.place(tick) + 4, "text-anchor": "end" }, vertical.name(tick)),
    ]).flat(),
    ...ones.filter(([axis]) => axis.ratio).map(([, scale, line]) => s("line", { class: "one", ...line(scale.place(1)) })),
    s("text", { class: "axis", x: (LEFT + width) / 2, y: height - 6, "text-anchor": "middle" }, across.title),
    s("text", { class: "axis", x: 14, y: bottom / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${bottom / 2})` }, upwards.title),
    ...marks,
    ...labelsOf(points, width),
    s("circle", { class: "current", r: 10, hidden: true }));
  let current = -1;
  const pointAt = (number) => {
    if (number === current && number < 0) return;
    current = number;
    const ring = svg.querySelector(".current");
    ring.toggleAttribute("hidden", number < 0);
    if (number < 0) { showTip(""); return; }
    const [x, y] = points[number].at;
    ring.setAttribute("cx", x);
    ring.setAttribute("cy", y);
    const box = ring.getBoundingClientRect();
    showTip(points[number].text(), box.left + box.width / 2, box.top);
  };
  svg.addEventListener("pointermove", (event) => pointAt(nearestTo(svg, event, points, width)));
  svg.addEventListener("pointerleave", () => pointAt(-1));
  svg.addEventListener("blur", () => pointAt(-1));
  svg.addEventListener("click", (event) => {
    const point = points[nearestTo(svg, event, points, width)];
    if (point) open(point);
  });
  svg.addEventListener("keydown", (event) => {
    const directions = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [1, -1], ArrowDown: [1, 1] };
    if (event.key === "Enter" && points[current]) open(points[current]);
    if (event.key === "Escape") pointAt(-1);
    const direction = directions[event.key];
    if (!direction) return;
    event.preventDefault();
    const [axis, sign] = direction;
    const order = [...points.keys()].sort((a, b) => sign * (points[a].at[axis] - points[b].at[axis]) || sign * (a - b));
    pointAt(order[Math.min(order.indexOf(current) + 1, order.length - 1)]);
  });
  frame.replaceChildren(svg);
};

// Of few marks their labels, where one finds room beside its mark.
const labelsOf = (points, width) => {
  if (points.length > MOST_LABELS) return [];
  const taken = points.map(({ at: [x, y] }) => [x - 6, y - 6, x + 6, y + 6]);
  return points.filter((point) => point.label).flatMap((point) => {
    const text = shortName(point.label, 30);
    const [x, y] = point.at;
    const long = text.length * 7;
    for (const [left, top, anchor, tx, ty] of [
      [x + 9, y - 7, "start", x + 9, y + 4], [x - 9 - long, y - 7, "end", x - 9, y + 4],
      [x - long / 2, y - 23, "middle", x, y - 11], [x - long / 2, y + 9, "middle", x, y + 20],
    ]) {
      const box = [left, top, left + long, top + 14];
      const free = box[0] > LEFT && box[2] < width && box[1] > 0 &&
        taken.every((other) => box[2] < other[0] || other[2] < box[0] || box[3] < other[1] || other[3] < box[1]);
      if (free) {
        taken.push(box);
        return [s("text", { class: "label", x: tx, y: ty, "text-anchor": anchor }, text)];
      }
    }
    return [];
  });
};
const nearestTo = (svg, event, points, width) => {
  const box = svg.getBoundingClientRect();
  const shrunk = box.width / width;
  let best = -1;
  let least = REACH;
  points.forEach((point, number) => {
    const distance = Math.hypot(point.at[0] - (event.clientX - box.left) / shrunk, point.at[1] - (event.clientY - box.top) / shrunk);
    if (distance < least) { least = distance; best = number; }
  });
  return best;
};
