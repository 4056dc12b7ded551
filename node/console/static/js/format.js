// Numbers, sizes and times for people.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
export const UNKNOWN = "–";
/** Sorts names with their numbers by value: topic-2 before topic-10. */
export const byName = new Intl.Collator("en", { numeric: true }).compare;

const isKnown = (value) => value !== null && value !== undefined && Number.isFinite(Number(value));

export function count(value) {
  return isKnown(value) ? WHOLE.format(value) : UNKNOWN;
}

/** "1 topic", "2 topics". */
export function many(value, one, several = one + "s") {
  return `${count(value)} ${Number(value) === 1 ? one : several}`;
}

export function bytes(value) {
  if (!isKnown(value)) return UNKNOWN;
  let size = Number(value);
  let unit = 0;
  for (; size >= 1024 && unit < UNITS.length - 1; unit += 1) size /= 1024;
  return `${digits(size)} ${UNITS[unit]}`;
}

/** Three significant digits are enough for comparisons. */
export function digits(value) {
  if (!isKnown(value)) return UNKNOWN;
  if (value === 0 || Math.abs(value) >= 100) return WHOLE.format(value);
  return Number(value)
    .toFixed(Math.abs(value) >= 10 ? 1 : 2)
    .replace(/\.?0+$/, "");
}

export function duration(ms) {
  if (!isKnown(ms)) return UNKNOWN;
  if (ms < 1000) return `${digits(Number(ms))} ms`;
  const seconds = ms / 1000;
  if (seconds < 120) return `${digits(seconds)} s`;
  if (seconds < 7200) return `${digits(seconds / 60)} min`;
  return seconds < 172_800 ? `${digits(seconds / 3600)} h` : `${digits(seconds / 86_400)} days`;
}

/** In this computer's time zone, to the millisecond: 2013-01-01 05:15:00.000. */
export function time(ms) {
  if (!isKnown(ms) || ms < 0) return UNKNOWN;
  const local = new Date(Number(ms) - new Date(Number(ms)).getTimezoneOffset() * 60_000);
  return Number.isNaN(local.getTime()) ? String(ms) : local.toISOString().slice(0, 23).replace("T", " ");
}

/** In UTC: 2013-01-01 04:15:00.000. */
export function utc(ms) {
  if (!isKnown(ms) || ms < 0) return UNKNOWN;
  const date = new Date(Number(ms));
  return Number.isNaN(date.getTime()) ? String(ms) : date.toISOString().slice(0, 23).replace("T", " ");
}

/** The part of `time` after the date. */
export function clock(ms) {
  return time(ms).slice(11, 19);
}

/** Return PreparingRebalance and PREPARING_REBALANCE as text: Preparing rebalance. */
export function words(name) {
  const separated = name.replace(/([a-z])([A-Z])/g, "$1 $2").replaceAll("_", " ");
  return separated.charAt(0).toUpperCase() + separated.slice(1).toLowerCase();
}
