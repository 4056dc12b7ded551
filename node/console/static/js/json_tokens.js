// JSON as its tokens, every figure and text as it was written: JSON.parse and back would round large numbers.

const TOKEN = /\s+|"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g;
const ESCAPE = /\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\./g;

/** The tokens without the spaces between them; null where `text` is no JSON document. */
export function tokensOf(text) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  return [...text.matchAll(TOKEN)].map(([token]) => token).filter((token) => !/^\s/.test(token));
}

/**
 * A text of JSON with `\u00eb` as the letter it stands for. Quotes, backslashes and control characters stay escaped, so
 * it remains the same JSON; so does half of a pair of surrogates, which is no letter.
 */
export function withLetters(text) {
  return text.replace(ESCAPE, (escape) => {
    if (escape[1] !== "u") return escape;
    const letter = JSON.parse(`"${escape}"`);
    return letter < " " || letter === '"' || letter === "\\" || /^[\ud800-\udfff]$/.test(letter) ? escape : letter;
  });
}
