/** The grammar of call ids: printable ASCII without spaces, since they also have to travel in headers. */
const CALL_ID = /^[\x21-\x7e]{1,128}$/;

export const CALL_ID_GRAMMAR = "1 to 128 printable ASCII characters without spaces";

export function isCallId(text: string): boolean {
  return CALL_ID.test(text);
}
