// Numbers as the rest of Tare writes them: tare/units.py.
const threeDigits = (value) => {
  if (value === 0) return "0";
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(digits, 2));
};
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB"];
const COUNT_UNITS = ["", "k", "M", "G"];
const inUnits = (value, factor, units) => {
  let unit = 0;
  while (Math.abs(value) >= factor && unit < units.length - 1) {
    value /= factor;
    unit += 1;
  }
  return `${unit === 0 ? value.toFixed(0) : threeDigits(value)} ${units[unit]}`.trim();
};
const formatSeconds = (value) => {
  const magnitude = Math.abs(value);
  if (magnitude >= 1 || value === 0) return `${threeDigits(value)} s`;
  return magnitude >= 1e-3 ? `${threeDigits(value * 1e3)} ms` : `${threeDigits(value * 1e6)} µs`;
};
const formatValue = (value, unit) => {
  if (value === null || value === undefined) return "–";
  if (unit === "s") return formatSeconds(value);
  if (unit === "B") return inUnits(value, 1024, BYTE_UNITS);
  return unit === "ratio" ? threeDigits(value) : inUnits(value, 1000, COUNT_UNITS);
};
const formatRatio = (ratio) => {
  if (ratio === null || ratio === undefined) return "–";
  return `${ratio < 2 ? ratio.toFixed(3) : ratio < 100 ? ratio.toFixed(2) : ratio.toPrecision(3)}×`;
};
const formatShare = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)}%`;
const shorten = (text, most) => (text.length <= most ? text : `${text.slice(0, Math.max(0, most - 1))}…`);
// The start and the end of a name: both tell names apart.
const shortName = (name, most) => {
  const tail = Math.floor(most / 3);
  return name.length <= most ? name : `${name.slice(0, most - tail - 1)}…${name.slice(-tail)}`;
};
const capitalised = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);
const counted = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
