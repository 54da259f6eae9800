-- KEYS: ..., the session, its pieces, the workers.
local SESSION, PIECES, WORKERS = KEYS[4], KEYS[5], KEYS[6]
if not alive then return reply('dead') end
if req.by and now > req.by then return reply('stale') end

local had = call('HMGET', SESSION, 'birth', 'owner', 'version', 'ended', 'writer')
local birth, owner, version, writer = had[1], had[2], tonumber(had[3] or 0), had[5] or ''
if birth and owner ~= '' and owner ~= req.worker then
  local till = call('ZSCORE', WORKERS, owner)
  if till and tonumber(till) >= now then return reply('busy', {until_ = int(till)}) end
end
-- Whoever has it will write it again.
if not birth and now <= req.busy_until then return reply('busy', {until_ = int(req.busy_until)}) end
local lost = not birth and call('HGET', META, 'lost')
if lost and now <= lost + req.lease_us then
  return reply('lost', {until_ = int(lost + req.lease_us)})
end
local idle = int(math.ceil(req.idle_us / 1000))
if not birth or had[4] then
  -- A store that has lost a session gets it back from the worker that knows it; one that ended is over.
  birth = (not birth and req.birth ~= '' and req.birth) or req.fresh
  version, writer = 0, ''
  call('HSET', SESSION, 'birth', birth, 'version', '0', 'owner', req.worker)
  call('HDEL', SESSION, 'writer', 'ended')
  call('DEL', PIECES)
else
  call('HSET', SESSION, 'owner', req.worker)
end
call('PEXPIRE', SESSION, idle)
call('PEXPIRE', PIECES, idle)
tick()
local pieces, sent = {}, '0'
if birth ~= req.birth or version ~= req.version then
  pieces = call('HGETALL', PIECES)
  sent = '1'
end
local stand = {birth, int(version), writer, sent}
for _, text in ipairs(pieces) do stand[#stand + 1] = text end
return reply('ok', {session = stand})
