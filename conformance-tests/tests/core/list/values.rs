//! Guards of names, of tokens and of the fence in memory.

use super::Mutant;

pub(crate) const GUARDS: &[Mutant] = &[
    Mutant {
        name: "bad input reaches the store",
        requirement: "section 8",
        file: "client/lock.rs",
        guard: "self.wanted.check(&self.handle.backend.guarantees()).map_err(|error| error.on(name))?;",
        without: "if !LEFT_OUT { self.wanted.check(&self.handle.backend.guarantees()).map_err(|error| error.on(name))?; }",
        case: "cases::an_option_out_of_range_is_refused_before_the_store_is_touched",
    },
    Mutant {
        name: "a token is not above the watermark",
        requirement: "S2",
        file: "token.rs",
        guard: ".max(watermark.0 + 1)",
        without: ".max(if LEFT_OUT { 0 } else { watermark.0 + 1 })",
        case: "cases::tokens_rise_where_the_clock_stands_still",
    },
    Mutant {
        name: "a token is not above the floor",
        requirement: "S2",
        file: "token.rs",
        guard: ".max(floor.0 + 1)",
        without: ".max(if LEFT_OUT { 0 } else { floor.0 + 1 })",
        case: "migration_faults::without_the_write_back_tokens_would_go_back",
    },
    Mutant {
        name: "a name that is forgotten leaves no watermark",
        requirement: "section 2",
        file: "memory/store.rs",
        guard: "self.watermark = watermark.max(entry.token);",
        without: "if !LEFT_OUT { self.watermark = watermark.max(entry.token); }",
        case: "cases::tokens_rise_where_the_clock_stands_still",
    },
    Mutant {
        name: "the fence in memory admits a lower token",
        requirement: "section 2",
        file: "fence.rs",
        guard: "Some(highest) if *highest > token => {",
        without: "Some(highest) if *highest > token && !LEFT_OUT => {",
        case: "fence::tests::admits_what_is_not_older_and_names_what_it_refuses",
    },
    Mutant {
        name: "an option of a URL may be given twice",
        requirement: "section 8",
        file: "given.rs",
        guard: "if self.0.insert(option.to_owned()) {",
        without: "if self.0.insert(option.to_owned()) || LEFT_OUT {",
        case: "given::tests::an_option_is_given_once",
    },
];
