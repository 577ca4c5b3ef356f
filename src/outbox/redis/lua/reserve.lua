#!lua flags=allow-oom
-- Numbers that nobody had before: ARGV[1] for jobs and tokens, ARGV[2] for dead letters; the first of each.
-- Those of jobs begin at the clock's microseconds, so that they go on growing when all keys were lost.
local function take(field, count)
    if redis.call('HEXISTS', KEYS[1], field) == 0 then
        local seed = 0
        if field == 'job' then
            local now = redis.call('TIME')
            seed = string.format('%.0f', now[1] * 1000000 + now[2])
        end
        redis.call('HSET', KEYS[1], field, seed)
    end
    return redis.call('HINCRBY', KEYS[1], field, count) - count + 1
end
return {take('job', tonumber(ARGV[1])), take('letter', tonumber(ARGV[2]))}
