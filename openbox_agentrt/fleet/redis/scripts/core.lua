-- Every step begins with this: its time, the store's generation, and the worker that asks.
--
-- KEYS 1 to 3 are what is kept about the store, the worker, and the lease. ARGV[1] is the request and, to
-- reserve, ARGV[2] the plan, which is kept as it came. For whoever edits: 0 is true in Lua, an empty table is
-- written as {}, and cjson writes numbers with 14 digits, so what is answered or kept is text.
local req = cjson.decode(ARGV[1])
local call = redis.call
local META, WORKER, LEASE = KEYS[1], KEYS[2], KEYS[3]

local function int(x) return string.format('%.0f', x) end

local now = req.at
if not now then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end

local generation = call('HGET', META, 'generation')
local function renew()
  generation = req.fresh
  call('HSET', META, 'generation', generation, 'since', int(now))
  -- Somebody knows steps that are not here: it is no new store.
  if (req.acked or 0) > 0 then call('HSET', META, 'lost', int(now)) end
end
if not generation then renew() end

local worker = call('HMGET', WORKER, 'until', 'ops')
local ops = tonumber(worker[2] or 0)
if worker[1] and ops < req.acked then
  renew()
  ops = req.acked
  call('HSET', WORKER, 'ops', int(ops))
end
local alive = worker[1] and tonumber(worker[1]) >= now

local function tick()
  if worker[1] then
    ops = ops + 1
    call('HSET', WORKER, 'ops', int(ops))
  end
end

local function overdue(workers)
  return table.concat(call('ZRANGEBYSCORE', workers, '-inf', '(' .. int(now), 'LIMIT', 0, 16), ' ')
end

-- said, now, generation, ops, state, broken, over, dead, plan, note, until, session
local function reply(said, more)
  more = more or {}
  return {said, int(now), generation, int(ops), more.state or '', more.broken or '', more.over or '',
          more.dead or '', more.plan or '', more.note or '', more.until_ or '0', more.session or {}}
end
