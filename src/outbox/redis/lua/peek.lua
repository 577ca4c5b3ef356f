#!lua flags=no-writes,allow-oom
-- The first lines of the list: of each its size and its text, of a longer one than ARGV[2] the first 4096 bytes.
-- At most ARGV[1] lines, and no more once ARGV[3] bytes have come together.
local lines, bytes = {}, 0
for index = 0, tonumber(ARGV[1]) - 1 do
    local line = redis.call('LINDEX', KEYS[1], index)
    if not line then
        break
    end
    local size = #line
    if size > tonumber(ARGV[2]) then
        line = string.sub(line, 1, 4096)
    end
    lines[#lines + 1] = size
    lines[#lines + 1] = line
    bytes = bytes + #line
    if bytes >= tonumber(ARGV[3]) then
        break
    end
end
return lines
