-- KEYS: ..., two per cell. WORKER is the lease's worker; a settler sends no `acked`.
local TOMBSTONE, DAY = 60000, 86400000
local had = call('HMGET', LEASE, 's', 'q', 't')
local state, how = had[1], req.how
local open_field = '=' .. req.lease

if not state then
  if how == 'undo' then
    -- The reserve may still be on its way: it finds its id used up.
    call('HSET', LEASE, 's', 'g', 'w', req.worker)
    call('PEXPIRE', LEASE, TOMBSTONE)
  end
  call('HDEL', WORKER, open_field)
  return reply('gone')
end
if how == 'settle' then
  if alive and not req.person then return reply('alive') end
  if state ~= 'r' and state ~= 's' then
    call('HDEL', WORKER, open_field)
    return reply('again', {state = state})
  end
end
local to = ({commit = 'c', fail = 'f', undo = 'g', lose = 'u'})[how] or (state == 'r' and 'g' or 'u')
if state == to then return reply('again', {state = to}) end
if not had[2] or state == 'c' or state == 'f' or (state == 'g' and how == 'settle') then
  return reply('no', {state = state})
end

local plan = cjson.decode(had[2])
specs = plan.c
local moves = plan.m or {}
local tickets = {}
for t in (had[3] .. ';'):gmatch('(.-);') do tickets[#tickets + 1] = t end
for position = 0, #specs - 1 do open(position) end
if state == 'g' then
  for position, m in ipairs(moves) do tickets[position] = move(m) end
end
local over = {}
for position, m in ipairs(moves) do
  local seen = req.measured and req.measured[tostring(position - 1)]
  if settle(m, tickets[position], to, seen) then over[#over + 1] = position - 1 end
end
save_all()
if how ~= 'settle' then tick() end
call('HSET', LEASE, 's', to)
if to == 'c' or to == 'f' then call('HDEL', LEASE, 'q', 't') end
local kept = TOMBSTONE
if to == 'u' then
  kept = DAY
  for _, spec in ipairs(specs) do kept = math.max(kept, (spec.w or 0) / 1000) end
end
call('PEXPIRE', LEASE, int(kept))
call('HDEL', WORKER, open_field)
return reply(state == 'g' and 'late' or 'ok', {over = table.concat(over, ' '), state = to})
