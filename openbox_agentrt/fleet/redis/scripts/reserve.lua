-- KEYS: ..., two per cell, the workers. ARGV[2]: the plan.
local WORKERS = KEYS[#KEYS]
local had = call('HGET', LEASE, 's')
if had then return reply(had == 'g' and 'gone' or 'ok', {state = had}) end
if not alive then return reply('dead') end
if req.generation ~= '' and req.generation ~= generation and not req.force then return reply('lost') end
if req.by and now > req.by and not req.force then return reply('stale') end

local plan = cjson.decode(ARGV[2])
specs = plan.c
local moves = plan.m or {}
local bad = false
for position = 0, #specs - 1 do bad = open(position).bad or bad end
if bad then
  save_all()
  return reply('edges')
end

local reports, stops = {}, false
for position, guard in ipairs(req.guards) do
  if not holds(guard) then
    reports[#reports + 1] = broken(position, guard)
    stops = stops or guard.e
  end
end
local told = table.concat(reports, ';')
if stops and not req.force then
  save_all()
  return reply('no', {broken = told, dead = overdue(WORKERS)})
end
if req.dry then
  save_all()
  return reply('ok', {broken = told})
end

local tickets = {}
for position, m in ipairs(moves) do tickets[position] = move(m) end
save_all()
tick()
local state = req.started and 's' or 'r'
call('HSET', LEASE, 's', state, 'w', req.worker, 'q', ARGV[2], 't', table.concat(tickets, ';'))
call('HSET', WORKER, '=' .. req.lease, '')
return reply('ok', {broken = told, state = state})
