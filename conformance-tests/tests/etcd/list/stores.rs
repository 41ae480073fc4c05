//! What tells one store from another.

use super::Mutant;

pub(crate) const GUARDS: &[Mutant] = &[
    Mutant {
        name: "clusters that were made alike are one store",
        requirement: "section 6",
        file: "settings.rs",
        guard: "match self.store {",
        without: "match self.store.filter(|_| !LEFT_OUT) {",
        case: "settings::tests::stores_in_clusters_of_one_id_are_told_apart_by_their_numbers",
    },
    Mutant {
        name: "settings that were lost are written anew as those of another store",
        requirement: "section 6",
        file: "quarantine.rs",
        guard: "None => known.unwrap_or_else(",
        without: "None => known.filter(|_| !LEFT_OUT).unwrap_or_else(",
        case: "cases::stores::settings_that_were_lost_and_known_are_of_the_same_store",
    },
    Mutant {
        name: "a store has the identity that it had when the client last looked",
        requirement: "section 6",
        file: "store.rs",
        guard: "        self.history.doubt();\n        self.pass().await?;\n        Ok(self.settings().record.name_of_store(",
        without: "        if !LEFT_OUT { self.history.doubt(); }\n        self.pass().await?;\n        Ok(self.settings().record.name_of_store(",
        case: "cases::stores::all_clients_know_a_store_by_the_settings_that_it_has",
    },
];
