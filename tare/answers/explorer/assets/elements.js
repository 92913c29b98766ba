// Elements are made, never parsed: a name in the data stays text.
const SVG = "http://www.w3.org/2000/svg";
const fill = (element, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null));
  return element;
};
const h = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
const s = (name, attributes = {}, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
const at = (identifier) => document.getElementById(identifier);

const tipElement = at("tip");
const showTip = (text, x, y) => {
  tipElement.hidden = !text;
  if (!text) return;
  tipElement.textContent = text;
  const box = tipElement.getBoundingClientRect();
  const top = y - box.height - 14;
  tipElement.style.left = `${Math.max(6, Math.min(x - box.width / 2, innerWidth - box.width - 6))}px`;
  tipElement.style.top = `${top < 6 ? y + 18 : top}px`;
};

// Eight colours that most people tell apart, and for managers beyond these other shapes as well.
const COLOURS = 8;
const colourOf = (number) => `var(--series-${(number % COLOURS) + 1})`;
const polygon = (points) => (x, y, r) =>
  `M${points.map(([px, py]) => `${(x + px * r).toFixed(1)} ${(y + py * r).toFixed(1)}`).join("L")}Z`;
const THIN = 0.38;
const PLUS = [[-THIN, -1], [THIN, -1], [THIN, -THIN], [1, -THIN], [1, THIN], [THIN, THIN], [THIN, 1], [-THIN, 1],
  [-THIN, THIN], [-1, THIN], [-1, -THIN], [-THIN, -THIN]];
const turned = (points) => points.map(([x, y]) => [(x - y) * 0.75, (x + y) * 0.75]);
const SHAPES = [
  (x, y, r) => `M${(x - r).toFixed(1)} ${y.toFixed(1)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`,
  polygon([[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]]),
  polygon([[0, -1.2], [1.1, 0.8], [-1.1, 0.8]]),
  polygon([[0, -1.25], [1.25, 0], [0, 1.25], [-1.25, 0]]),
  polygon(PLUS.map(([x, y]) => [1.2 * x, 1.2 * y])),
  polygon([[0, 1.2], [1.1, -0.8], [-1.1, -0.8]]),
  polygon(turned(PLUS)),
  polygon([[-1.2, -0.55], [1.2, -0.55], [1.2, 0.55], [-1.2, 0.55]]),
];
const shapeOf = (number) => SHAPES[(number + Math.floor(number / COLOURS)) % SHAPES.length];
const symbol = (manager) =>
  s("svg", { viewBox: "0 0 14 14", width: 14, height: 14, "aria-hidden": "true" },
    s("path", { d: shapeOf(manager)(7, 7, 4.6), fill: colourOf(manager) }));

// Axes: a scale from values to pixels, and the values to name.
const niceStep = (span, count) => {
  const rough = span / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 2.5, 5, 10].find((step) => step * power >= rough) * power;
};
const RATIO_LOGARITHMIC = 3;
const VALUE_LOGARITHMIC = 30;
const scaleOf = (values, start, end, unit, isRatio) => {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  const logarithmic = low > 0 && high / low > (isRatio ? RATIO_LOGARITHMIC : VALUE_LOGARITHMIC);
  const count = Math.max(3, Math.round(Math.abs(end - start) / 110));
  const name = (value) => (isRatio ? `${Number(value.toPrecision(4))}×` : formatValue(value, unit));
  const ticks = [];
  if (logarithmic) {
    const base = isRatio || unit === "B" ? 2 : 10;
    [low, high] = [Math.log(low) / Math.log(base), Math.log(high) / Math.log(base)];
    const margin = (high - low) * 0.05;
    [low, high] = [low - margin, high + margin];
    const step = Math.max(1, Math.ceil((high - low) / (count + 2)));
    for (let power = Math.ceil(low / step) * step; power <= high; power += step) ticks.push(base ** power);
    const place = (value) => start + ((Math.log(value) / Math.log(base) - low) / (high - low)) * (end - start);
    return { place, ticks, name };
  }
  const margin = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  low = low >= 0 && !isRatio ? Math.max(0, low - margin) : low - margin;
  high += margin;
  let factor = 1;
  while (unit === "B" && !isRatio && high / factor >= 1024 && factor < 1024 ** 3) factor *= 1024;
  const step = niceStep((high - low) / factor, count) * factor;
  for (let tick = Math.ceil(low / step); tick * step <= high; tick += 1) ticks.push(tick * step);
  return { place: (value) => start + ((value - low) / (high - low)) * (end - start), ticks, name };
};
