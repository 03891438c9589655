/** `expect(value)` of tests, in Lua. Its globals are those of a test and `same`, `show` and `fail` of test-loader.ts. */
export const EXPECT_LUA = `
local Expectation = {}

local function of(self, name)
  if type(self) ~= "table" or not rawget(self, "is_expectation") then
    error("write a colon: expect(value):" .. name .. "(...)", 3)
  end
  return rawget(self, "value")
end

function Expectation:equals(wanted)
  local value = of(self, "equals")
  if not same(value, wanted) then fail("the values differ", show(wanted), show(value)) end
end

function Expectation:differs(other)
  local value = of(self, "differs")
  if same(value, other) then fail("the values are the same", "anything but " .. show(other), show(value)) end
end

function Expectation:near(wanted, within)
  local value = of(self, "near")
  within = within or 1e-9
  if type(value) ~= "number" or not (math.abs(value - wanted) <= within) then
    fail("the number is not near enough", show(wanted) .. " within " .. show(within), show(value))
  end
end

function Expectation:truthy()
  local value = of(self, "truthy")
  if not value or value == null then fail("the value is not truthy", "a value", show(value)) end
end

function Expectation:falsy()
  local value = of(self, "falsy")
  if value and value ~= null then fail("the value is not falsy", "nil or false", show(value)) end
end

function Expectation:matches(pattern)
  local value = of(self, "matches")
  if type(value) ~= "string" or not value:find(pattern) then
    fail("the text does not match", "text like " .. show(pattern), show(value))
  end
end

function Expectation:fails(code)
  local call = of(self, "fails")
  if type(call) ~= "function" then error("expect(function() ... end):fails(code) takes a function that is to fail", 2) end
  local wanted = code == nil and "an error" or "the error " .. show(code)
  local results = table.pack(pcall(call))
  if results[1] then fail("nothing failed", wanted, "it returned " .. show(results[2])) end
  local thrown = results[2]
  if code == nil then return thrown end
  local told = type(thrown) == "table" and thrown.code or nil
  if told == code then return thrown end
  local message = type(thrown) == "table" and thrown.message or thrown
  fail("it failed otherwise", wanted, (told and show(told) .. ": " or "") .. tostring(message))
end

return function(value)
  return setmetatable({ value = value, is_expectation = true }, {
    __index = function(_, name)
      local method = Expectation[name]
      if method then return method end
      error("expect(value) has no '" .. tostring(name) .. "': equals, differs, near, truthy, falsy, matches, fails", 2)
    end,
  })
end
`;
