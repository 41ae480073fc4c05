//! Redlock: guards in its Lua, which each node runs for itself.
//!
//! The same rule stands in the scripts up to three times: on the short way and on the long way of an
//! attempt, and in a batch. Each is left out by itself.

mod ends;
pub(crate) mod node;
mod quorum;
mod votes;

use self::{
    node::{Node, Way},
    votes::{
        Raised, Seen, a_batch_after_a_number_far_ahead, a_batch_past_a_place, a_buried_owner,
        a_clock_behind, a_clock_that_came_back, a_clock_that_came_back_in_a_long_wait,
        a_floor_far_ahead, a_ghost, a_held_lock, a_late_repeat_that_is_taken_back,
        a_lease_above_the_longest, a_number_above_the_floor, a_number_above_the_watermark,
        a_proposal_far_ahead, a_proposal_far_behind, a_quarantine,
        a_record_to_write_ahead_of_the_others, a_repeat, a_repeat_after_a_release_that_keeps,
        a_repeat_with_a_shorter_lease, a_turn_far_ahead, an_attempt_past_the_head,
        another_replication, another_run, one_lease_above_the_longest, one_proposal_twice,
        two_of_one_batch,
    },
};
use super::wire::{Guard, try_all};

/// Of attempts.
const GUARDS: &[Guard<Node>] = &[
    Guard {
        what: "section 4: the short way of an attempt compares the run id",
        texts: &[("if e[1] == ARGV[1] and e[2]", "if e[2]")],
        case: |node| Box::pin(another_run(node, Way::Short)),
    },
    Guard {
        what: "section 4: the short way compares the replication id",
        texts: &[(
            "and e[2] == ARGV[2] and e[3] == ARGV[3] and e[4] == ARGV[4] then",
            "and e[3] == ARGV[3] and e[4] == ARGV[4] then",
        )],
        case: |node| Box::pin(another_replication(node, Way::Short)),
    },
    Guard {
        what: "section 4: the long way asks for the epoch",
        texts: &[(
            "local mark, refusal = gate(now)\nif not mark",
            "local mark, refusal = 1\nif not mark",
        )],
        case: |node| Box::pin(another_run(node, Way::Long)),
    },
    Guard {
        what: "section 4: a batch compares the run id",
        texts: &[("local open = e[1] == ARGV[1] and e[2]", "local open = e[2]")],
        case: |node| Box::pin(another_run(node, Way::Batch)),
    },
    Guard {
        what: "section 4: a batch compares the replication id",
        texts: &[(
            "and e[2] == ARGV[2] and e[3] == ARGV[3] and e[4] == ARGV[4]\n",
            "and e[3] == ARGV[3] and e[4] == ARGV[4]\n",
        )],
        case: |node| Box::pin(another_replication(node, Way::Batch)),
    },
    Guard {
        what: "section 4: the short way waits for the quarantine",
        texts: &[("if e[5] + 0 <= now and (e[6]", "if (e[6]")],
        case: |node| Box::pin(a_quarantine(node, Way::Short)),
    },
    Guard {
        what: "section 4: the long way waits for the quarantine",
        texts: &[(
            "if from > now then\n    if from - now > span",
            "if false then\n    if from - now > span",
        )],
        case: |node| Box::pin(a_quarantine(node, Way::Long)),
    },
    Guard {
        what: "section 4: a batch waits for the quarantine",
        texts: &[("  and e[5] + 0 <= now and (e[6]", "  and (e[6]")],
        case: |node| Box::pin(a_quarantine(node, Way::Batch)),
    },
    Guard {
        what: "section 5: the short way refuses a ghost",
        texts: &[("ARGV[14] - bound <= now and now <= ARGV[12] + 0", "ARGV[14] - bound <= now")],
        case: |node| Box::pin(a_ghost(node, Way::Short)),
    },
    Guard {
        what: "section 5: the long way refuses a ghost",
        texts: &[("if now > tonumber(ARGV[12]) then\n", "if false then\n")],
        case: |node| Box::pin(a_ghost(node, Way::Long)),
    },
    Guard {
        what: "section 5: a batch refuses a ghost",
        texts: &[("ARGV[7] - bound <= now and now <= ARGV[6] + 0", "ARGV[7] - bound <= now")],
        case: |node| Box::pin(a_ghost(node, Way::Batch)),
    },
    Guard {
        what: "section 5: the short way refuses while the clock is behind",
        texts: &[("ARGV[14] - bound <= now and now <= ARGV[12] + 0", "now <= ARGV[12] + 0")],
        case: |node| Box::pin(a_clock_behind(node, Way::Short)),
    },
    Guard {
        what: "section 5: the long way refuses while the clock is behind",
        texts: &[("if now < estimated - bound then", "if false then")],
        case: |node| Box::pin(a_clock_behind(node, Way::Long)),
    },
    Guard {
        what: "section 5: a batch refuses while the clock is behind",
        texts: &[("ARGV[7] - bound <= now and now <= ARGV[6] + 0", "now <= ARGV[6] + 0")],
        case: |node| Box::pin(a_clock_behind(node, Way::Batch)),
    },
    Guard {
        what: "section 5: no quarantine begins by a clock that is off",
        texts: &[("if math.abs(now - estimated) > bound then", "if false then")],
        case: |node| Box::pin(a_record_to_write_ahead_of_the_others(node)),
    },
    Guard {
        what: "section 5: the short way compares the highest clock",
        texts: &[("<= now and (e[6] or 0) + 0 <= now and ARGV[14]", "<= now and ARGV[14]")],
        case: |node| Box::pin(a_clock_that_came_back(node, Seen::Granting(Way::Short), Way::Short)),
    },
    Guard {
        what: "section 5: the long way compares the highest clock",
        texts: &[("local ahead = seen > now + bound", "local ahead = false")],
        case: |node| Box::pin(a_clock_that_came_back(node, Seen::Granting(Way::Short), Way::Short)),
    },
    Guard {
        what: "section 5: a batch compares the highest clock",
        texts: &[("<= now and (e[6] or 0) + 0 <= now and ARGV[7]", "<= now and ARGV[7]")],
        case: |node| Box::pin(a_clock_that_came_back(node, Seen::Granting(Way::Short), Way::Batch)),
    },
    Guard {
        what: "section 5: a clock that was ahead and came back begins a quarantine",
        texts: &[("if ARGV[4] == 'on' then", "if false then")],
        case: |node| Box::pin(a_clock_that_came_back(node, Seen::Granting(Way::Short), Way::Short)),
    },
    Guard {
        what: "section 5: a clock that came back cuts no wait short",
        texts: &[(
            "local span = math.max(tonumber(ARGV[3]), tonumber(epoch[4] or 0))",
            "local span = tonumber(ARGV[3])",
        )],
        case: |node| Box::pin(a_clock_that_came_back_in_a_long_wait(node)),
    },
    Guard {
        what: "section 5: the short way remembers the clock",
        texts: &[("ARGV[13], text, 'top', top, 'clock', stamp)", "ARGV[13], text, 'top', top)")],
        case: |node| Box::pin(a_clock_that_came_back(node, Seen::Granting(Way::Short), Way::Short)),
    },
    Guard {
        what: "section 5: a batch remembers the clock",
        texts: &[("set = {}, {}, {'clock', stamp,", "set = {}, {}, {'other', stamp,")],
        case: |node| Box::pin(a_clock_that_came_back(node, Seen::Granting(Way::Batch), Way::Short)),
    },
    Guard {
        what: "section 5: the long way remembers the clock",
        texts: &[("elseif now > seen and epoch[1] then\n", "elseif false then\n")],
        case: |node| Box::pin(a_clock_that_came_back(node, Seen::Refusing, Way::Short)),
    },
    Guard {
        what: "section 5: an attempt that is late tells of a clock ahead",
        texts: &[("if now > seen and redis.call('EXISTS', KEYS[1]) == 1 then", "if false then")],
        case: |node| Box::pin(a_clock_that_came_back(node, Seen::Late, Way::Short)),
    },
    Guard {
        what: "section 5: a renewal remembers a clock ahead",
        texts: &[(
            "redis.pcall('HSET', KEYS[1], 'clock', stamp)\nend\nreturn {'renewed'",
            "\nend\nreturn {'renewed'",
        )],
        case: |node| Box::pin(a_clock_that_came_back(node, Seen::Renewing, Way::Short)),
    },
    Guard {
        what: "section 5: the short way keeps the longest lease",
        texts: &[("floor < now and ARGV[6] * 1000 <= ARGV[3] + 0", "floor < now")],
        case: |node| Box::pin(a_lease_above_the_longest(node, Way::Short)),
    },
    Guard {
        what: "section 5: the long way keeps the longest lease",
        texts: &[("if lease * 1000 > tonumber(ARGV[3]) then", "if false then")],
        case: |node| Box::pin(a_lease_above_the_longest(node, Way::Long)),
    },
    Guard {
        what: "section 5: a batch keeps the longest lease",
        texts: &[("(lease == '' or lease * 1000 <= longest)", "true")],
        case: |node| Box::pin(a_lease_above_the_longest(node, Way::Batch)),
    },
    Guard {
        what: "section 5: a batch keeps it where leases differ",
        texts: &[("or lease == '' and ARGV[own + 2] * 1000 > longest", "")],
        case: |node| Box::pin(one_lease_above_the_longest(node)),
    },
    Guard {
        what: "section 2: the short way keeps the limit of a floor",
        texts: &[("and floor < now and ARGV[6]", "and ARGV[6]")],
        case: |node| Box::pin(a_floor_far_ahead(node, Way::Short)),
    },
    Guard {
        what: "section 2: the long way keeps the limit of a floor",
        texts: &[("if floor > highest then", "if false then")],
        case: |node| Box::pin(a_floor_far_ahead(node, Way::Long)),
    },
    Guard {
        what: "S1: the short way takes only what is free",
        texts: &[("'PX', ARGV[6], 'NX') then", "'PX', ARGV[6]) then")],
        case: |node| Box::pin(a_held_lock(node, Way::Short)),
    },
    Guard {
        what: "S1: the long way takes only what is free",
        texts: &[("if record or others then", "if others then")],
        case: |node| Box::pin(a_held_lock(node, Way::Long)),
    },
    Guard {
        what: "S1: a batch takes only what is free",
        texts: &[("ARGV[own + 2] or lease, 'NX')", "ARGV[own + 2] or lease)")],
        case: |node| Box::pin(a_held_lock(node, Way::Batch)),
    },
    Guard {
        what: "S1: a batch gives a lock once",
        texts: &[("ARGV[own + 2] or lease, 'NX')", "ARGV[own + 2] or lease)")],
        case: |node| Box::pin(two_of_one_batch(node)),
    },
    Guard {
        what: "S2: the short way goes above the watermark",
        texts: &[("math.max((e[7] or 0) + 0, floor)", "math.max(0, floor)")],
        case: |node| Box::pin(a_number_above_the_watermark(node, Way::Short)),
    },
    Guard {
        what: "S2: the long way goes above the watermark",
        texts: &[("math.max(number, mark + 1, floor + 1)", "math.max(number, floor + 1)")],
        case: |node| Box::pin(a_number_above_the_watermark(node, Way::Long)),
    },
    Guard {
        what: "S2: a batch goes above the watermark",
        texts: &[("if marks and marks[at] and marks[at] + 0 >= proposed then", "if false then")],
        case: |node| Box::pin(a_number_above_the_watermark(node, Way::Batch)),
    },
    Guard {
        what: "S2: a batch asks for watermarks below the highest",
        texts: &[("if proposed <= top then", "if false then")],
        case: |node| Box::pin(a_number_above_the_watermark(node, Way::Batch)),
    },
    Guard {
        what: "S2: the short way goes above the floor",
        texts: &[("math.max((e[7] or 0) + 0, floor)", "(e[7] or 0) + 0")],
        case: |node| Box::pin(a_number_above_the_floor(node, Way::Short)),
    },
    Guard {
        what: "S2: the long way goes above the floor",
        texts: &[("math.max(number, mark + 1, floor + 1)", "math.max(number, mark + 1)")],
        case: |node| Box::pin(a_number_above_the_floor(node, Way::Long)),
    },
    Guard {
        what: "S2: the short way notes the highest number",
        texts: &[("'top', top, 'clock', stamp)", "'clock', stamp)")],
        case: |node| Box::pin(a_batch_after_a_number_far_ahead(node, Raised::By(Way::Short))),
    },
    Guard {
        what: "S2: the long way notes the highest number",
        texts: &[("ARGV[13], text(number), 'top', text(top))", "ARGV[13], text(number))")],
        case: |node| Box::pin(a_batch_after_a_number_far_ahead(node, Raised::By(Way::Long))),
    },
    Guard {
        what: "S2: a number that is written notes the highest, too",
        texts: &[("redis.call('HSET', KEYS[1], 'top', ARGV[2])", "")],
        case: |node| Box::pin(a_batch_after_a_number_far_ahead(node, Raised::Written)),
    },
    Guard {
        what: "S2: a batch notes the highest number",
        texts: &[("set[4] = top == proposed and text or", "set[4] = '0' or")],
        case: |node| Box::pin(one_proposal_twice(node)),
    },
    Guard {
        what: "S2: a batch notes its numbers",
        texts: &[("type(redis.pcall('HSET', KEYS[1], unpack(set))) ~= 'number'", "false")],
        case: |node| Box::pin(one_proposal_twice(node)),
    },
    Guard {
        what: "section 5: the short way lowers a proposal far ahead",
        texts: &[("or number > now + bound then", "then")],
        case: |node| Box::pin(a_proposal_far_ahead(node, Way::Short)),
    },
    Guard {
        what: "section 5: the short way lifts a proposal far behind",
        texts: &[("or number < now - bound or", "or")],
        case: |node| Box::pin(a_proposal_far_behind(node, Way::Short)),
    },
    Guard {
        what: "section 5: the long way lowers a proposal far ahead",
        texts: &[(
            "math.min(math.max(tonumber(ARGV[9]), now - bound), now + bound)",
            "math.max(tonumber(ARGV[9]), now - bound)",
        )],
        case: |node| Box::pin(a_proposal_far_ahead(node, Way::Long)),
    },
    Guard {
        what: "section 5: the long way lifts a proposal far behind",
        texts: &[("math.max(tonumber(ARGV[9]), now - bound)", "tonumber(ARGV[9])")],
        case: |node| Box::pin(a_proposal_far_behind(node, Way::Long)),
    },
    Guard {
        what: "section 5: a batch lowers a proposal far ahead",
        texts: &[(
            "math.min(math.max(proposed, now - bound), now + bound)",
            "math.max(proposed, now - bound)",
        )],
        case: |node| Box::pin(a_proposal_far_ahead(node, Way::Batch)),
    },
    Guard {
        what: "section 5: a batch lifts a proposal far behind",
        texts: &[("math.max(proposed, now - bound)", "proposed")],
        case: |node| Box::pin(a_proposal_far_behind(node, Way::Batch)),
    },
    Guard {
        what: "S5: what was released and is kept is not held again by a repeat",
        texts: &[("if holder == owner and state == '0' then", "if holder == owner then")],
        case: |node| Box::pin(a_repeat_after_a_release_that_keeps(node)),
    },
    Guard {
        what: "S3: a repeat shortens no lease",
        texts: &[("math.max(lease, redis.call('PTTL', KEYS[2]))", "lease")],
        case: |node| Box::pin(a_repeat_with_a_shorter_lease(node)),
    },
    Guard {
        what: "S6: a repeat keeps its number",
        texts: &[(
            "if holder == owner and state == '0' then\n  -- A repeat sets the lease anew.",
            "if holder == owner then record = false end\nif false then\n --",
        )],
        case: |node| Box::pin(a_repeat(node)),
    },
    Guard {
        what: "S6: a clean-up leaves a tombstone",
        texts: &[("redis.call('SET', KEYS[5], ARGV[4], 'PX', ARGV[6])", "")],
        case: |node| Box::pin(a_buried_owner(node, Way::Short)),
    },
    Guard {
        what: "S6: a tombstone is not lowered",
        texts: &[("if not gone or tonumber(gone) < tonumber(ARGV[4]) then", "if true then")],
        case: |node| Box::pin(a_buried_owner(node, Way::Short)),
    },
    Guard {
        what: "S6: the short way looks for a tombstone",
        texts: &[("KEYS[4], KEYS[5]) == 0)", "KEYS[4]) == 0)")],
        case: |node| Box::pin(a_buried_owner(node, Way::Short)),
    },
    Guard {
        what: "S6: the long way looks for a tombstone",
        texts: &[("if gone and tonumber(gone) >= attempt then", "if false then")],
        case: |node| Box::pin(a_buried_owner(node, Way::Long)),
    },
    Guard {
        what: "S6: a batch looks for a tombstone",
        texts: &[("or has('gone:', ARGV[own])", "")],
        case: |node| Box::pin(a_buried_owner(node, Way::Batch)),
    },
    Guard {
        what: "S6: a batch looks for a tombstone also where nobody waits",
        texts: &[("beside[#beside + 1] = base .. 'gone:' .. ARGV[owner]", "")],
        case: |node| Box::pin(a_buried_owner(node, Way::Batch)),
    },
    Guard {
        what: "S6: a tombstone makes a crowd",
        texts: &[("local crowd = now + (ARGV[6] + 1000) * 1000", "local crowd = 0")],
        case: |node| Box::pin(a_buried_owner(node, Way::Short)),
    },
    Guard {
        what: "S6: in a crowd a batch looks at all",
        texts: &[("local crowded = (e[8] or 0) + 0 > now", "local crowded = false")],
        case: |node| Box::pin(a_buried_owner(node, Way::Batch)),
    },
    Guard {
        what: "S6: the last attempt is noted, whatever comes late",
        texts: &[("last = math.max(attempt, tonumber(last))", "last = attempt")],
        case: |node| Box::pin(a_late_repeat_that_is_taken_back(node)),
    },
    Guard {
        what: "L3: the short way leaves a lock to who was called",
        texts: &[("KEYS[2], KEYS[3], KEYS[4], KEYS[5]) == 0", "KEYS[2], KEYS[5]) == 0")],
        case: |node| Box::pin(an_attempt_past_the_head(node)),
    },
    Guard {
        what: "L3: the long way leaves a lock to who was called",
        texts: &[("if record or others then", "if record then")],
        case: |node| Box::pin(an_attempt_past_the_head(node)),
    },
    Guard {
        what: "L3: a turn ends, also by a clock that went back",
        texts: &[("and ends > now and ends <= now + TURN_US", "and ends > now")],
        case: |node| Box::pin(a_turn_far_ahead(node)),
    },
    Guard {
        what: "L3: a batch passes no queue",
        texts: &[("(has('queue:', name_of(KEYS[first + at - 1]))\n      or has", "(has")],
        case: |node| Box::pin(a_batch_past_a_place(node, "queue")),
    },
    Guard {
        what: "L3: a batch passes no place",
        texts: &[("or has('places:', name_of(KEYS[first + at - 1])) or", "or")],
        case: |node| Box::pin(a_batch_past_a_place(node, "places")),
    },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_guard_of_redlock_is_missed_when_it_is_left_out() {
    try_all(GUARDS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_is_each_of_what_ends_or_changes_a_lock() {
    try_all(ends::GUARDS).await;
}
