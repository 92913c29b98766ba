-- Makes tables and strings, and keeps the newest.
local newest = {}
for number = 1, 40000 do newest[number % 100] = { "word " .. number } end
print(#newest)
