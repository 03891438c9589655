-- Run by `npx moonport test`. Each test has a node of its own that nobody has used yet.

test("a higher bid wins, and everybody hears of it", function()
  local lot = Auction("lot-42")
  expect(lot:bid("ada", 25)):equals { top = 25 }
  expect(lot:bid("bob", 30)):equals { top = 30 }
  expect(#events(lot)):equals(2)
end)

test("a bid that is too low is refused, and leaves nothing behind", function()
  local lot = Auction("lot-42")
  lot:bid("ada", 25)
  local refusal = expect(function() lot:bid("bob", 25) end):fails("too_low")
  expect(refusal.details.least):equals(26)
  expect(lot:top().top):equals(25)
end)

test("what was answered outlives a crash", function()
  Counter("visits"):increment(10)
  restart()
  expect(Counter("visits"):value()):equals(10)
end)
