-- KEYS: ..., the guardian, the workers.
local GUARDIAN, WORKERS = KEYS[4], KEYS[5]
local had = call('HMGET', LEASE, 's', 'w', 'q', 'note')
if had[1] ~= 'r' or not alive then return reply('no', {state = had[1] or ''}) end
if req.by and now > req.by then return reply('stale', {state = 'r'}) end
if had[2] ~= req.worker then
  local to = call('HGET', GUARDIAN, 'until')
  if had[2] ~= req.guardian or not to or tonumber(to) < now then return reply('no', {state = 'r'}) end
  call('HSET', LEASE, 'w', req.worker)
  call('HSET', WORKER, '=' .. req.lease, '')
  call('DEL', GUARDIAN)
  call('ZREM', WORKERS, req.guardian)
  tick()
end
return reply('ok', {state = 'r', plan = had[3], note = had[4]})
