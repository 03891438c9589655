/** Names of the headers that door and client agree on, in lower case. */
/** The object's seq after a call that wrote. */
export const SEQ_HEADER = "moonport-seq";
/** Wall clock when the state that is sent was cut, milliseconds. */
export const CUT_HEADER = "moonport-at-ms";
export const TIMEOUT_HEADER = "x-request-timeout-ms";
export const DEADLINE_HEADER = "x-request-deadline";
export const CALL_ID_HEADER = "idempotency-key";
/** Names the unit that made a response: its status and body are the unit's own. */
export const UNIT_HEADER = "moonport-unit";
