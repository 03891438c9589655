/** Names with `*` in them: it stands for any text, also none. Nothing else is special, and matching never backtracks. */

export type Pattern = (text: string) => boolean;

export function patternOf(text: string): Pattern {
  const [first = "", ...rest] = text.split("*");
  const last = rest.pop();
  if (last === undefined) return (name) => name === text;
  return (name) => {
    if (!name.startsWith(first)) return false;
    let at = first.length;
    for (const piece of rest) {
      const found = name.indexOf(piece, at);
      if (found < 0) return false;
      at = found + piece.length;
    }
    return name.length - last.length >= at && name.endsWith(last);
  };
}
