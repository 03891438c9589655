/** What the exit codes mean; the table of src/errors.ts says which error has which, and a test holds the two together. */

/** No error: `moonport verify` did its work, and that is what it found. */
export const EXIT_DAMAGED = 9;

export const EXIT_CODES: Readonly<Record<number, string>> = {
  0: "done",
  1: "a fault in Moonport itself",
  2: "the request or the command line is wrong",
  3: "no such app, class, method, object or key",
  4: "the class refused or failed",
  5: "nothing happened, or it may be asked again: try later",
  6: "the outcome is unknown: ask again with the same --id",
  7: "storage or configuration needs attention",
  8: "the data folder or the address is in use",
  [EXIT_DAMAGED]: "verify found objects that cannot be restored",
};

export function exitCodesHelp(): string {
  const lines = Object.entries(EXIT_CODES).map(([code, meaning]) => `  ${code}  ${meaning}`);
  return `\nExit codes:\n${lines.join("\n")}`;
}
