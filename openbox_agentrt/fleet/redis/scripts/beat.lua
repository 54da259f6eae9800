-- KEYS: ..., the workers. There is no lease.
local WORKERS = KEYS[4]
if req.leave then
  for _, field in ipairs(call('HKEYS', WORKER)) do
    if field:sub(1, 1) == '=' then return reply('open') end
  end
  call('DEL', WORKER)
  call('ZREM', WORKERS, req.worker)
  return reply('ok')
end
if not req.join and not alive then return reply('dead') end
if req.lost then call('HSETNX', META, 'lost', int(now)) end
local to = int(now + req.lease_us)
call('HSET', WORKER, 'until', to)
-- What it was told before is not lost once more.
if ops < req.acked then call('HSET', WORKER, 'ops', int(req.acked)) end
call('ZADD', WORKERS, to, req.worker)
return reply('ok', {dead = overdue(WORKERS)})
