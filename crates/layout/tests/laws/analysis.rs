//! Analysis under swizzles: what moves no address changes no answer.

use crate::common::{config, define, everything, swizzled_of};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use zellige_layout::{Axis, LaneAccessPattern, Layout, TileLayout};

proptest! {
    #![proptest_config(config())]

    #[test]
    fn idle_swizzles_change_no_answer(l in swizzled_of(&["m"]), bits in prop::sample::select(vec![8i64, 16, 32])) {
        if l.effective_swizzle().is_some() {
            return Ok(());
        }
        let plain = Layout::from(l.tile().clone());
        let shape = [l.size()];
        prop_assert_eq!(l.vector_width(&shape, bits), plain.vector_width(&shape, bits));
        let row = LaneAccessPattern::Row { index: 0 };
        prop_assert_eq!(l.find_bank_conflicts(&shape, bits, &row, 1), plain.find_bank_conflicts(&shape, bits, &row, 1));
        let ids = |l: &Layout| -> Vec<&str> {
            let all = l.find_lints(&shape, Some(bits)).expect("small");
            all.iter().map(|l| l.id).filter(|id| *id != "idle-swizzle").collect()
        };
        prop_assert_eq!(ids(&l), ids(&plain));
    }

    /// Neighbours of a vector are adjacent and aligned everywhere.
    #[test]
    fn vectors_are_runs(l in everything(&["m"])) {
        let shape = l.window().map_or_else(|| vec![l.size()], |w| w.shape());
        let v = l.vector_width(&shape, 8).expect("small").elements;
        for q in (0..l.size()).step_by(usize::try_from(v).expect("small")) {
            let first: BTreeSet<i64> = define(&l, q).iter().map(|p| p.get(&Axis::M).copied().unwrap_or(0)).collect();
            prop_assert!(v == 1 || first.iter().all(|a| a % v == 0));
            for j in 0..v {
                let next: BTreeSet<i64> = define(&l, q + j).iter().map(|p| p.get(&Axis::M).copied().unwrap_or(0)).collect();
                prop_assert_eq!(next, first.iter().map(|a| a + j).collect::<BTreeSet<_>>());
            }
        }
    }

    /// The ways of an access are the largest number of distinct words accessed in one bank in one phase.
    #[test]
    fn conflicts_are_those_of_the_addresses(l in swizzled_of(&["m"])) {
        let row = LaneAccessPattern::Row { index: 0 };
        if let Ok(found) = l.find_bank_conflicts(&[l.size()], 32, &row, 1) {
            let bare = TileLayout::new(l.tile().shard().to_vec(), vec![], l.tile().offset().to_vec());
            let bare = Layout::from(bare.expect("small"));
            let mut ways = 0;
            for lanes in (0..l.size()).collect::<Vec<_>>().chunks(32) {
                let mut banks: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
                for i in lanes {
                    // The first replica: the place of all replica digits at 0.
                    let only = define(&bare, *i).pop_first().expect("one place");
                    let slot = only.get(&Axis::M).copied().unwrap_or(0);
                    let word = l.swizzle().map_or(slot, |sw| sw.apply_to_address(slot));
                    banks.entry(word % 32).or_default().insert(word);
                }
                ways = ways.max(banks.values().map(BTreeSet::len).max().unwrap_or(0));
            }
            prop_assert_eq!(found.ways, ways);
        }
    }
}
