-- If every condition holds, runs every command, else nothing: what WATCH, MULTI and EXEC do, but by field.
-- KEYS: all of them, in the order of keys.rs. ARGV, one after the other:
--   our mark of ownership, the mark that it may replace
--   the number of this change, which this sender never uses twice
--   for each key the type that it must have, if it exists
--   how many conditions; of each: what is compared, the key's place, field or index, the value
--   the commands; of each: how many arguments, the command, the key's place, the arguments
local at = 0
local function word()
    at = at + 1
    return ARGV[at]
end

local ours, former, number = word(), word(), tonumber(word())
for place = 1, #KEYS do
    local wanted, is = word(), redis.call('TYPE', KEYS[place]).ok
    if is ~= 'none' and is ~= wanted then
        return {'type', KEYS[place], is}
    end
end
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ours and owner ~= former then
    return {'owner', owner}
end
-- Its answer was lost on the way, and it was sent again.
local sent = redis.call('GET', KEYS[2])
if sent and tonumber(sent) >= number then
    return {'done'}
end

for _ = 1, tonumber(word()) do
    local what, key, field, value = word(), KEYS[tonumber(word())], word(), word()
    local is
    if what == 'field' then
        is = redis.call('HGET', key, field) or ''
    else
        is = redis.call('LINDEX', key, field)
        if is and what == 'size' then
            is = #is .. ':' .. string.sub(is, 1, 4096)
        end
    end
    if is ~= value then
        return {'changed'}
    end
end

if owner ~= ours then
    redis.call('SET', KEYS[1], ours)
end
while at < #ARGV do
    local count, command, key, arguments = tonumber(word()), word(), KEYS[tonumber(word())], {}
    for i = 1, count do
        arguments[i] = word()
    end
    if command == 'LMOVE' then
        redis.call('LMOVE', key, KEYS[tonumber(arguments[1])], 'LEFT', 'RIGHT')
    else
        redis.call(command, key, unpack(arguments))
    end
end
redis.call('SET', KEYS[2], number, 'EX', 600)
return {'done'}
