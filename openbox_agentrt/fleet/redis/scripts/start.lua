local had = call('HMGET', LEASE, 's', 'w')
if had[1] == 's' and had[2] == req.worker then return reply('ok', {state = 's'}) end
if had[1] ~= 'r' or had[2] ~= req.worker or not alive then return reply('no', {state = had[1] or ''}) end
call('HSET', LEASE, 's', 's')
tick()
return reply('ok', {state = 's'})
