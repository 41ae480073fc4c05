//! Guards that are best tested on the scripts themselves, since the client or another way mostly
//! makes up for them. Guards of the short ways and of batches are in `short_ways`.

use servers::Change::{LeaveOut, Replace};
use verification::variants;

use super::{
    cases::*,
    server::{Server, Way},
};

variants! {
    pub(super) VARIANTS |stage: Server|
    "S6: the long way refuses a late request" LeaveOut("late") => a_late_request(stage, Way::Long);
    "S6: a release carries no late request" Replace("next_unfit", "local sound = true") => a_late_request(stage, Way::Next);
    "S6: the long way checks for a tombstone" LeaveOut("tombstone") => an_abandoned_owner(stage, Way::Long);
    "S6: a release checks for the tombstone of the next request"
        Replace("next_tombstone", "if next_owner ~= '' then") => an_abandoned_owner(stage, Way::Next);
    "S6: an abandoned owner leaves a tombstone" LeaveOut("abandon_tombstone") => an_abandoned_owner(stage, Way::Short);
    "S6: a repeat is the same grant" Replace("repeat", "if false then") => a_repeat(stage);
    "S1: another run id starts a quarantine" Replace("new_epoch", "from = 0") => another_run(stage, Way::Long);
    "S1: the long way compares the replication id"
        Replace("known", "local known = last_run == run") => another_replication(stage, Way::Long);
    "S1: the long way waits for the quarantine" Replace("quarantine", "if false then") => a_quarantine(stage, Way::Long);
    "S1: the long way compares the settings" LeaveOut("settings") => other_settings(stage, Way::Long);
    "S1: the long way refuses records of another version" LeaveOut("version") => another_version(stage, Way::Long);
    "S1: a repeat refuses records of another version" LeaveOut("repeat_version") => a_repeat_in_another_version(stage);
    "S1: a repeated release prolongs no record of another version" LeaveOut("next_version") => another_version(stage, Way::Again);
    "S1: no record of another version is renewed" LeaveOut("renew_version") => a_renewal_in_another_version(stage);
    "S1: init changes no records of another version" LeaveOut("init_version") => an_init_in_another_version(stage);
    "S1: a changed longest lease starts a wait" Replace("init_longest", "elseif false then") => a_changed_longest_lease(stage);
    "S1: if the old longest lease was longer, the wait is as long"
        Replace("init_old_longest", "span = 0") => a_changed_longest_lease(stage);
    "S1: if the new longest lease is longer, the wait is as long"
        Replace("init_old_longest", "lease = tonumber(old_longest)") => a_longer_longest_lease(stage);
    "S1: turning the quarantine on starts a whole wait"
        Replace("init_quarantine", "elseif false then") => a_quarantine_that_is_turned_on(stage);
    "S1: setting tokens back starts a quarantine" Replace("init_tokens", "if false then") => tokens_that_are_set_back(stage);
    "S1: a repeat keeps to the present longest lease" LeaveOut("repeat_lease") => a_repeat_above_the_longest_lease(stage);
    "S1: a renewal keeps to the present longest lease" LeaveOut("renew_longest") => a_renewal_above_the_longest_lease(stage);
    "S1: a client with an old handshake writes no record" LeaveOut("stale") => a_client_with_an_old_handshake(stage);
    "S1: if a replica may be promoted, the long way checks the server's identity"
        LeaveOut("failover") => a_failover_that_went_unnoticed(stage, Way::Long);
    "S1: the long way refuses a lease above the longest" LeaveOut("lease") => a_lease_above_the_longest(stage, Way::Long);
    "S1: a release refuses a next request above the longest lease"
        Replace("next_unfit", "local sound = true") => a_lease_above_the_longest(stage, Way::Next);
    "S2: the long way refuses a floor far ahead" LeaveOut("floor") => a_floor_far_ahead(stage, Way::Long);
    "S2: a release refuses a next request with a floor far ahead" Replace("next_unfit", "local sound = true") => a_floor_far_ahead(stage, Way::Next);
    "S2: a raise far ahead is refused" LeaveOut("raise_limit") => a_raise_far_ahead(stage);
    "S1: the long way takes only a free lock" Replace("held", "local record = false") => a_held_lock(stage, Way::Long);
    "S2: the long way writes its token to the watermark" LeaveOut("mark") => a_clock_that_went_back(stage, Way::Long, Way::Short);
    "S2: the long way goes above the watermark"
        Replace("mint", "token = math.max(now, floor + 1)") => a_clock_that_went_back(stage, Way::Short, Way::Long);
    "S2: the long way goes above the floor"
        Replace("mint", "token = math.max(now, mark + 1)") => a_token_above_the_floor(stage, Way::Long);
    "S2: a handoff goes above the floor of the entry"
        Replace("entry_floor", "floor = 0") => a_token_above_the_floor(stage, Way::Next);
    "S2: a raise lifts the watermark" LeaveOut("raise_mark") => the_token_after_a_raise(stage);
    "S2: a token is only raised" Replace("raise_only", "if true then") => a_lower_token(stage);
    "S3: a repeat shortens no lease"
        Replace("repeat_keeps", "local left = ms") => a_repeat_with_a_shorter_lease(stage);
    "S3: a renewal shortens no lease"
        Replace("renew_shorter", "local left = lease") => a_renewal_with_a_shorter_lease(stage);
    "S1: a repeat writes, also if the lease is long enough: WAIT covers only what was written" LeaveOut("repeat_writes")
        => a_repeat_that_needs_no_longer_lease(stage);
    "S1: a renewal writes, also if the lease is long enough: WAIT covers only what was written" LeaveOut("renew_writes")
        => a_renewal_that_needs_no_longer_lease(stage);
    "S4: only the owner releases" Replace("release_owner", "mine = 1") => a_release_by_another(stage);
    "S4: a clean-up frees only its owner's lock" LeaveOut("abandon_owner") => a_clean_up_by_another(stage);
    "S4: a clean-up leaves a lock that is kept" LeaveOut("abandon_kept") => a_clean_up_of_what_is_kept(stage);
    "S4: only the owner raises" LeaveOut("raise_owner") => a_raise_by_another(stage);
    "S5: a lock that is gone is not renewed" Replace("renew_gone", "if not record then return 1 end") => a_renewal_of_what_is_gone(stage);
    "S5: a lock that was released and is kept is not renewed"
        LeaveOut("renew_kept") => a_renewal_of_what_is_kept(stage);
    "S5: a lock that was released and is kept is not raised" LeaveOut("raise_kept") => a_raise_of_what_is_kept(stage);
    "S5: a repeat does not hold a lock again that was released and is kept"
        Replace("repeat_kept", "else") => a_repeat_after_a_release_that_keeps(stage);
}
