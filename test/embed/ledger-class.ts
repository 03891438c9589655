/** A class for tests of embedding, with its methods as TypeScript sees them. */
export const LEDGER = `local Ledger = class "Ledger"
Ledger.migrations = { [[CREATE TABLE entries (id INTEGER PRIMARY KEY, text TEXT NOT NULL)]] }
function Ledger:add(text, note)
  if text == "" then error { code = "empty", message = "say something", given = text } end
  local _, id = state.sql.exec("INSERT INTO entries (text) VALUES (?)", text)
  emit("added", { id = id, text = text, note = note })
  return { id = id }
end
function Ledger:forget() destroy() return true end
function Ledger:whoami() return { kind = caller.kind, id = caller.id, claims = caller.claims } end
function Ledger:mirror(...) return array { ... } end
function Ledger:spin() local n = 0 while n < 1e6 do n = n + 1 end state.store.set("spun", n) return n end
function Ledger.read:count() return state.sql.one("SELECT count(*) AS n FROM entries").n end
function Ledger.read:texts()
  local texts = array {}
  for row in state.sql.each("SELECT text FROM entries ORDER BY id") do texts[#texts + 1] = row.text end
  return texts
end
function Ledger.read:fails() error { code = "no_such_luck", message = "never" } end
function Ledger.read:inspect() return "the class's own" end
return Ledger`;

export interface LedgerMethods {
  add(text: string, note?: { readonly [name: string]: string }): { id: number };
  forget(): true;
  whoami(): { kind: string; id?: string; claims?: { [name: string]: unknown } };
  mirror(...values: unknown[]): unknown[];
  spin(): number;
  count(): number;
  texts(): string[];
  fails(): never;
  inspect(): string;
}
