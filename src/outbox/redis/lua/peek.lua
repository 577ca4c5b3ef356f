#!lua flags=no-writes,allow-oom
-- Lines of a list, from the index ARGV[1] on: of each its size and its text, of a longer one than ARGV[3] the first 4096
-- bytes. At most ARGV[2] lines, and no more once ARGV[4] bytes were touched: the server copies a line whole to look at it.
local lines, bytes = {}, 0
local from = tonumber(ARGV[1])
for index = from, from + tonumber(ARGV[2]) - 1 do
    local line = redis.call('LINDEX', KEYS[1], index)
    if not line then
        break
    end
    local size = #line
    bytes = bytes + size
    if size > tonumber(ARGV[3]) then
        line = string.sub(line, 1, 4096)
    end
    lines[#lines + 1] = size
    lines[#lines + 1] = line
    if bytes >= tonumber(ARGV[4]) then
        break
    end
end
return lines
