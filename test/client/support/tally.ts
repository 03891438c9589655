/** A class that counts, and remembers what it counted: what ran twice shows. */
export const TALLY = `local Tally = class "Tally"
Tally.migrations = { [[CREATE TABLE taken (id TEXT NOT NULL)]] }
function Tally:add(id)
  state.sql.exec("INSERT INTO taken (id) VALUES (?)", id)
  local total = (state.store.get("total") or 0) + 1
  state.store.set("total", total)
  emit(total % 2 == 0 and "even" or "odd", { id = id, total = total })
  return total
end
function Tally:keep(value) state.store.set("kept", value) return value end
function Tally:refuse(code) error { code = code, message = "no", least = 26 } end
function Tally.read:kept() return state.store.get("kept") end
function Tally.read:total() return state.store.get("total") or 0 end
function Tally.read:twice()
  return state.sql.all("SELECT id FROM taken GROUP BY id HAVING count(*) > 1")
end
return Tally`;

/** What the compiler knows of the class above. */
export interface TallyMethods {
  add(id: string): number;
  keep<Value>(value: Value): Value;
  refuse(code: string): never;
  kept(): unknown;
  total(): number;
  twice(): { id: string }[];
}
