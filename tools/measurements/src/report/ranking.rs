//! The order of the stores by a measurement. Two stores are told apart only if every round of one
//! was better than every round of the other.

use serde::Serialize;

use super::figures::StoreReport;
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
    /// Best first, without stores that have fewer than five rounds. Stores with the same place
    /// cannot be told apart: their rounds overlap each other, or those of a third store. Every
    /// round of a place was better than every round of the next place.
    pub places: Vec<Vec<String>>,
}

pub(crate) fn rankings(stores: &[StoreReport]) -> Vec<Ranking> {
    let ranking = |measure: Measure| {
        let extents = stores.iter().filter_map(|store| {
            let rounds = &store.figure(measure)?.rounds;
            Some((store.name.clone(), extent(measure.by_rate(), rounds)?))
        });
        Ranking { measure, places: places(extents.collect()) }
    };
    BY.into_iter().map(ranking).filter(|it| it.places.iter().flatten().count() > 1).collect()
}

/// The best and the worst round, as values of which less is better. `None` if there were too few
/// rounds.
fn extent(by_rate: bool, rounds: &[f64]) -> Option<(f64, f64)> {
    let less_is_better = |value: &f64| if by_rate { -*value } else { *value };
    let values = || rounds.iter().map(less_is_better);
    let extent =
        (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    (rounds.len() >= ROUNDS).then_some(extent)
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
    fn a_store_with_too_few_rounds_has_no_place() {
        let rounds = [3.0, 1.0, 5.0, 2.0, 4.0];
        assert_eq!(extent(false, &rounds), Some((1.0, 5.0)));
        assert_eq!(extent(true, &rounds), Some((-5.0, -1.0)));
        assert_eq!(extent(false, &rounds[1..]), None);
    }
}
