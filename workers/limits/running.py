"""Lua for the attempts of one run that execute, and for those that are parked until one has ended.

R:running   set    "LEASE|TOKEN|" of each attempt that executes
R:waiting   zset   id of a parked delivery -> order: the newest leg first, then as they came
"""

from __future__ import annotations

from typing import Final

from workers.limits.places import IS_HELD, KEEP_MS, PURGE_MS

LEG: Final = 1_000_000_000_000
FULL_S: Final = 60.0
"""A parked attempt is woken by one that ends; so much later it looks for itself, if that was lost. Those
far behind wait longer, up to `FULL_MOST_S`: 100,000 of them must not come every minute."""
FULL_MOST_S: Final = 3_600.0

_COMMON: Final = f"""
local running, waiting = KEYS[1], KEYS[2]
local at_most = tonumber(ARGV[2])
local function free(looks_anyway)
    local count = redis.call('SCARD', running)
    if (looks_anyway or count >= at_most) and redis.call('SET', running .. ':purged', 1, 'NX', 'PX', {PURGE_MS}) then
        for _, member in ipairs(redis.call('SMEMBERS', running)) do
            if not is_held(member) then redis.call('SREM', running, member) end
        end
        count = redis.call('SCARD', running)
    end
    return at_most - count
end
"""

BEGIN: Final = f"""
{IS_HELD}{_COMMON}
if redis.call('SISMEMBER', running, ARGV[1]) == 1 then return 1 end
if free() < 1 then return 0 end
redis.call('SADD', running, ARGV[1])
redis.call('PEXPIRE', running, {KEEP_MS})
return 1
"""

END: Final = f"""
{IS_HELD}{_COMMON}
redis.call('SREM', running, ARGV[1])
local parked, messages = KEYS[3], KEYS[4]
for _ = 1, free(redis.call('ZCARD', waiting) > 0) do
    local id
    repeat
        id = redis.call('ZRANGE', waiting, 0, 0)[1]
        if not id then return 0 end
        redis.call('ZREM', waiting, id)
    until redis.call('ZSCORE', parked, id)
    local found = redis.call('HGET', messages, id)
    if found then
        local waiters, lane, message = string.match(found, '^([^\\n]*)\\n([^\\n]*)\\n(.*)$')
        redis.call('RPUSH', lane, message)
        redis.call('SREM', waiters, id)
    end
    redis.call('ZREM', parked, id)
    redis.call('HDEL', messages, id)
end
return 1
"""
"""Whoever is woken goes to the head of its lane at once, not with the next heartbeat."""

WAIT: Final = f"""
{IS_HELD}{_COMMON}
local id, leg = ARGV[1], tonumber(ARGV[3])
-- If one has ended between our look and this moment, it woke nobody: be due at once.
if free() > 0 then return redis.call('ZADD', KEYS[3], 'XX', 0, id) end
local order = redis.call('INCR', waiting .. ':arrivals')
redis.call('ZADD', waiting, 'NX', order - leg * {LEG}, id)
redis.call('PEXPIRE', waiting, {KEEP_MS})
redis.call('PEXPIRE', waiting .. ':arrivals', {KEEP_MS})
local rounds = math.floor(redis.call('ZRANK', waiting, id) / at_most)
local due = redis.call('TIME')[1] + math.min({FULL_MOST_S}, {FULL_S} * (1 + rounds))
return redis.call('ZADD', KEYS[3], 'XX', due, id)
"""
"""Comes after the delivery was parked: an end in between finds it, or is found by it."""
