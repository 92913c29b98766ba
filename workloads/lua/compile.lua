-- A compiler and interpreter at work: Lua compiles generated source text, piece by piece, and runs
-- what it compiled; the pieces build tables, closures and strings. After mudlle's time.mud.

local rounds = tonumber(arg[1])
local seed = 1

local function random(bound)
  seed = (seed * 1103515245 + 12345) % 2147483648
  return seed // 65536 % bound
end

local function expression(depth)
  if depth == 0 then
    local kind = random(3)
    if kind == 0 then return tostring(random(1000)) end
    if kind == 1 then return "x" end
    return "#t"
  end
  local operators = { "+", "-", "*", "//" }
  local chosen = operators[random(4) + 1]
  local right = chosen == "//" and tostring(random(9) + 1) or expression(depth - 1)
  return "(" .. expression(depth - 1) .. " " .. chosen .. " " .. right .. ") % 65536"
end

local function piece(number)
  local lines = { "local t, x = {}, ...", "local function make(n) return function(m) return n + m end end" }
  for i = 1, 12 do
    lines[#lines + 1] = string.format("t[#t + 1] = %s", expression(4))
    lines[#lines + 1] = string.format("t['k%d_%d'] = make(%s)(x)", number, i, expression(2))
  end
  lines[#lines + 1] = "local parts = {}"
  lines[#lines + 1] = "for i = 1, #t do parts[#parts + 1] = string.format('%d', t[i]) .. ',' .. i end"
  lines[#lines + 1] = "return table.concat(parts, ';')"
  return table.concat(lines, "\n")
end

local total = 0
local kept = {}
for round = 1, rounds do
  local chunk = assert(load(piece(round), "piece" .. round))
  -- Some compiled pieces stay, as definitions do in a running system.
  kept[round % 500 + 1] = chunk
  for x = 1, 6 do
    local text = chunk(x)
    for digit in text:gmatch("%d+") do total = (total * 31 + tonumber(digit)) % 1000000007 end
  end
end
print(total)
