"""Lua for a place where executions wait for a slot: an endpoint's calls, environments of a kind.

Keys of the place P, all of which may be lost at any time:

    P:holders    hash   slot -> "ms when it came in:tokens it was guessed to take"
    P:runs       zset   run -> when it was last let in, counted in turns; only runs that wait
    P:queue:RUN  zset   slot -> order of arrival
    P:seen       hash   slot -> ms until which we believe that it still waits
    P:minute     hash   "r12" -> requests of second 12, "t12" -> tokens of second 12
    P:state      hash   turn, arrivals, not_before, tokens_at, tokens_for, level,
                        cut_at, full_at

Whoever is first in line lets itself in; the others ask again after as long as they are told. The first
in line is the longest waiting slot of the run that was let in the longest ago. A slot is named by the
lease of its attempt and the token that holds it, so that whoever finds the place full can see
which holders are dead.
"""

from __future__ import annotations

from typing import Final

KEEP_MS: Final = 7 * 86_400_000
"""A place that nobody comes to is forgotten."""
PURGE_MS: Final = 1_000
"""The dead among the holders are looked for at most so often."""
QUICK_MS: Final = 50
SLOW_MS: Final = 2_000
"""How soon those at the front, and those far behind, ask again."""
LONG_MS: Final = 15_000
"""Nobody is told to come back later than that: a dead one at the front would hold up the others."""
PATIENCE_MS: Final = 3_000
"""Whoever asks so much later than it was told to has lost its place in the queue."""
FIRST_LEVEL: Final = 4
MOST: Final = 100_000

_COMMON: Final = f"""
local P, slot = KEYS[1], ARGV[1]
local holders, runs, seen = P .. ':holders', P .. ':runs', P .. ':seen'
local minute, state = P .. ':minute', P .. ':state'
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function number(name) return tonumber(redis.call('HGET', state, name) or '0') end
local function keep()
    for _, key in ipairs({{holders, runs, seen, minute, state}}) do
        redis.call('PEXPIRE', key, {KEEP_MS})
    end
end
local function forget(run, who)
    local queue = P .. ':queue:' .. run
    redis.call('ZREM', queue, who)
    redis.call('HDEL', seen, who)
    if redis.call('ZCARD', queue) == 0 then redis.call('ZREM', runs, run) end
end
local function level() return tonumber(redis.call('HGET', state, 'level') or '{FIRST_LEVEL}') end
local function at_most(at_once, adaptive)
    if not adaptive then return at_once end
    local most = at_once > 0 and at_once or {MOST}
    return math.max(1, math.min(most, math.floor(level())))
end
"""

IS_HELD: Final = """
local function is_held(member)
    local lease, token = string.match(member, '^(.*)|([^|]*)|[^|]*$')
    local value = lease and redis.call('GET', lease)
    return value and string.find(value, '{"token":"' .. token .. '"', 1, true) == 1
end
"""

ENTER: Final = f"""
{_COMMON}{IS_HELD}
local run, at_once, per_minute = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local tokens_per_minute, adaptive = tonumber(ARGV[5]), ARGV[6] == '1'
local tokens, minute_ms = tonumber(ARGV[7]), tonumber(ARGV[8])
local limit = at_most(at_once, adaptive)
if redis.call('HEXISTS', holders, slot) == 1 then return {{1, limit}} end

-- Take a place in the queue, and drop those at its front who have stopped asking.
local queue = P .. ':queue:' .. run
local waits = redis.call('ZSCORE', queue, slot)
local function join()
    if waits then return end
    redis.call('ZADD', queue, redis.call('HINCRBY', state, 'arrivals', 1), slot)
    redis.call('PEXPIRE', queue, {KEEP_MS})
    redis.call('ZADD', runs, 'NX', number('turn'), run)
    waits = true
end
local function front()
    while true do
        local first = redis.call('ZRANGE', runs, 0, 0)[1]
        if not first then return end
        local who = redis.call('ZRANGE', P .. ':queue:' .. first, 0, 0)[1]
        if who == slot then return who end
        if who and tonumber(redis.call('HGET', seen, who) or '0') >= now then return who end
        if who then forget(first, who) else redis.call('ZREM', runs, first) end
    end
end
local first_in_line = front()
local position = 0
if waits or redis.call('ZCARD', runs) > 0 then
    join()
    local rank = redis.call('ZRANK', queue, slot)
    position = rank * redis.call('ZCARD', runs) + (redis.call('ZRANK', runs, run) or 0)
end

-- How many may come in now, and if none, when that changes by itself.
local free, again = {MOST}, 0
if limit > 0 then
    local count = redis.call('HLEN', holders)
    if count >= limit and redis.call('SET', P .. ':purged', 1, 'NX', 'PX', {PURGE_MS}) then
        for _, member in ipairs(redis.call('HKEYS', holders)) do
            if not is_held(member) then redis.call('HDEL', holders, member) end
        end
        count = redis.call('HLEN', holders)
    end
    free = limit - count
    if adaptive and free <= 1 then redis.call('HSET', state, 'full_at', now) end
end
again = math.max(again, number('not_before') - now)
local counts = {{r = {{}}, t = {{}}}}
local sums, seconds = {{r = 0, t = 0}}, {{}}
if per_minute > 0 or tokens_per_minute > 0 then
    local fields = redis.call('HGETALL', minute)
    for i = 1, #fields, 2 do
        local kind, second = string.sub(fields[i], 1, 1), tonumber(string.sub(fields[i], 2))
        if second * 1000 + 1000 + minute_ms <= now then
            redis.call('HDEL', minute, fields[i])
        else
            counts[kind][second] = tonumber(fields[i + 1])
            sums[kind] = sums[kind] + tonumber(fields[i + 1])
            seconds[#seconds + 1] = second
        end
    end
    table.sort(seconds)
end
local function until_room(kind, most, wanted)
    local sum = sums[kind]
    for _, second in ipairs(seconds) do
        if sum + wanted <= most then break end
        local gone = counts[kind][second] or 0
        sum, counts[kind][second] = sum - gone, 0
        if gone > 0 then again = math.max(again, second * 1000 + 1000 + minute_ms - now) end
    end
end
if per_minute > 0 then
    free = math.min(free, per_minute - sums.r)
    if free < 1 and sums.r >= per_minute then until_room('r', per_minute, 1) end
end
if tokens_per_minute > 0 then
    tokens = math.min(tokens, tokens_per_minute)
    -- A large call at the front must not be overtaken for ever by small ones behind it.
    if position > 0 and redis.call('HGET', state, 'tokens_for') == first_in_line then
        again = math.max(again, 1, number('tokens_at') - now)
    end
    if sums.t + tokens > tokens_per_minute then
        until_room('t', tokens_per_minute, tokens)
        if position == 0 then
            redis.call('HSET', state, 'tokens_at', now + again, 'tokens_for', slot)
        end
    end
end

if again <= 0 and position < free then
    if waits then
        redis.call('ZADD', runs, redis.call('HINCRBY', state, 'turn', 1), run)
        forget(run, slot)
    end
    redis.call('HSET', holders, slot, now .. ':' .. tokens)
    local second = t[1]
    if per_minute > 0 then redis.call('HINCRBY', minute, 'r' .. second, 1) end
    if tokens_per_minute > 0 then redis.call('HINCRBY', minute, 't' .. second, tokens) end
    keep()
    return {{1, limit}}
end
join()
local quick = {QUICK_MS} * math.max(1, position / math.max(limit, 4))
again = math.ceil(math.min(again, {LONG_MS}) + math.min(quick, {SLOW_MS}))
redis.call('HSET', seen, slot, now + again + {PATIENCE_MS})
keep()
return {{0, again}}
"""

LEAVE: Final = f"""
{_COMMON}
local run, used, adaptive = ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
forget(run, slot)
local held = redis.call('HGET', holders, slot)
if not held then return 0 end
redis.call('HDEL', holders, slot)
local since, guess = string.match(held, '^(%d+):(%d+)$')
if not since then return 1 end  -- the server was busy
if used >= 0 then
    local field = 't' .. math.floor(tonumber(since) / 1000)
    if redis.call('HEXISTS', minute, field) == 1 then
        redis.call('HINCRBY', minute, field, used - tonumber(guess))
    end
end
if adaptive and tonumber(since) > number('cut_at') then
    local now_at = level()
    -- A limit that nobody ran into says nothing about what the server can bear.
    if number('full_at') >= tonumber(since) then
        redis.call('HSET', state, 'level', now_at + 1 / now_at)
    end
end
return 1
"""
"""A full round that went well raises an adaptive limit by one."""

SLOW_DOWN: Final = f"""
{_COMMON}
local for_ms, at_once, adaptive = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1'
redis.call('HSET', state, 'not_before', math.max(number('not_before'), now + for_ms))
local held = redis.call('HGET', holders, slot)
local since = held and string.match(held, '^(%d+):')
-- Calls that were on their way together are refused together: that is one reason, not many.
if adaptive and (not since or tonumber(since) > number('cut_at')) then
    redis.call('HSET', state, 'level', math.max(1, at_most(at_once, true) / 2), 'cut_at', now)
end
if held then redis.call('HSET', holders, slot, 'busy') end
keep()
return 1
"""
