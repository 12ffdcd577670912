// Figures as people read them: three significant digits and the unit that fits.

const TIME_UNITS = [[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]];
const BYTE_UNITS = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]];

/** The largest unit that a value reaches: [size, name]. */
function unitOf(value, units) {
  return units.find(([size]) => Math.abs(value) >= size) || units[units.length - 1];
}

/** 1234.5 -> "1,230"; 1.2345 -> "1.23". */
function digits(value) {
  if (value === 0) return "0";
  const places = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  const rounded = Number(value.toPrecision(Math.abs(value) >= 1000 ? 4 : 3));
  return rounded.toLocaleString("en-US", {maximumFractionDigits: Math.min(places, 12)});
}

/** 1 -> "1.00", 32.04 -> "32.0", 1234 -> "1,234": so that figures below each other compare. */
const figure = value => Math.abs(value) >= 100 || value === 0 ? whole(value) : value.toPrecision(3);
const inUnit = (value, [size, name]) => `${size === 1 && name === "B" ? whole(value) : figure(value / size)} ${name}`;
const seconds = value => value === null ? "none" : value === 0 ? "0 s" : inUnit(value, unitOf(value, TIME_UNITS));
const bytes = value => inUnit(value, unitOf(value, BYTE_UNITS));
const percent = (share, places = 0) => `${(100 * share).toFixed(places)} %`;
const signedPercent = share => `${share > 0 ? "+" : share < 0 ? "−" : "±"}${Math.abs(100 * share).toFixed(1)} %`;
const times = factor => `${factor.toFixed(2)}×`;
const whole = value => Math.round(value).toLocaleString("en-US");
const counted = (number, noun) => `${whole(number)} ${noun}${number === 1 ? "" : "s"}`;

/** "a, b and c". */
function listed(words) {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`;
}
