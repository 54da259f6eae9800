-- KEYS: ..., the session, its pieces, the workers. ARGV after the request: names and values of pieces.
local SESSION, PIECES, WORKERS = KEYS[4], KEYS[5], KEYS[6]
if not alive then return reply('dead') end

local had = call('HMGET', SESSION, 'birth', 'owner', 'version', 'writer', 'ended')
local birth, owner, version = had[1], had[2], tonumber(had[3] or 0)
if birth then
  if birth ~= req.birth or had[5] then
    return reply((had[5] and req['end'] and birth == req.birth) and 'again' or 'no')
  end
  if version >= req.version and had[4] == req.worker then return reply('again') end
  if owner ~= req.worker then
    -- Whoever had it is dead or has let go of it, and nobody has written since: then it is still ours.
    local till = owner ~= '' and call('ZSCORE', WORKERS, owner)
    if (till and tonumber(till) >= now) or version ~= req.base then return reply('no') end
  end
  -- One that was made before this worker took the session again, from somebody else.
  if version > req.base and had[4] ~= req.worker then return reply('no') end
  if version < req.base and not req.whole then return reply('gone') end
elseif not req.whole then
  return reply('gone')
end

local idle = int(math.ceil(req.idle_us / 1000))
local over = req.release or req['end']
-- This before any write that frees memory: after such a one, a full server takes every other.
call('HSET', SESSION, 'birth', req.birth, 'version', int(req.version), 'writer', req.worker,
     'owner', over and '' or req.worker)
if req['end'] then call('HSET', SESSION, 'ended', '1') end
local function put(first, last) call('HSET', PIECES, unpack(ARGV, first, last)) end
if req.whole or req['end'] then call('DEL', PIECES) end
if not req['end'] then
  for first = 2, #ARGV, 1000 do put(first, math.min(first + 999, #ARGV)) end
  for _, name in ipairs(req.dropped or {}) do call('HDEL', PIECES, name) end
end
call('PEXPIRE', SESSION, idle)
call('PEXPIRE', PIECES, idle)
tick()
return reply('ok')
