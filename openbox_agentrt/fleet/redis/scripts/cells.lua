-- Cells: one hash, and one sorted set with the edges of a window's buckets, or with values and their last use.
-- The same judge as `fleet/judge`, in the same order.
local LARGEST = 9007199254740991
local specs = {}
local cells = {}

local function miss(c)
  c.unread = int(c.now) .. ' ' .. req.lease
  c.moved = true
end

local function forget(c)
  call('DEL', c.hash, c.set)
  c.live, c.done, c.total, c.given = 0, 0, 0, 0
  c.unread, c.last = false, false
end

local function turn(c)
  local edges = c.spec.p
  local period
  for i = 1, #edges - 1 do
    if c.now >= edges[i] and c.now < edges[i + 1] then
      period, c.ends = int(edges[i]), edges[i + 1]
    end
  end
  if not period then
    c.bad = true
  elseif c.period ~= period then
    if c.period ~= '' then forget(c) end
    c.period, c.moved = period, true
  end
end

local function expire(c)
  local before = int(c.now - c.spec.w)
  for _, at in ipairs(call('ZRANGEBYSCORE', c.set, '-inf', '(' .. before)) do
    if c.spec.k == 'distinct' then
      call('HDEL', c.hash, 'v' .. at)
    else
      c.total = c.total - (call('HGET', c.hash, 'b' .. at) or 0)
      call('HDEL', c.hash, 'b' .. at)
    end
    call('ZREM', c.set, at)
    c.moved = true
  end
  if c.unread and tonumber(c.unread:match('^%d+')) < tonumber(before) then
    c.unread, c.moved = false, true
  end
end

local function open(position)
  local c = cells[position]
  if c then return c end
  local hash, set = KEYS[4 + 2 * position], KEYS[5 + 2 * position]
  local v = call('HMGET', hash, 'l', 'd', 't', 'u', 'n', 'p', 'g', 'x')
  c = {hash = hash, set = set, spec = specs[position + 1], live = tonumber(v[1] or 0),
       done = tonumber(v[2] or 0), total = tonumber(v[3] or 0), unread = v[4],
       now = math.max(now, tonumber(v[5] or 0)), period = v[6] or '', given = tonumber(v[7] or 0),
       last = v[8] and tonumber(v[8])}
  c.was_unread = c.unread
  cells[position] = c
  if c.spec.p then turn(c) end
  if c.spec.w then expire(c) end
  return c
end

local function lasts(c)
  if c.spec.p and c.ends then return c.ends - c.now end
  if c.spec.w then return c.spec.w + c.spec.b end
end

local function save_all()
  for _, c in pairs(cells) do
    if c.moved then
      local fields = {'n', int(c.now)}
      local function set(name, value) fields[#fields + 1] = name; fields[#fields + 1] = value end
      if c.spec.k == 'tally' then
        set('l', int(c.live))
        set('d', int(c.done))
      else
        set('t', int(c.total))
      end
      if c.spec.p then set('p', c.period) end
      if c.given > 0 then set('g', int(c.given)) end
      if c.last then set('x', int(c.last)) end
      if c.unread then set('u', c.unread) end
      -- This before any write that frees memory: after such a one, a full server takes every other.
      call('HSET', c.hash, unpack(fields))
      if c.was_unread and not c.unread then call('HDEL', c.hash, 'u') end
      local left = lasts(c)
      if left then
        local ttl = int(left / 1000 + 60000)
        call('PEXPIRE', c.hash, ttl)
        call('PEXPIRE', c.set, ttl)
      end
    end
  end
end

local function size(c) return call('ZCARD', c.set) end
local function count(c) if c.spec.w then return c.total end; return c.live end

local function put(c, amount)
  if math.abs(c.total + amount) > LARGEST then
    miss(c)
    return ''
  end
  c.total, c.moved = c.total + amount, true
  if not c.spec.w then return '-' end
  local at = int(math.floor(c.now / c.spec.b))
  local old = call('HGET', c.hash, 'b' .. at)
  call('HSET', c.hash, 'b' .. at, int((old or 0) + amount))
  -- A bucket of what limits ends with its youngest member, one of what allows with its oldest.
  if not old or (c.spec.k ~= 'marks' and c.spec.k ~= 'tokens') then call('ZADD', c.set, int(c.now), at) end
  return at
end

local function take(c, at, amount)
  if at ~= '-' then
    local old = call('HGET', c.hash, 'b' .. at)
    if not old then return end
    if tonumber(old) == amount then
      call('HDEL', c.hash, 'b' .. at)
      call('ZREM', c.set, at)
    else
      call('HSET', c.hash, 'b' .. at, int(old - amount))
    end
  end
  c.total, c.moved = c.total - amount, true
end

local function use(c, values)
  for _, value in ipairs(values) do
    call('ZADD', c.set, int(c.now), value)
    call('HINCRBY', c.hash, 'v' .. value, 1)
  end
  c.moved = true
end

local function unuse(c, values)
  for _, value in ipairs(values) do
    local old = tonumber(call('HGET', c.hash, 'v' .. value) or 0)
    if old > 1 then
      call('HSET', c.hash, 'v' .. value, int(old - 1))
    else
      call('HDEL', c.hash, 'v' .. value)
      call('ZREM', c.set, value)
    end
  end
  c.moved = true
end
