-- The comparisons that decide, and when waiting helps.
local function has(c, n)
  if not c.spec.w then return c.done >= n end
  if n == 1 then return c.last and c.now - c.last <= c.spec.w end
  return c.total >= n
end

local function holds(g)
  local c = open(g.c)
  if g.k == 'need' then return has(c, g.n) end
  if g.k == 'ban' then return count(c) == 0 end
  if g.k == 'cap' then return count(c) < g.n end
  if g.k == 'token' then return c.total >= 1 end
  if c.unread then return false end
  if g.k == 'spend' then
    if not g.a then return c.total < g.n end
    return c.total + g.a <= g.n
  end
  if not g.v then return size(c) < g.n end
  local new = 0
  for _, value in ipairs(g.v) do
    if not call('ZSCORE', c.set, value) then new = new + 1 end
  end
  return size(c) + new <= g.n
end

local function fits(g, left)
  if g.k == 'spend' and g.a then return left + g.a <= g.n end
  if g.k == 'distinct' and g.v then return left + #g.v <= g.n end
  if g.k == 'ban' then return left < 1 end
  return left < g.n
end

local function free_at(g, c)
  if g.k == 'need' or g.k == 'token' then return nil end
  if c.ends then return fits(g, 0) and c.ends or nil end
  if not c.spec.w or g.k == 'distinct' or c.unread then return nil end
  local left = c.total
  local rows = call('ZRANGE', c.set, 0, -1, 'WITHSCORES')
  for i = 1, #rows, 2 do
    left = left - (call('HGET', c.hash, 'b' .. rows[i]) or 0)
    if fits(g, left) then return rows[i + 1] + c.spec.w + 1 end
  end
end

-- guard live done total known unread last free_at period_end
local function broken(position, g)
  local c = open(g.c)
  local function number(x) if x then return int(x) end; return '-' end
  return table.concat({position - 1, int(c.live), int(c.done), int(c.total),
                       number(c.spec.k == 'distinct' and size(c)), c.unread and '1' or '0', number(c.last),
                       number(free_at(g, c)), number(c.ends)}, ' ')
end
