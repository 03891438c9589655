/** Fresh call ids, UUIDv7 of now as clients make them; counted instead of drawn, so that making them costs the row little. */
export function callIdSource(): () => string {
  let count = 0;
  return () => {
    const time = Date.now().toString(16).padStart(12, "0");
    const low = (count++).toString(16).padStart(12, "0");
    return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${low}`;
  };
}
