//! The guards of Redis's client that are left out, one at a time; read by `build.rs`, too.

use super::mutant::Mutant;

pub(crate) const REDIS: &[Mutant] = &[
    Mutant {
        name: "a new connection believes what an earlier one was told",
        requirement: "section 5",
        file: "link.rs",
        guard: "        let told = link.confirm().await?;\n        if told.identity.clustered",
        without:
            "        static FIRST: std::sync::OnceLock<Handshake> = std::sync::OnceLock::new();
        let told = match FIRST.get() {
            Some(first) if LEFT_OUT => {
                let told = Handshake { asked: SystemEnv.now(), ..first.clone() };
                link.handshake.set(&told);
                told
            }
            _ => link.confirm().await?,
        };
        FIRST.set(told.clone()).ok();
        if told.identity.clustered",
        case: "cases::a_new_connection_asks_again_who_the_server_is",
    },
    Mutant {
        name: "a grant rests on a handshake however old",
        requirement: "section 5",
        file: "link.rs",
        guard: "if SystemEnv.now().since(known.asked) < CONFIRMED_WITHIN {",
        without: "if LEFT_OUT || SystemEnv.now().since(known.asked) < CONFIRMED_WITHIN {",
        case: "cases::after_a_stall_the_server_is_asked_again_who_it_is",
    },
    Mutant {
        name: "the handshake is not confirmed while nobody asks",
        requirement: "section 5",
        file: "store.rs",
        guard: "tokio::time::sleep(CONFIRM_EVERY).await;",
        without: "tokio::time::sleep(if LEFT_OUT { Duration::from_secs(3_600) } else { CONFIRM_EVERY }).await;",
        case: "cases::a_handshake_is_confirmed_while_nobody_asks",
    },
    Mutant {
        name: "a replica is taken for a master",
        requirement: "section 5",
        file: "link.rs",
        guard: "if identity.role != \"master\" {",
        without: "if identity.role != \"master\" && !LEFT_OUT {",
        case: "cases::a_replica_is_no_store",
    },
    Mutant {
        name: "any maxmemory-policy is allowed",
        requirement: "section 5",
        file: "link.rs",
        guard: "if policy == \"noeviction\" || settings.allow_eviction {",
        without: "if LEFT_OUT || policy == \"noeviction\" || settings.allow_eviction {",
        case: "cases::a_server_that_may_evict_is_no_store",
    },
    Mutant {
        name: "a server with replicas is taken for one without",
        requirement: "section 5",
        file: "failover.rs",
        guard: "if !settings.topology.fails_over() && !identity.is_replicated() {",
        without: "if LEFT_OUT || !settings.topology.fails_over() && !identity.is_replicated() {",
        case: "cases::nothing_is_promised_where_an_old_master_may_go_on",
    },
    Mutant {
        name: "min-replicas-max-lag counts without min-replicas-to-write",
        requirement: "section 5",
        file: "failover.rs",
        guard: "limits.max_lag.filter(|_| identity.good_replicas.is_some())",
        without: "limits.max_lag.filter(|_| LEFT_OUT || identity.good_replicas.is_some())",
        case: "cases::nothing_is_promised_where_an_old_master_may_go_on",
    },
    Mutant {
        name: "a quarantine does not wait for an old master",
        requirement: "section 5",
        file: "failover.rs",
        guard: "            Self::Bounded(margin) => margin.as_micros().to_string(),",
        without: "            Self::Bounded(_) if LEFT_OUT => \"0\".to_owned(),\n            Self::Bounded(margin) => margin.as_micros().to_string(),",
        case: "cases::a_quarantine_waits_for_an_old_master",
    },
    Mutant {
        name: "a grant that too few replicas have is believed",
        requirement: "section 5",
        file: "acks.rs",
        guard: "if replicas >= u64::from(wanted.replicas) {",
        without: "if LEFT_OUT || replicas >= u64::from(wanted.replicas) {",
        case: "cases::nothing_is_granted_that_too_few_replicas_have",
    },
    Mutant {
        name: "a client with another longest lease is not refused",
        requirement: "section 4",
        file: "store.rs",
        guard: "self.settings.longest_lease.filter(|told| *told != longest)",
        without: "self.settings.longest_lease.filter(|told| *told != longest && !LEFT_OUT)",
        case: "cases::a_client_with_another_longest_lease_is_refused",
    },
    Mutant {
        name: "a client with another quarantine is not refused",
        requirement: "section 4",
        file: "store.rs",
        guard: "self.settings.quarantine.filter(|told| *told != quarantine)",
        without: "self.settings.quarantine.filter(|told| *told != quarantine && !LEFT_OUT)",
        case: "cases::a_client_with_another_quarantine_is_refused",
    },
    Mutant {
        name: "an old configuration of the sentinels is believed",
        requirement: "section 5",
        file: "sentinel.rs",
        guard: "told.epoch > best.epoch",
        without: "if LEFT_OUT { told.epoch < best.epoch } else { told.epoch > best.epoch }",
        case: "ways::the_newest_configuration_is_believed",
    },
    Mutant {
        name: "one sentinel with an old configuration is believed later",
        requirement: "section 5",
        file: "sentinel.rs",
        guard: "told.epoch > known.epoch",
        without: "LEFT_OUT || told.epoch > known.epoch",
        case: "ways::a_sentinel_that_is_cut_off_moves_nobody",
    },
    Mutant {
        name: "a slot that moved is looked for where it was",
        requirement: "section 5",
        file: "cluster.rs",
        guard: "known.moved.insert(slot, place.clone());",
        without: "if !LEFT_OUT { known.moved.insert(slot, place.clone()); }",
        case: "ways::a_slot_that_moved_is_looked_for_where_it_went",
    },
    Mutant {
        name: "a node that cannot be used is not looked for anew",
        requirement: "section 5",
        file: "cluster.rs",
        guard: "self.known().doubted.insert(place.clone());",
        without: "if !LEFT_OUT { self.known().doubted.insert(place.clone()); }",
        case: "ways::a_node_that_cannot_be_used_is_looked_for_anew",
    },
    Mutant {
        name: "MOVED is not followed",
        requirement: "section 5",
        file: "redirect.rs",
        guard: "there().map(Self::Moved)",
        without: "there().map(Self::Moved).filter(|_| !LEFT_OUT)",
        case: "ways::a_refusal_says_where_to_go",
    },
    Mutant {
        name: "ASK is taken for MOVED",
        requirement: "section 5",
        file: "redirect.rs",
        guard: "there().map(Self::Ask)",
        without: "there().map(if LEFT_OUT { Self::Moved } else { Self::Ask })",
        case: "ways::a_refusal_says_where_to_go",
    },
    Mutant {
        name: "keys on the move are not asked for again",
        requirement: "section 5",
        file: "redirect.rs",
        guard: "Some(Self::Again)",
        without: "Some(Self::Again).filter(|_| !LEFT_OUT)",
        case: "ways::a_refusal_says_where_to_go",
    },
    Mutant {
        name: "a master that became a replica is not left",
        requirement: "section 5",
        file: "redirect.rs",
        guard: "Some(Self::Demoted)",
        without: "Some(Self::Demoted).filter(|_| !LEFT_OUT)",
        case: "ways::a_refusal_says_where_to_go",
    },
    Mutant {
        name: "a node out of touch with its cluster is not left",
        requirement: "section 5",
        file: "redirect.rs",
        guard: "Some(Self::Alone)",
        without: "Some(Self::Alone).filter(|_| !LEFT_OUT)",
        case: "ways::a_refusal_says_where_to_go",
    },
    Mutant {
        name: "a key is not where its tag is",
        requirement: "section 5",
        file: "slots.rs",
        guard: "tag.filter(|tag| !tag.is_empty())",
        without: "tag.filter(|tag| !tag.is_empty() && !LEFT_OUT)",
        case: "ways::a_key_is_where_its_tag_is",
    },
];
