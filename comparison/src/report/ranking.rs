//! The order of the stores by a measurement. Two stores are told apart only if all their rounds differ.

use serde::Serialize;

use super::figures::{Figure, StoreReport};
use crate::{measurement::Measure, plan::ROUNDS};

/// The measurements by which stores are ranked.
const BY: [Measure; 5] = [
    Measure::Uncontended,
    Measure::ManyNames,
    Measure::Handoff1,
    Measure::Handoff16,
    Measure::Handoff256,
];

/// The order of the stores by one measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Ranking {
    /// The measurement.
    pub measure: Measure,
    /// Best first. Stores with the same place cannot be told apart: there were too few rounds, or they overlap each other or
    /// those of a third store. Every round of a place was better than every round of the next place.
    pub places: Vec<Vec<String>>,
}

pub(crate) fn rankings(stores: &[StoreReport]) -> Vec<Ranking> {
    let ranking = |measure: Measure| {
        let figures = stores
            .iter()
            .filter_map(|store| store.figure(measure).map(|figure| (store.name.clone(), figure)));
        let places =
            places(figures.map(|(name, figure)| (name, extent(measure, figure))).collect());
        Ranking { measure, places }
    };
    BY.into_iter().map(ranking).filter(|it| it.places.iter().flatten().count() > 1).collect()
}

/// The best and the worst round, as values of which less is better.
fn extent(measure: Measure, figure: &Figure) -> (f64, f64) {
    if figure.rounds.len() < ROUNDS {
        return (f64::NEG_INFINITY, f64::INFINITY);
    }
    let less_is_better = |value: &f64| if measure.by_rate() { -*value } else { *value };
    let rounds = || figure.rounds.iter().map(less_is_better);
    (rounds().fold(f64::INFINITY, f64::min), rounds().fold(f64::NEG_INFINITY, f64::max))
}

fn places(mut extents: Vec<(String, (f64, f64))>) -> Vec<Vec<String>> {
    extents.sort_by(|(_, one), (_, other)| one.0.total_cmp(&other.0));
    let (mut places, mut worst): (Vec<Vec<String>>, _) = (Vec::new(), f64::NEG_INFINITY);
    for (name, (best, last)) in extents {
        match places.last_mut() {
            Some(place) if best <= worst => place.push(name),
            _ => places.push(vec![name]),
        }
        worst = worst.max(last);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(extents: &[(&str, f64, f64)]) -> Vec<Vec<String>> {
        places(extents.iter().map(|(name, a, b)| ((*name).to_owned(), (*a, *b))).collect())
    }

    #[test]
    fn only_what_does_not_overlap_is_told_apart() {
        assert_eq!(placed(&[("b", 3.0, 4.0), ("a", 1.0, 2.0)]), [["a"], ["b"]]);
        assert_eq!(placed(&[("b", 2.0, 4.0), ("a", 1.0, 2.0)]), [["a", "b"]]);
        // b and c would be apart, but a lies across both.
        let three = placed(&[("a", 1.0, 9.0), ("b", 2.0, 3.0), ("c", 8.0, 9.5), ("d", 10.0, 11.0)]);
        assert_eq!(three, [vec!["a", "b", "c"], vec!["d"]]);
        assert!(placed(&[]).is_empty());
    }

    #[test]
    fn too_few_rounds_are_a_tie() {
        let unknown = ("b", f64::NEG_INFINITY, f64::INFINITY);
        assert_eq!(placed(&[("a", 1.0, 2.0), unknown]), [["b", "a"]]);
    }
}
