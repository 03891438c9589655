/** Numbers written over the room that a message laid out in advance has for them. */
const DIGIT_0 = 0x30;

/** Digits from the right. @param end where the last one ends */
export function writeNumber(bytes: Buffer, value: number, end: number): void {
  let rest = value;
  let at = end;
  do {
    bytes[--at] = DIGIT_0 + (rest % 10);
    rest = Math.floor(rest / 10);
  } while (rest > 0);
}
