-- KEYS: ..., the guardian, the workers.
local GUARDIAN, WORKERS = KEYS[4], KEYS[5]
local had = call('HMGET', LEASE, 's', 'w')
if had[1] == 'r' and had[2] == req.guardian then return reply('ok', {state = 'r'}) end
if had[1] ~= 'r' or had[2] ~= req.worker or not alive then return reply('no', {state = had[1] or ''}) end
local to = int(now + req.for_us)
call('HSET', GUARDIAN, 'until', to, '=' .. req.lease, '')
call('ZADD', WORKERS, to, req.guardian)
call('HDEL', WORKER, '=' .. req.lease)
call('HSET', LEASE, 'w', req.guardian, 'note', req.note)
tick()
return reply('ok', {state = 'r'})
