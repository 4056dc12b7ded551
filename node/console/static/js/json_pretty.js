// JSON with one member a line, every figure and text as it was written: JSON.parse and back would round large numbers.

const TOKEN = /\s+|"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g;

/** Null where `text` is no JSON document. */
export function pretty(text) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  let out = "";
  let depth = 0;
  let before = "";
  const line = () => "\n" + "  ".repeat(depth);
  for (const [token] of text.matchAll(TOKEN)) {
    if (/^\s/.test(token)) continue;
    if (token === "}" || token === "]") {
      depth -= 1;
      out += before === "{" || before === "[" ? token : line() + token;
    } else {
      if (before === "{" || before === "[" || before === ",") out += line();
      out += token === ":" ? ": " : token;
      if (token === "{" || token === "[") depth += 1;
    }
    before = token;
  }
  return out;
}
