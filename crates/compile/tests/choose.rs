//! Choices against enumeration.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use zellige_compile::solve::elimination::{ChoiceProblem, FORBIDDEN, solve_by_elimination};

/// The least total by trying everything.
fn enumerate(problem: &ChoiceProblem) -> u64 {
    let domains = problem.domains();
    let count: usize = domains.iter().product();
    let values =
        |mut i: usize| -> Vec<usize> { domains.iter().map(|n| (i % n, i /= n).0).collect() };
    (0..count).map(|i| problem.total_cost(&values(i))).min().unwrap()
}

/// Variables, and costs between some of them.
type Random = (Vec<usize>, Vec<(Vec<usize>, Vec<u64>)>);

fn random() -> impl Strategy<Value = Random> {
    let domains = prop::collection::vec(1usize..4, 1..9);
    let cost = prop_oneof![6 => 0u64..50, 1 => Just(FORBIDDEN)];
    let factor = (prop::collection::vec(0usize..9, 0..4), prop::collection::vec(cost, 64));
    (domains, prop::collection::vec(factor, 0..12))
}

fn build((domains, factors): &Random) -> ChoiceProblem {
    let mut problem = ChoiceProblem::new();
    for n in domains {
        problem.add_variable(*n);
    }
    for (vars, table) in factors {
        let mut vars: Vec<usize> = vars.iter().map(|v| v % domains.len()).collect();
        vars.sort_unstable();
        vars.dedup();
        // The order in which variables are named does not matter to the sum.
        vars.reverse();
        let cost = |v: &[usize]| table[v.iter().fold(0, |i, x| i * 4 + x) % 64];
        problem.add_cost(&vars, cost).unwrap();
    }
    problem
}

proptest! {
    /// Without a limit the least total is found, and proved.
    #[test]
    fn elimination_is_exact(random in random()) {
        let problem = build(&random);
        let least = enumerate(&problem);
        match solve_by_elimination(&problem, usize::MAX) {
            Err(_) => prop_assert_eq!(least, FORBIDDEN),
            Ok(s) => {
                prop_assert_eq!(s.cost, least);
                prop_assert_eq!(problem.total_cost(&s.values), s.cost);
                prop_assert!(s.is_optimal());
            }
        }
    }

    /// With a limit the bound holds, and what is claimed is the cost.
    #[test]
    fn a_limit_leaves_a_proved_gap(random in random(), limit in 1usize..30) {
        let problem = build(&random);
        let least = enumerate(&problem);
        if let Ok(s) = solve_by_elimination(&problem, limit) {
            prop_assert!(s.bound <= least && least <= s.cost);
            prop_assert_eq!(problem.total_cost(&s.values), s.cost);
        }
    }
}

#[test]
fn a_chain_of_a_thousand_blocks_is_linear() {
    let mut problem = ChoiceProblem::new();
    let vars: Vec<usize> = (0..4000).map(|_| problem.add_variable(6)).collect();
    for w in vars.windows(3) {
        let cost = |v: &[usize]| ((v[0] * 7 + v[1] * 5 + v[2] * 3) % 11) as u64;
        problem.add_cost(w, cost).unwrap();
    }
    let started = std::time::Instant::now();
    let s = solve_by_elimination(&problem, 1 << 16).unwrap();
    assert!(s.is_optimal() && s.width == 3);
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
}

#[test]
fn bad_problems_are_refused() {
    let mut problem = ChoiceProblem::new();
    assert_eq!(solve_by_elimination(&problem, 1).unwrap().cost, 0);
    let a = problem.add_variable(2);
    assert!(problem.add_cost(&[a, a], |_| 0).is_err());
    assert!(problem.add_cost(&[7], |_| 0).is_err());
    problem.add_cost(&[a], |_| FORBIDDEN).unwrap();
    assert_eq!(
        solve_by_elimination(&problem, 9).unwrap_err().to_string(),
        "every choice is forbidden"
    );
    problem.add_variable(0);
    assert_eq!(
        solve_by_elimination(&problem, 9).unwrap_err().to_string(),
        "variable 1 has no values"
    );
}
