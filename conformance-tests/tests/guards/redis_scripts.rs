//! Redis: more guards in its Lua, tried by the scripts themselves. What `redis.rs` leaves out is missed by the
//! whole store; what stands here is mostly made up for by the client, or by another way.

mod cases;
mod handover;
pub(crate) mod server;

use self::{
    cases::{
        a_batch_past_a_place, a_batch_with_one_waiting, a_buried_owner, a_changed_longest_lease,
        a_clean_up_by_another, a_clean_up_of_what_is_kept, a_client_that_was_told_long_ago,
        a_clock_that_went_back, a_failover_unheard_of, a_floor_far_ahead, a_ghost, a_held_lock,
        a_lease_above_the_longest, a_longer_longest_lease, a_lower_token, a_quarantine,
        a_quarantine_that_is_turned_on, a_raise_by_another, a_raise_far_ahead,
        a_raise_of_what_is_kept, a_release_by_another, a_renewal_above_the_longest_lease,
        a_renewal_of_what_is_gone, a_renewal_of_what_is_kept, a_renewal_with_a_shorter_lease,
        a_repeat, a_repeat_above_the_longest_lease, a_repeat_after_a_release_that_keeps,
        a_repeat_with_a_shorter_lease, a_token_above_the_floor, another_replication, another_run,
        other_settings, the_token_after_a_raise, tokens_that_are_set_back,
    },
    handover::{
        a_handover_above_a_floor, a_next_past_a_place, a_place_of_the_future,
        a_queue_that_ends_soon, a_release_that_keeps, without_memory,
    },
    server::{Server, Way},
};
use super::wire::{Guard, try_all};

const GUARDS: &[Guard<Server>] = &[
    Guard {
        what: "S6: the short way of an attempt refuses a ghost",
        texts: &[("if now > ARGV[2] + 0 or e[5]", "if e[5]")],
        case: |server| Box::pin(a_ghost(server, Way::Short)),
    },
    Guard {
        what: "S6: the long way refuses a ghost",
        texts: &[("if late(now) then return {'late'} end", "")],
        case: |server| Box::pin(a_ghost(server, Way::Long)),
    },
    Guard {
        what: "S6: a batch refuses a ghost",
        texts: &[("and now <= ARGV[#ARGV - 1] + 0 and token", "and token")],
        case: |server| Box::pin(a_ghost(server, Way::Batch)),
    },
    Guard {
        what: "S6: a release takes no ghost along",
        texts: &[("if late(now) or tonumber(ARGV[10]) > now", "if tonumber(ARGV[10]) > now")],
        case: |server| Box::pin(a_ghost(server, Way::LongNext)),
    },
    Guard {
        what: "S6: the long way looks for a tombstone",
        texts: &[(
            "if redis.call('EXISTS', KEYS[5]) == 1 then return busy",
            "if false then return busy",
        )],
        case: |server| Box::pin(a_buried_owner(server, Way::Long)),
    },
    Guard {
        what: "S6: a batch looks for what is in the way",
        texts: &[(
            "local free = call('EXISTS', unpack(KEYS, first, #KEYS)) == 0",
            "local free = true",
        )],
        case: |server| Box::pin(a_buried_owner(server, Way::Batch)),
    },
    Guard {
        what: "S6: a release looks for the tombstone of the next",
        texts: &[(
            "and redis.call('EXISTS', KEYS[5]) == 0 then\n  local token",
            "then\n  local token",
        )],
        case: |server| Box::pin(a_buried_owner(server, Way::Next)),
    },
    Guard {
        what: "S6: the long way of a release looks for it, too",
        texts: &[(
            "if next_ ~= '' and redis.call('EXISTS', KEYS[5]) == 0 then",
            "if next_ ~= '' then",
        )],
        case: |server| Box::pin(a_buried_owner(server, Way::LongNext)),
    },
    Guard {
        what: "S6: a clean-up leaves a tombstone",
        texts: &[("redis.call('SET', KEYS[5], '1', 'PX', TOMB_MS)", "")],
        case: |server| Box::pin(a_buried_owner(server, Way::Short)),
    },
    Guard {
        what: "S6: a repeat is the same grant",
        texts: &[("if record and string.sub(record, 1, 32) == owner\n", "if false\n")],
        case: |server| Box::pin(a_repeat(server)),
    },
    Guard {
        what: "section 4: whoever finds another run begins a quarantine",
        texts: &[("from = quarantine == 'on' and now + span or 0", "from = 0")],
        case: |server| Box::pin(another_run(server, Way::Long)),
    },
    Guard {
        what: "section 4: a batch compares the run id",
        texts: &[("open = e[1] == ARGV[1] and e[2]", "open = e[2]")],
        case: |server| Box::pin(another_run(server, Way::Batch)),
    },
    Guard {
        what: "section 4: a batch compares the replication id",
        texts: &[(
            "and e[2] == ARGV[2] and e[3] == ARGV[3] and e[4] == ARGV[4]",
            "and e[3] == ARGV[3] and e[4] == ARGV[4]",
        )],
        case: |server| Box::pin(another_replication(server, Way::Batch)),
    },
    Guard {
        what: "section 4: the long way compares the replication id",
        texts: &[(
            "if e[1] ~= ARGV[1] or e[2] ~= ARGV[2] then\n    local longest",
            "if e[1] ~= ARGV[1] then\n    local longest",
        )],
        case: |server| Box::pin(another_replication(server, Way::Long)),
    },
    Guard {
        what: "section 4: the long way waits for the quarantine",
        texts: &[(
            "if from > now then\n    if from - now > span",
            "if false then\n    if from - now > span",
        )],
        case: |server| Box::pin(a_quarantine(server, Way::Long)),
    },
    Guard {
        what: "section 4: the long way compares the settings",
        texts: &[(
            "if e[5] ~= ARGV[3] or e[6] ~= ARGV[4] then return nil",
            "if false then return nil",
        )],
        case: |server| Box::pin(other_settings(server, Way::Long)),
    },
    Guard {
        what: "section 4: a batch compares the settings",
        texts: &[("and e[3] == ARGV[3] and e[4] == ARGV[4]\n", "and e[4] == ARGV[4]\n")],
        case: |server| Box::pin(other_settings(server, Way::Batch)),
    },
    Guard {
        what: "section 4: a changed longest lease is waited out",
        texts: &[("elseif e[5] ~= longest then\n", "elseif false then\n")],
        case: |server| Box::pin(a_changed_longest_lease(server)),
    },
    Guard {
        what: "section 4: where the old longest lease was longer, that is waited out",
        texts: &[(
            "span = math.max(span, math.max(tonumber(old), tonumber(longest))",
            "span = math.max(0, math.max(0, tonumber(longest))",
        )],
        case: |server| Box::pin(a_changed_longest_lease(server)),
    },
    Guard {
        what: "section 4: where the new one is longer, that is",
        texts: &[("math.max(tonumber(old), tonumber(longest))", "tonumber(old)")],
        case: |server| Box::pin(a_longer_longest_lease(server)),
    },
    Guard {
        what: "section 5: who was told long ago writes no record",
        texts: &[("if run ~= ARGV[1] or replid ~= ARGV[2] then return nil, {'stale'} end", "")],
        case: |server| Box::pin(a_client_that_was_told_long_ago(server)),
    },
    Guard {
        what: "section 5: where a replica may be promoted, the short way asks who the server is",
        texts: &[(
            "or not string.find(call('INFO', 'replication'), 'master_replid:' .. e[2], 1, true)) then",
            ") then",
        )],
        case: |server| Box::pin(a_failover_unheard_of(server, Way::Short)),
    },
    Guard {
        what: "section 5: where a replica may be promoted, the long way asks",
        texts: &[("or e[2] ~= ARGV[2] or margin ~= '' then", "or e[2] ~= ARGV[2] then")],
        case: |server| Box::pin(a_failover_unheard_of(server, Way::Long)),
    },
    Guard {
        what: "section 5: where a replica may be promoted, a batch asks",
        texts: &[(
            "(ARGV[#ARGV] == ''\n    or string.find(call('INFO', 'replication'), 'master_replid:' .. e[2], 1, true))",
            "true",
        )],
        case: |server| Box::pin(a_failover_unheard_of(server, Way::Batch)),
    },
    Guard {
        what: "section 5: the short way keeps the longest lease",
        texts: &[("or lease * 1000 > longest then", "then")],
        case: |server| Box::pin(a_lease_above_the_longest(server, Way::Short)),
    },
    Guard {
        what: "section 5: the long way keeps the longest lease",
        texts: &[("if lease * 1000 > tonumber(ARGV[3]) then", "if false then")],
        case: |server| Box::pin(a_lease_above_the_longest(server, Way::Long)),
    },
    Guard {
        what: "section 5: a batch keeps the longest lease",
        texts: &[("if open and lease * 1000 <= longest", "if open")],
        case: |server| Box::pin(a_lease_above_the_longest(server, Way::Batch)),
    },
    Guard {
        what: "section 5: a release keeps the longest lease for the next",
        texts: &[("or ARGV[8] * 1000 > tonumber(ARGV[3]) then", "then")],
        case: |server| Box::pin(a_lease_above_the_longest(server, Way::LongNext)),
    },
    Guard {
        what: "section 2: the long way keeps the limit of a floor",
        texts: &[("if tonumber(floor) > now + tonumber(ARGV[3]) then", "if false then")],
        case: |server| Box::pin(a_floor_far_ahead(server, Way::Long)),
    },
    Guard {
        what: "section 2: a release keeps the limit of a floor for the next",
        texts: &[("or tonumber(ARGV[10]) > now + tonumber(ARGV[3])\n", "\n")],
        case: |server| Box::pin(a_floor_far_ahead(server, Way::LongNext)),
    },
    Guard {
        what: "section 2: a raise keeps the same limit",
        texts: &[("if wanted > now + tonumber(ARGV[3]) then", "if false then")],
        case: |server| Box::pin(a_raise_far_ahead(server)),
    },
    Guard {
        what: "S1: the short way takes only what is free",
        texts: &[(
            "redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[5]) == 0",
            "redis.call('EXISTS', KEYS[3], KEYS[5]) == 0",
        )],
        case: |server| Box::pin(a_held_lock(server, Way::Short)),
    },
    Guard {
        what: "S1: the long way takes only what is free",
        texts: &[(
            "local record = read(KEYS[2])\nif record and string.sub",
            "local record = false\nif record and string.sub",
        )],
        case: |server| Box::pin(a_held_lock(server, Way::Long)),
    },
    Guard {
        what: "S2: the short way remembers its token",
        texts: &[(
            "if type(redis.pcall('HSET', KEYS[1], 'mark', text)) ~= 'number' then return nil end\n",
            "\n",
        )],
        case: |server| Box::pin(a_clock_that_went_back(server, Way::Short, Way::Short)),
    },
    Guard {
        what: "S2: the long way remembers its token",
        texts: &[("redis.call('HSET', KEYS[1], 'mark', text(token))\n", "\n")],
        case: |server| Box::pin(a_clock_that_went_back(server, Way::Long, Way::Short)),
    },
    Guard {
        what: "S2: a batch remembers its tokens",
        texts: &[(
            "call('HSET', KEYS[1], 'mark', string.format('%.0f', token + attempts - 1))",
            "",
        )],
        case: |server| Box::pin(a_clock_that_went_back(server, Way::Batch, Way::Short)),
    },
    Guard {
        what: "S2: a batch goes above the watermark",
        texts: &[(
            "token = math.max(now, (tonumber(e[6] or 0) or 9007199254740991) + 1)",
            "token = now",
        )],
        case: |server| Box::pin(a_clock_that_went_back(server, Way::Short, Way::Batch)),
    },
    Guard {
        what: "S2: the short way goes above the floor",
        texts: &[("or (floor or 0) + 0 >= text + 0 or", "or")],
        case: |server| Box::pin(a_token_above_the_floor(server, Way::Short)),
    },
    Guard {
        what: "S2: the long way goes above the floor",
        texts: &[("math.max(now, mark + 1, floor + 1)", "math.max(now, mark + 1)")],
        case: |server| Box::pin(a_token_above_the_floor(server, Way::Long)),
    },
    Guard {
        what: "S2: a release goes above the floor for the next",
        texts: &[(
            "local token = mint(now, mark, tonumber(floor))\n        if",
            "local token = mint(now, mark, 0)\n        if",
        )],
        case: |server| Box::pin(a_token_above_the_floor(server, Way::LongNext)),
    },
    Guard {
        what: "S2: a raise lifts the watermark",
        texts: &[("redis.call('HSET', KEYS[1], 'mark', text(wanted))", "")],
        case: |server| Box::pin(the_token_after_a_raise(server)),
    },
    Guard {
        what: "S2: a token is only raised",
        texts: &[("if wanted > token then", "if true then")],
        case: |server| Box::pin(a_lower_token(server)),
    },
    Guard {
        what: "S3: a repeat shortens no lease",
        texts: &[("if redis.call('PTTL', KEYS[2]) < lease then", "if true then")],
        case: |server| Box::pin(a_repeat_with_a_shorter_lease(server)),
    },
    Guard {
        what: "section 4: a repeat keeps the longest lease of now",
        texts: &[(
            "  and lease * 1000 <= (redis.call('HGET', KEYS[1], 'longest') or ARGV[3]) + 0 then",
            "  then",
        )],
        case: |server| Box::pin(a_repeat_above_the_longest_lease(server)),
    },
    Guard {
        what: "section 4: a renewal keeps the longest lease of now",
        texts: &[("if longest ~= 0 then lease", "if false then lease")],
        case: |server| Box::pin(a_renewal_above_the_longest_lease(server)),
    },
    Guard {
        what: "section 4: a quarantine that is turned on is a whole one",
        texts: &[("elseif e[6] ~= quarantine and quarantine == 'on' then", "elseif false then")],
        case: |server| Box::pin(a_quarantine_that_is_turned_on(server)),
    },
    Guard {
        what: "section 4: tokens that are set back wait for a quarantine",
        texts: &[("if ARGV[5] == '2' then\n  why =", "if false then\n  why =")],
        case: |server| Box::pin(tokens_that_are_set_back(server)),
    },
    Guard {
        what: "S3: a renewal shortens no lease",
        texts: &[("if redis.call('PTTL', KEYS[at]) < lease then", "if true then")],
        case: |server| Box::pin(a_renewal_with_a_shorter_lease(server)),
    },
    Guard {
        what: "S4: the long way of a release compares the owner",
        texts: &[("local mine = owner == ARGV[5] and 1 or 0", "local mine = 1")],
        case: |server| Box::pin(a_release_by_another(server, false)),
    },
    Guard {
        what: "S4: a batch compares the owner of a release",
        texts: &[(
            "elseif records[at] and string.sub(records[at], 1, 32) == ARGV[6 + at] then",
            "elseif records[at] then",
        )],
        case: |server| Box::pin(a_release_by_another(server, true)),
    },
    Guard {
        what: "S4: a clean-up frees only its owner's",
        texts: &[(
            "local mine = owner == ARGV[5] and state ~= '1'",
            "local mine = owner and state ~= '1'",
        )],
        case: |server| Box::pin(a_clean_up_by_another(server)),
    },
    Guard {
        what: "S4: a clean-up leaves what is kept",
        texts: &[(
            "local mine = owner == ARGV[5] and state ~= '1'",
            "local mine = owner == ARGV[5]",
        )],
        case: |server| Box::pin(a_clean_up_of_what_is_kept(server)),
    },
    Guard {
        what: "S4: only the owner raises",
        texts: &[(
            "if owner ~= ARGV[5] or state == '1' then return {'gone'} end",
            "if state == '1' then return {'gone'} end",
        )],
        case: |server| Box::pin(a_raise_by_another(server)),
    },
    Guard {
        what: "S5: what is gone is not renewed",
        texts: &[("local answer = 0\n  if type(record)", "local answer = 1\n  if type(record)")],
        case: |server| Box::pin(a_renewal_of_what_is_gone(server)),
    },
    Guard {
        what: "S5: what was released and is kept is not renewed",
        texts: &[("elseif state == '0' then\n      if redis", "elseif state then\n      if redis")],
        case: |server| Box::pin(a_renewal_of_what_is_kept(server)),
    },
    Guard {
        what: "S5: what was released and is kept is not raised",
        texts: &[(
            "if owner ~= ARGV[5] or state == '1' then return {'gone'} end",
            "if owner ~= ARGV[5] then return {'gone'} end",
        )],
        case: |server| Box::pin(a_raise_of_what_is_kept(server)),
    },
    Guard {
        what: "S5: what was released and is kept is not held again by a repeat",
        texts: &[("elseif state == '0' then\n    -- A repeat", "else\n    -- A repeat")],
        case: |server| Box::pin(a_repeat_after_a_release_that_keeps(server)),
    },
    Guard {
        what: "L3: a batch passes no place",
        texts: &[(
            "local free = call('EXISTS', unpack(KEYS, first, #KEYS)) == 0",
            "local free = true",
        )],
        case: |server| Box::pin(a_batch_past_a_place(server)),
    },
    Guard {
        what: "L2: a batch leaves a release with a queue to the long way",
        texts: &[(
            "if crowded and call('EXISTS', KEYS[releases + 1 + at]) == 1 then",
            "if false then",
        )],
        case: |server| Box::pin(a_batch_with_one_waiting(server)),
    },
    Guard {
        what: "S6: a handover takes no ghost along",
        texts: &[("if now > ARGV[2] + 0 or e[5]", "if e[5]")],
        case: |server| Box::pin(a_ghost(server, Way::LongNext)),
    },
    Guard {
        what: "S6: a handover looks for the tombstone of the next",
        texts: &[("\n    and call('EXISTS', KEYS[5]) == 0 then", " then")],
        case: |server| Box::pin(a_buried_owner(server, Way::LongNext)),
    },
    Guard {
        what: "section 4: a handover compares run and replication id",
        texts: &[("if known ~= ARGV[1] and (string.sub", "if false and (string.sub")],
        case: |server| Box::pin(another_run(server, Way::LongNext)),
    },
    Guard {
        what: "section 4: a handover waits for the quarantine",
        texts: &[("or e[5] + 0 > now or", "or")],
        case: |server| Box::pin(a_quarantine(server, Way::LongNext)),
    },
    Guard {
        what: "section 5: a handover keeps the longest lease for the next",
        texts: &[("and ARGV[6] * 1000 <= longest and", "and")],
        case: |server| Box::pin(a_lease_above_the_longest(server, Way::LongNext)),
    },
    Guard {
        what: "section 2: a handover keeps the limit of a floor for the next",
        texts: &[("and ARGV[8] + 0 < now\n", "\n")],
        case: |server| Box::pin(a_floor_far_ahead(server, Way::LongNext)),
    },
    Guard {
        what: "section 3: a handover waits for what is to be kept",
        texts: &[("and mine and (ARGV[4] or '') == '' then", "and mine then")],
        case: |server| Box::pin(a_release_that_keeps(server)),
    },
    Guard {
        what: "S2: a handover remembers its token",
        texts: &[("call('HSET', KEYS[1], 'mark', token)\n", "\n")],
        case: |server| Box::pin(a_clock_that_went_back(server, Way::LongNext, Way::Short)),
    },
    Guard {
        what: "S2: a handover goes above the floor of who waits",
        texts: &[("floor + 0 < now and text or string.format('%.0f', floor + 1)", "text")],
        case: |server| Box::pin(a_handover_above_a_floor(server)),
    },
    Guard {
        what: "L3: the short way of a next request passes no place",
        texts: &[(
            "if is_free and mine and ARGV[4] == '' and ARGV[5]",
            "if mine and ARGV[4] == '' and ARGV[5]",
        )],
        case: |server| Box::pin(a_next_past_a_place(server)),
    },
    Guard {
        what: "L3: a handover passes over a place of a clock that went back",
        texts: &[(" and until_ + 0 <= now + LIFE_US then", " then")],
        case: |server| Box::pin(a_place_of_the_future(server)),
    },
    Guard {
        what: "section 5: a handover needs no memory",
        texts: &[("if redis.pcall('HSET', KEYS[4]", "if redis.call('HSET', KEYS[4]")],
        case: |server| Box::pin(without_memory(server)),
    },
    Guard {
        what: "L3: a handover keeps the queue alive",
        texts: &[("      if call('PTTL', KEYS[3]) < TOMB_MS / 2 then", "      if false then")],
        case: |server| Box::pin(a_queue_that_ends_soon(server)),
    },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_guard_of_the_scripts_is_missed_when_it_is_left_out() {
    try_all(GUARDS).await;
}
