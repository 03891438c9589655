---One lot at auction: it takes bids that rise, until it is closed by hand or by its timer. The first bid opens a lot with
---the defaults; `open` before it sets a title, a least bid and an end.
---
---    moonport call Auction/lot-42 open '{"title":"Moon globe","seconds":600}'
---    moonport call Auction/lot-42 bid ada 25        {"top":25}
---    moonport call Auction/lot-42 top
local Auction = class "Auction"

---Run once each, in order, in the first transaction after the class changed. Never edit one that has run: add another.
Auction.migrations = {
  [[CREATE TABLE bids (
      id     INTEGER PRIMARY KEY,
      who    TEXT NOT NULL,
      amount INTEGER NOT NULL,
      at     REAL NOT NULL
    )]],
}

---One row per lot, derived after every writing call in that call's transaction.
Auction.directory = {
  columns = { title = "text", status = "text", top = "integer", bids = "integer", ends_at = "real" },
  index = { "status", "top" },
  row = function(self)
    local lot = state.store.get("lot")
    local count = state.sql.one("SELECT count(*) AS n FROM bids").n
    return { title = lot.title, status = lot.status, top = lot.top, bids = count, ends_at = lot.ends_at }
  end,
}

-- Functions like these belong to the file: callers cannot reach them.

local function the_lot(self)
  return state.store.get("lot") or { title = self.key, status = "open", start = 1 }
end

---Above 2^53 a bid of one more is the same number.
local function is_whole(number)
  return type(number) == "number" and number % 1 == 0 and math.abs(number) < 2 ^ 53
end

---What is kept is what every later bid is measured by: nothing else may come in.
local function must_be_terms(title, start, seconds)
  if type(title) ~= "string" or not is_whole(start) or type(seconds or 0) ~= "number" then
    error { code = "bad_lot", message = "a lot opens with a text as title, a whole start and a number of seconds" }
  end
end

local function must_be_open(lot)
  if lot.status ~= "open" then
    error { code = "closed", message = "this lot is closed" }
  end
end

local function finish(lot)
  lot.status = "closed"
  state.store.set("lot", lot)
  schedule.cancel("close")
  emit("closed", { winner = lot.leader, amount = lot.top })
  return { winner = lot.leader, amount = lot.top }
end

---Opens the lot; once only, and before its first bid.
---@param options? { title?: string, start?: integer, seconds?: number } `start`: the least first bid; `seconds`: until it closes by itself
function Auction:open(options)
  options = options or {}
  if state.store.get("lot") then
    error { code = "already_open", message = "this lot is open already, or was" }
  end
  local lot = the_lot(self)
  lot.title = options.title or lot.title
  lot.start = options.start or lot.start
  must_be_terms(lot.title, lot.start, options.seconds)
  if options.seconds then
    lot.ends_at = now() + options.seconds
    schedule.at(lot.ends_at, { name = "close" }):_time_is_up()
  end
  state.store.set("lot", lot)
  emit("opened", { title = lot.title, ends_at = lot.ends_at })
  return lot
end

---Bids for the lot; refused unless it is above the highest bid so far.
---@param who string
---@param amount integer
---@return { top: integer }
function Auction:bid(who, amount)
  if type(who) ~= "string" or not is_whole(amount) then
    error { code = "bad_bid", message = "bid takes a name and a whole amount" }
  end
  local lot = the_lot(self)
  must_be_open(lot)
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

---Closes the lot and says who won.
---@return { winner?: string, amount?: integer }
function Auction:close()
  local lot = the_lot(self)
  must_be_open(lot)
  return finish(lot)
end

---The timer that `open` sets; the underscore keeps it from callers.
function Auction:_time_is_up()
  local lot = the_lot(self)
  if lot.status == "open" then finish(lot) end
end

---Where the lot stands.
---@return { status: string, top?: integer, leader?: string }
function Auction.read:top()
  local lot = the_lot(self)
  return { status = lot.status, top = lot.top, leader = lot.leader }
end

---The last bids, the newest first.
---@param limit? integer 20 when left out
function Auction.read:history(limit)
  return state.sql.all("SELECT who, amount, at FROM bids ORDER BY id DESC LIMIT ?", limit or 20)
end

return Auction
