/** Names of what stands in a journal's folder. */
const NAME = /^(\d{10})\.journal$/;

export const IDENTITY_NAME = "identity";
export const IDENTITY_DRAFT_NAME = "identity.new";

export function journalFileName(number: number): string {
  return `${String(number).padStart(10, "0")}.journal`;
}

/** Numbers of the journal's files among `names`, ascending. */
export function journalFileNumbers(names: readonly string[]): number[] {
  const numbers = names.flatMap((name) => NAME.exec(name)?.[1] ?? []).map(Number);
  return numbers.sort((a, b) => a - b);
}
