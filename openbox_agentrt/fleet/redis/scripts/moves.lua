-- What a call does to a cell in each phase. A ticket is bucket or time, period, count given, edge.
local function ticket(c, at, edge)
  return at .. '|' .. c.period .. '|' .. int(c.given) .. '|' .. (edge or '')
end

local function move(m)
  local c = open(m.c)
  local kind = c.spec.k
  if kind == 'tally' then
    c.live, c.moved = c.live + 1, true
    return ticket(c, '-')
  elseif kind == 'stamps' then
    return ticket(c, put(c, 1))
  elseif m.d then
    return ticket(c, 'D')
  elseif kind == 'sum' and (m.a or 0) > 0 then
    return ticket(c, put(c, m.a))
  elseif kind == 'distinct' then
    use(c, m.v or {})
    return ticket(c, int(c.now))
  elseif m.k == 'take' and c.total >= 1 then
    if not c.spec.w then
      local t = ticket(c, '-')
      take(c, '-', 1)
      return t
    end
    local first = call('ZRANGE', c.set, 0, 0, 'WITHSCORES')
    local t = ticket(c, first[1], first[2])
    take(c, first[1], 1)
    return t
  end
  return ticket(c, '')
end

local function give_back(m, c, at, given, edge)
  if m.o and tonumber(given) ~= c.given then return end
  if edge ~= '' and c.spec.w then
    if c.now - edge > c.spec.w then return end
    local old = call('HGET', c.hash, 'b' .. at)
    call('HSET', c.hash, 'b' .. at, int((old or 0) + 1))
    if not old then call('ZADD', c.set, edge, at) end
  end
  c.total, c.moved = c.total + 1, true
end

local function undo(m, t)
  local c = open(m.c)
  local at, period, given, edge = t:match('^(.-)|(.-)|(.-)|(.*)$')
  if at == '' or at == 'D' or period ~= c.period then return end
  local kind = c.spec.k
  if kind == 'tally' then
    c.live, c.moved = math.max(0, c.live - 1), true
  elseif kind == 'stamps' then
    take(c, at, 1)
  elseif kind == 'sum' then
    take(c, at, m.a or 0)
  elseif kind == 'distinct' then
    -- Once its own use is out of the window, every use that is counted is somebody else's.
    if not c.spec.w or c.now - at <= c.spec.w then unuse(c, m.v or {}) end
  elseif m.k == 'take' then
    give_back(m, c, at, given, edge)
  end
end

local function succeed(m, c, t)
  local kind = c.spec.k
  if kind == 'tally' then
    if t:match('^.-|(.-)|') == c.period then c.done, c.moved = c.done + 1, true end
  elseif kind == 'marks' then
    put(c, 1)
    c.last = c.now
  elseif m.k == 'give' then
    c.given = c.given + 1
    if m.o then
      for _, at in ipairs(call('ZRANGE', c.set, 0, -1)) do call('HDEL', c.hash, 'b' .. at) end
      call('DEL', c.set)
      c.total = 0
    end
    put(c, 1)
  end
end

-- Returns whether what was measured broke the limit.
local function measure(m, c, t, seen)
  if not seen then
    if t:sub(1, 2) == 'D|' then miss(c)
    elseif c.spec.k == 'sum' and (m.a or 0) < 0 then put(c, m.a) end
    return false
  end
  undo(m, t)
  if type(seen) == 'table' then
    use(c, seen)
    return m.n and size(c) > m.n
  end
  put(c, seen)
  return m.n and c.total > m.n
end

local function settle(m, t, to, seen)
  local c = open(m.c)
  if to == 'g' or (to == 'f' and m.r) then
    undo(m, t)
  elseif to == 'u' then
    if t:sub(1, 2) == 'D|' then miss(c) end
  elseif c.spec.k == 'sum' or c.spec.k == 'distinct' then
    return measure(m, c, t, seen)
  elseif to == 'c' then
    succeed(m, c, t)
  end
  return false
end
