//! Giving back, renewing, and raising.

use super::{
    super::wire::{Guard, Verdict},
    node::{LONGEST, Node, SECOND, Way, owner},
    votes::{a_number_above_the_watermark, two_of_one_batch},
};

pub(crate) const GUARDS: &[Guard<Node>] = &[
    Guard {
        what: "section 2: a raise keeps the same limit",
        texts: &[("if ARGV[4] ~= '' and number > now + ARGV[4] then", "if false then")],
        case: |node| Box::pin(a_raise_far_ahead(node)),
    },
    Guard {
        what: "S2: a number that is written raises the watermark",
        texts: &[("redis.call('HSET', KEYS[1], ARGV[3], ARGV[2])", "")],
        case: |node| Box::pin(the_number_after_a_raise(node)),
    },
    Guard {
        what: "S2: a number is only raised",
        texts: &[("if number > tonumber(own) then", "if true then")],
        case: |node| Box::pin(a_lower_number(node)),
    },
    Guard {
        what: "section 5: a number is written back only to the asker's lock",
        texts: &[(
            "if owner ~= ARGV[1] or state ~= '0' then return {'written'",
            "if state ~= '0' then return {'written'",
        )],
        case: |node| Box::pin(a_number_for_another(node)),
    },
    Guard {
        what: "section 5: a number is written back to nothing that was released and is kept",
        texts: &[(
            "if owner ~= ARGV[1] or state ~= '0' then return {'written'",
            "if owner ~= ARGV[1] then return {'written'",
        )],
        case: |node| Box::pin(a_number_for_what_is_kept(node)),
    },
    Guard {
        what: "S4: the short way of a release compares the owner",
        texts: &[("string.sub(record, 1, 32) == ARGV[1] and string.match", "string.match")],
        case: |node| Box::pin(a_release_by_another(node, Freeing::Plain)),
    },
    Guard {
        what: "S4: the long way of a release compares the owner",
        texts: &[("mine = ARGV[1] == '' or owner == ARGV[1]", "mine = true")],
        case: |node| Box::pin(a_release_by_another(node, Freeing::Burying)),
    },
    Guard {
        what: "S4: a batch compares the owner of a release",
        texts: &[(
            "elseif record and string.sub(record, 1, 32) == owner then",
            "elseif record then",
        )],
        case: |node| Box::pin(a_release_by_another(node, Freeing::Batch)),
    },
    Guard {
        what: "S4: only the owner renews",
        texts: &[("if record and string.sub(record, 1, 32) ~= owner then", "if false then")],
        case: |node| Box::pin(a_renewal_by_another(node)),
    },
    Guard {
        what: "S4: the short way of a release leaves what is kept",
        texts: &[("and string.match(record, '^%x+ %d+ 0 ')\n", "\n")],
        case: |node| Box::pin(a_release_after_one_that_keeps(node, Freeing::Plain)),
    },
    Guard {
        what: "S4: the long way of a release leaves what is kept",
        texts: &[("and state == '1' then mine = false", "and false then mine = false")],
        case: |node| Box::pin(a_release_after_one_that_keeps(node, Freeing::Burying)),
    },
    Guard {
        what: "S4: a batch leaves what is kept",
        texts: &[(
            "if before == 32 and state == 48 and behind == 32 or string.match(record, '^%x+ %d+ 0 ') then",
            "if true then",
        )],
        case: |node| Box::pin(a_release_after_one_that_keeps(node, Freeing::Batch)),
    },
    Guard {
        what: "S5: what is gone is not renewed",
        texts: &[("local answer = 0\n  if type(record)", "local answer = 1\n  if type(record)")],
        case: |node| Box::pin(a_renewal_of_what_is_gone(node)),
    },
    Guard {
        what: "S5: what was released and is kept is not renewed",
        texts: &[("string.match(record, '^%x+ %d+ (%d)') == '0' then", "true then")],
        case: |node| Box::pin(a_renewal_of_what_is_kept(node)),
    },
    Guard {
        what: "section 4: a renewal keeps the longest lease of now",
        texts: &[("if longest ~= 0 then lease", "if false then lease")],
        case: |node| Box::pin(a_renewal_above_the_longest_lease(node)),
    },
    Guard {
        what: "S3: a renewal shortens no lease",
        texts: &[("if redis.call('PTTL', KEYS[at]) < lease then", "if true then")],
        case: |node| Box::pin(a_renewal_with_a_shorter_lease(node)),
    },
    Guard {
        what: "S6: what is taken back is no later attempt",
        texts: &[(
            "tonumber(last) > tonumber(ARGV[3]) then mine = false",
            "false then mine = false",
        )],
        case: |node| Box::pin(a_late_clean_up(node)),
    },
    Guard {
        what: "L3: a place makes a crowd",
        texts: &[("local crowd = now + (TOMB_MS + 1000) * 1000", "local crowd = 0")],
        case: |node| Box::pin(a_release_with_one_waiting(node, Freeing::Batch)),
    },
    Guard {
        what: "L3: dead places are passed over",
        texts: &[("if ends > now and ends <= now + LIFE_US then", "if ends <= now + LIFE_US then")],
        case: |node| Box::pin(a_dead_place(node)),
    },
    Guard {
        what: "L3: places of a clock that went back are passed over",
        texts: &[("if ends > now and ends <= now + LIFE_US then", "if ends > now then")],
        case: |node| Box::pin(a_place_of_a_clock_ahead(node)),
    },
    Guard {
        what: "L3: who was called and leaves passes it on",
        texts: &[("head_left = true", "head_left = nil")],
        case: |node| Box::pin(a_head_that_leaves(node)),
    },
    Guard {
        what: "L2: the short way of a release looks for who waits",
        texts: &[("and redis.call('EXISTS', KEYS[3]) == 0 then", "then")],
        case: |node| Box::pin(a_release_with_one_waiting(node, Freeing::Plain)),
    },
    Guard {
        what: "L2: a batch leaves a release with a queue to the long way",
        texts: &[("if crowded and has('queue:', name_of(KEYS[1 + at])) then", "if false then")],
        case: |node| Box::pin(a_release_with_one_waiting(node, Freeing::Batch)),
    },
    Guard {
        what: "S1: a batch says that all was given only where it was",
        texts: &[(
            "plain and taken and numbers[at] == proposed",
            "plain and numbers[at] == proposed",
        )],
        case: |node| Box::pin(two_of_one_batch(node)),
    },
    Guard {
        what: "S2: a batch says so only where all have one number",
        texts: &[("plain and taken and numbers[at] == proposed", "plain and taken")],
        case: |node| Box::pin(a_number_above_the_watermark(node, Way::Batch)),
    },
    Guard {
        what: "S4: a batch says that all was held only where it was",
        texts: &[("#freed == releases and ARGV[9] or answers", "ARGV[9]")],
        case: |node| Box::pin(a_release_of_nothing(node, false)),
    },
    Guard {
        what: "S4: so does one that also gives",
        texts: &[("local plain, rest = #freed == releases,", "local plain, rest = true,")],
        case: |node| Box::pin(a_release_of_nothing(node, true)),
    },
];

/// The ways of giving back.
#[derive(Clone, Copy)]
enum Freeing {
    Plain,
    /// With a tombstone, as by one who has not heard all answers.
    Burying,
    Batch,
}

async fn free(node: &mut Node, letter: &str, freeing: Freeing) -> bool {
    match freeing {
        Freeing::Plain => node.free(letter, [""; 4]).await,
        Freeing::Burying => node.free(letter, ["", "", "9", ""]).await,
        Freeing::Batch => node.batch(&[letter], &[]).await.0 == [1],
    }
}

/// In a batch, by itself or beside an attempt.
async fn a_release_of_nothing(node: &mut Node, beside: bool) -> Verdict {
    let attempt = node.attempt("a").await;
    let attempts = if beside { std::slice::from_ref(&attempt) } else { &[] };
    match node.batch(&["b"], attempts).await.0.as_slice() {
        [0] => Ok(()),
        other => Err(format!("it was held, by {other:?}")),
    }
}

fn stays(record: &str, whose: &str) -> Verdict {
    match record.starts_with(&owner(whose)) {
        true => Ok(()),
        false => Err(format!("the record of {whose} is now {record:?}")),
    }
}

async fn a_release_by_another(node: &mut Node, freeing: Freeing) -> Verdict {
    node.taken("a").await?;
    free(node, "b", freeing).await;
    stays(&node.record().await, "a")
}

/// What is kept for a last while stays so, whatever is repeated of its release.
async fn a_release_after_one_that_keeps(node: &mut Node, freeing: Freeing) -> Verdict {
    node.taken("a").await?;
    assert!(node.free("a", ["20000", "", "", ""]).await);
    match free(node, "a", freeing).await {
        true => Err("it was released twice".to_owned()),
        false => stays(&node.record().await, "a"),
    }
}

/// A clean-up of an earlier attempt, which comes late.
async fn a_late_clean_up(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    node.free("a", ["", "4", "4", ""]).await;
    stays(&node.record().await, "a")
}

/// Who waits is called: a batch leaves that to the long way.
async fn a_release_with_one_waiting(node: &mut Node, freeing: Freeing) -> Verdict {
    node.taken("a").await?;
    node.placed("b").await?;
    if let Freeing::Batch = freeing {
        return match node.batch(&["a"], &[]).await.0.as_slice() {
            [-1] => stays(&node.record().await, "a"),
            other => Err(format!("{other:?}, and nobody was called")),
        };
    }
    free(node, "a", freeing).await;
    called(node, "b").await
}

async fn called(node: &mut Node, whom: &str) -> Verdict {
    match node.turn().await {
        turn if turn == owner(whom) => Ok(()),
        turn => Err(format!("it is the turn of {turn:?}")),
    }
}

async fn a_dead_place(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    node.placed("b").await?;
    node.placed("c").await?;
    node.note_place(&owner("b"), "1 channel").await;
    node.free("a", [""; 4]).await;
    called(node, "c").await
}

/// A place is dead also where it lives longer than any can, by a clock that went back.
async fn a_place_of_a_clock_ahead(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    node.placed("b").await?;
    node.placed("c").await?;
    let until = node.now().await + 3_600 * SECOND;
    node.note_place(&owner("b"), &format!("{until} channel")).await;
    node.free("a", [""; 4]).await;
    called(node, "c").await
}

/// Who was called and leaves passes it on.
async fn a_head_that_leaves(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    node.placed("b").await?;
    node.placed("c").await?;
    node.free("a", [""; 4]).await;
    node.free("b", ["", "0", "", "1"]).await;
    called(node, "c").await
}

async fn a_renewal_by_another(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    match node.renew("b", 20_000, u64::MAX >> 11).await {
        1 => Err("somebody else's lock was renewed".to_owned()),
        _ => Ok(()),
    }
}

async fn a_renewal_of_what_is_gone(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    node.forget().await;
    match node.renew("a", 20_000, u64::MAX >> 11).await {
        1 => Err("nothing was renewed".to_owned()),
        _ => Ok(()),
    }
}

async fn a_renewal_of_what_is_kept(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    assert!(node.free("a", ["20000", "", "", ""]).await);
    match node.renew("a", 20_000, u64::MAX >> 11).await {
        1 => Err("what was released was renewed".to_owned()),
        _ => Ok(()),
    }
}

async fn a_renewal_above_the_longest_lease(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    let left = node.left().await;
    node.note("longest", "1000000").await;
    assert_eq!(node.renew("a", 2 * left, u64::MAX >> 11).await, 1);
    match node.left().await {
        longer if longer <= left => Ok(()),
        longer => Err(format!("it ends in {longer} ms")),
    }
}

async fn a_renewal_with_a_shorter_lease(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    assert_eq!(node.renew("a", 100, u64::MAX >> 11).await, 1);
    match node.left().await {
        left if left > 1_000 => Ok(()),
        left => Err(format!("it ends in {left} ms")),
    }
}

/// A number is written back over nobody else's lock.
async fn a_number_for_another(node: &mut Node) -> Verdict {
    let own = node.taken("a").await?;
    let said = node.write("b", own + 1, "").await;
    match node.number().await {
        number if number == own && said == "written 0" => Ok(()),
        number => Err(format!("{said}, and {own} became {number}")),
    }
}

async fn a_number_for_what_is_kept(node: &mut Node) -> Verdict {
    let own = node.taken("a").await?;
    assert!(node.free("a", ["20000", "", "", ""]).await);
    match node.write("a", own + 1, "").await {
        said if said == "written 0" => Ok(()),
        said => Err(format!("{said}, to what was released")),
    }
}

async fn a_lower_number(node: &mut Node) -> Verdict {
    let own = node.taken("a").await?;
    node.write("a", own - 1, "").await;
    match node.number().await {
        number if number == own => Ok(()),
        number => Err(format!("{own} became {number}")),
    }
}

async fn a_raise_far_ahead(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    let ahead = node.now().await + 2 * LONGEST;
    match node.write("a", ahead, &LONGEST.to_string()).await {
        said if said.starts_with("floor") => Ok(()),
        said => Err(format!("{said}, far ahead of the clock")),
    }
}

async fn the_number_after_a_raise(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    let raised = node.now().await + 20 * SECOND;
    assert_eq!(node.write("a", raised, "").await, "written 1");
    assert!(node.free("a", [""; 4]).await);
    match node.taken("a").await? {
        number if number > raised => Ok(()),
        number => Err(format!("{number} came after {raised}")),
    }
}
