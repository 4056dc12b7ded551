// JSON as tokens, each number and text as it was written: JSON.parse would round large numbers.

const TOKEN = /\s+|"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g;
const ESCAPE = /\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\./g;

/** Return the tokens without whitespace between them; null if `text` is not a JSON document. */
export function tokensOf(text) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  return [...text.matchAll(TOKEN)].map(([token]) => token).filter((token) => !/^\s/.test(token));
}

/**
 * Return a text of JSON with `\u00eb` as the letter that it stands for. Quotes, backslashes and control characters stay
 * escaped, so it remains the same JSON; so does half of a surrogate pair, which is not a letter.
 */
export function withLetters(text) {
  return text.replace(ESCAPE, (escape) => {
    if (escape[1] !== "u") return escape;
    const letter = JSON.parse(`"${escape}"`);
    return letter < " " || letter === '"' || letter === "\\" || /^[\ud800-\udfff]$/.test(letter) ? escape : letter;
  });
}
