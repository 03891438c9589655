-- Timers, messages and commands for the benchmark: each that happens tells for when it was due.

local Timed = class "Timed"

function Timed:set(due)
  schedule.at(due):ring(due)
end

function Timed:ring(due)
  emit("rang", { due = due })
end

-- To one of many, round and round.
function Timed:post(to)
  send(Timed(to)):ring(now())
end

return Timed
