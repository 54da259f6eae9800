-- KEYS: ..., the cell's hash and set. There is no lease.
local hash, set = KEYS[4], KEYS[5]
if call('EXISTS', hash) == 0 then return reply('no') end
local v = call('HMGET', hash, 'n', 'x', 'p')
call('HDEL', hash, 'u')
call('HSET', hash, 'n', int(math.min(tonumber(v[1] or now), now)))
if v[2] then call('HSET', hash, 'x', int(math.min(tonumber(v[2]), now))) end
-- The next step takes the period that is then, with what was counted in it.
if v[3] and v[3] ~= '' and tonumber(v[3]) > now then call('HSET', hash, 'p', '') end
for _, at in ipairs(call('ZRANGEBYSCORE', set, '(' .. int(now), '+inf')) do
  call('ZADD', set, int(now), at)
end
return reply('ok')
