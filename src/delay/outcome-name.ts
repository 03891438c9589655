/** Whom to tell of a command's outcome, as text: `Class/key/method`, or `Class/key/event`. */

export function outcomeNamed(text: string): { className: string; key: string; name: string } | undefined {
  const [, className, key, name] = /^([^/]+)\/(.+)\/([^/]+)$/s.exec(text) ?? [];
  return className === undefined || key === undefined || name === undefined ? undefined : { className, key, name };
}
