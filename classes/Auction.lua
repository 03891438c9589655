-- One lot at auction: it is opened once, takes bids that rise, and is closed by hand or by its timer.
--
--   moonport call Auction/lot-42 open '{"title":"Moon globe","seconds":600}'
--   moonport call Auction/lot-42 bid ada 25
--   moonport call Auction/lot-42 top

local Auction = class "Auction"

-- Run once each, in order, in the first transaction after the class changed. Never edit one that has run: add another.
Auction.migrations = {
  [[CREATE TABLE bids (
      id     INTEGER PRIMARY KEY,
      who    TEXT NOT NULL,
      amount INTEGER NOT NULL,
      at     REAL NOT NULL
    )]],
  [[CREATE INDEX bids_amount ON bids (amount)]],
}

-- One row per auction, derived after every writing call in that call's transaction: what `find` searches.
Auction.directory = {
  columns = { title = "text", status = "text", top = "integer", bids = "integer", ends_at = "real" },
  index = { "status", "top" },
  row = function(self)
    local lot = state.store.get("lot")
    if not lot then return { status = "new" } end
    local count = state.sql.one("SELECT count(*) AS n FROM bids").n
    return { title = lot.title, status = lot.status, top = lot.top, bids = count, ends_at = lot.ends_at }
  end,
}

-- The lot as stored, or an error that callers can tell from others by its code.
local function the_lot()
  local lot = state.store.get("lot")
  if not lot then
    error { code = "not_open", message = "this lot was never opened" }
  end
  return lot
end

local function finish(lot)
  lot.status = "closed"
  state.store.set("lot", lot)
  schedule.cancel("close")
  emit("closed", { winner = lot.leader, amount = lot.top })
  return { winner = lot.leader, amount = lot.top }
end

-- Opens the lot. options: title, start (the least first bid, 1), seconds (until it closes by itself; none: by hand).
function Auction:open(options)
  options = options or {}
  if state.store.get("lot") then
    error { code = "already_open", message = "this lot was opened before" }
  end
  local lot = {
    title = options.title or self.key,
    status = "open",
    start = options.start or 1,
    opened_at = now(),
  }
  if options.seconds then
    lot.ends_at = now() + options.seconds
    schedule.at(lot.ends_at, { name = "close" }):_time_is_up()
  end
  state.store.set("lot", lot)
  emit("opened", { title = lot.title, ends_at = lot.ends_at })
  return lot
end

-- Bids `amount` for `who`; refused unless it is above the highest bid.
function Auction:bid(who, amount)
  if type(who) ~= "string" or type(amount) ~= "number" or amount % 1 ~= 0 then
    error { code = "bad_bid", message = "bid takes a name and a whole amount" }
  end
  local lot = the_lot()
  if lot.status ~= "open" then
    error { code = "closed", message = "this lot is closed" }
  end
  local least = lot.top and lot.top + 1 or lot.start
  if amount < least then
    error { code = "too_low", message = "bid at least " .. least, least = least }
  end
  state.sql.exec("INSERT INTO bids (who, amount, at) VALUES (?, ?, ?)", who, amount, now())
  lot.top, lot.leader = amount, who
  state.store.set("lot", lot)
  emit("bid", { who = who, amount = amount })
  return { top = amount }
end

-- Closes the lot and says who won.
function Auction:close()
  local lot = the_lot()
  if lot.status ~= "open" then
    error { code = "closed", message = "this lot is closed" }
  end
  return finish(lot)
end

-- Called by the timer that `open` set; the underscore keeps it from callers.
function Auction:_time_is_up()
  local lot = state.store.get("lot")
  if lot and lot.status == "open" then finish(lot) end
end

function Auction.read:top()
  local lot = state.store.get("lot")
  return lot and { top = lot.top, leader = lot.leader, status = lot.status } or { status = "new" }
end

-- The last `limit` bids (20 when left out), the newest first.
function Auction.read:history(limit)
  return state.sql.all("SELECT who, amount, at FROM bids ORDER BY id DESC LIMIT ?", limit or 20)
end

return Auction
