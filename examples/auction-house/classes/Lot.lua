---One lot of a sale: it takes bids that rise, until its time is up. A lot that is over may be offered again.
---
---The lot says itself what the next bid must be at least, with its standing and with every event: whoever watches needs to
---know no rule of the house. Bidders are taken at their word here; with tokens, `caller.id` says who bids.
local Lot = class "Lot"

Lot.migrations = {
  [[CREATE TABLE bids (
      id     INTEGER PRIMARY KEY,
      who    TEXT NOT NULL,
      amount INTEGER NOT NULL,
      at     REAL NOT NULL
    )]],
}

Lot.directory = {
  columns = { title = "text", top = "integer", leader = "text", ends_at = "real" },
  index = { "ends_at" },
  row = function()
    local lot = state.store.get("lot")
    return { title = lot.title, top = lot.top, leader = lot.leader, ends_at = lot.ends_at }
  end,
}

local NAME_BYTES_MAX = 40
local AMOUNT_MAX = 1000000000
---A bid in the last seconds leaves the others this much time to answer it.
local LAST_CALL_SECONDS = 30

---By how much the next bid must be higher, at least.
local function raise(top)
  if top < 100 then return 5 end
  if top < 1000 then return 10 end
  return 50
end

local function least(lot)
  return lot.top and lot.top + raise(lot.top) or lot.start
end

---Time alone ends a lot: a timer that is late would be a bid too many.
local function is_running(lot)
  return lot ~= nil and now() < lot.ends_at
end

local function is_whole(number, from, to)
  return type(number) == "number" and number % 1 == 0 and number >= from and number <= to
end

---@return { title: string, about: string, start: integer, ends_at: number, top?: integer, leader?: string, least: integer, bids: integer }
local function standing(lot)
  local view = { least = least(lot), bids = state.sql.one("SELECT count(*) AS n FROM bids").n }
  for name, value in pairs(lot) do view[name] = value end
  return view
end

---Offers the lot. Bids of an earlier offer that is over are gone.
---@param offer { title: string, about?: string, start?: integer, minutes?: number }
function Lot:open(offer)
  if is_running(state.store.get("lot")) then
    error { code = "already_open", message = "this lot is open already" }
  end
  local title, about, start, minutes = offer.title, offer.about or "", offer.start or 1, offer.minutes or 60
  if type(title) ~= "string" or title == "" or type(about) ~= "string" then
    error { code = "bad_offer", message = "a lot has a title, and what it is about is a text" }
  end
  if not is_whole(start, 1, AMOUNT_MAX) or type(minutes) ~= "number" or minutes <= 0 then
    error { code = "bad_offer", message = "start is a whole amount from 1, minutes a number above 0" }
  end
  local lot = { title = title, about = about, start = start, ends_at = now() + minutes * 60 }
  state.sql.exec("DELETE FROM bids")
  state.store.set("lot", lot)
  emit("opened", standing(lot))
end

---Bids for the lot. The reply leaves when the bid is durable.
---@param who string
---@param amount integer
---@return { top: integer, least: integer }
function Lot:bid(who, amount)
  if type(who) ~= "string" or who:match("^%s*$") or #who > NAME_BYTES_MAX then
    error { code = "bad_name", message = "a bidder has a name of 1 to " .. NAME_BYTES_MAX .. " bytes" }
  end
  if not is_whole(amount, 1, AMOUNT_MAX) then
    error { code = "bad_amount", message = "a bid is a whole amount from 1 to " .. AMOUNT_MAX }
  end
  local lot = state.store.get("lot")
  if not is_running(lot) then
    error { code = "closed", message = "this lot takes no bids" }
  end
  if amount < least(lot) then
    error { code = "too_low", message = "bid at least " .. least(lot), least = least(lot) }
  end
  state.sql.exec("INSERT INTO bids (who, amount, at) VALUES (?, ?, ?)", who, amount, now())
  lot.top, lot.leader = amount, who
  lot.ends_at = math.max(lot.ends_at, now() + LAST_CALL_SECONDS)
  state.store.set("lot", lot)
  emit("bid", { who = who, amount = amount, least = least(lot), ends_at = lot.ends_at })
  return { top = amount, least = least(lot) }
end

---Where the lot stands, or nil when it was never offered.
function Lot.read:standing()
  local lot = state.store.get("lot")
  return lot and standing(lot)
end

---What a page needs to begin with: the standing, the last bids, the newest first, and what time it is here.
---@param limit? integer how many bids; 8 when left out
function Lot.read:catch_up(limit)
  local lot = state.store.get("lot")
  return {
    standing = lot and standing(lot),
    history = state.sql.all("SELECT who, amount, at FROM bids ORDER BY id DESC LIMIT ?", limit or 8),
    now = now(),
  }
end

return Lot
