#!lua name=utxokeep_records_2
-- Conditional writes and reads of cells. A cell is a hash; its version is the field '@'.
-- All keys of a call are of one hash slot. Changing this text needs a new number in its names.

-- unpack puts its values on a stack of 8,000 places.
local CHUNK = 4000

local function call_in_chunks(command, key, list, from, count)
    local last = from + count - 1
    while from <= last do
        local to = math.min(from + CHUNK - 1, last)
        redis.call(command, key, unpack(list, from, to))
        from = to + 1
    end
end

-- Whether the clock of this server is past a time.
local function is_late(not_after_ms)
    if not_after_ms == '' then
        return false
    end
    local time = redis.call('TIME')
    return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) > tonumber(not_after_ms)
end

-- KEYS: cell, then the indexes that change.
-- ARGV: version expected ('' for none), new version, 'K' to keep or 'D' to delete, milliseconds until
-- it expires ('' for never), '1' where a barrier follows, milliseconds of the epoch after which it is
-- refused ('' for never), number of fields set, of fields unset; then names and values, names, and for
-- each change the place of its index in KEYS, its score ('' to remove), its member.
-- Answers 'D' for done, 'M' and the version found, or 'A' where there is no cell.
local function write(keys, args)
    local key, version, deletes = keys[1], args[2], args[3] == 'D'
    local found = redis.call('HGET', key, '@')
    if not found and redis.call('EXISTS', key) == 1 then
        return redis.error_reply('DAMAGED a cell without a version')
    end
    local is_again = not deletes and found == version
    if is_again or (found or '') ~= args[1] or is_late(args[6]) then
        -- WAIT counts from the last write of its connection, so what was found is written again.
        if args[5] == '1' then
            redis.call('HSET', key, '@', found or version)
            if not found then
                redis.call('DEL', key)
            end
        end
        if is_again then
            return 'D'
        end
        return found and 'M' .. found or 'A'
    end
    local sets, unsets = tonumber(args[7]), tonumber(args[8])
    local place = 9
    if deletes then
        redis.call('UNLINK', key)
    else
        redis.call('HSET', key, '@', version)
        call_in_chunks('HSET', key, args, place, 2 * sets)
        place = place + 2 * sets
        call_in_chunks('HDEL', key, args, place, unsets)
        place = place + unsets
        if args[4] ~= '' then
            redis.call('PEXPIRE', key, args[4])
        elseif found then
            redis.call('PERSIST', key)
        end
    end
    for at = place, #args, 3 do
        local index = keys[tonumber(args[at])]
        if args[at + 1] == '' then
            redis.call('ZREM', index, args[at + 2])
        else
            redis.call('ZADD', index, args[at + 1], args[at + 2])
        end
    end
    return 'D'
end

-- KEYS: cell. Answers its version, then names and values of all fields; nothing where it is absent.
local function all(keys, args)
    local found = redis.call('HGETALL', keys[1])
    local answer = { '' }
    for at = 1, #found, 2 do
        if found[at] == '@' then
            answer[1] = found[at + 1]
        else
            answer[#answer + 1] = found[at]
            answer[#answer + 1] = found[at + 1]
        end
    end
    if #found == 0 then
        return {}
    end
    return answer
end

-- Whether a comes before b, byte by byte: the operator of Lua follows the language of the server.
local function is_before(a, b)
    for at = 1, math.min(#a, #b) do
        local x, y = string.byte(a, at), string.byte(b, at)
        if x ~= y then
            return x < y
        end
    end
    return #a < #b
end

-- KEYS: index. ARGV: score and member to begin at, '1' to include that member, greatest score, rows
-- at most. Answers scores and members by turns.
local function scan(keys, args)
    local key, score, member, includes = keys[1], args[1], args[2], args[3] == '1'
    local low = redis.call('ZCOUNT', key, '-inf', '(' .. score)
    local high = low + redis.call('ZCOUNT', key, score, score)
    -- The first row of this score that is not before the place to begin at.
    while low < high do
        local middle = math.floor((low + high) / 2)
        local found = redis.call('ZRANGE', key, middle, middle)[1]
        if is_before(found, member) or (not includes and found == member) then
            low = middle + 1
        else
            high = middle
        end
    end
    local rows = redis.call('ZRANGE', key, low, low + tonumber(args[5]) - 1, 'WITHSCORES')
    local last, answer = tonumber(args[4]), {}
    for at = 1, #rows, 2 do
        if tonumber(rows[at + 1]) > last then
            break
        end
        answer[at] = rows[at + 1]
        answer[at + 1] = rows[at]
    end
    return answer
end

redis.register_function('utxokeep_write_2', write)
redis.register_function { function_name = 'utxokeep_all_2', callback = all, flags = { 'no-writes' } }
redis.register_function { function_name = 'utxokeep_scan_2', callback = scan, flags = { 'no-writes' } }
