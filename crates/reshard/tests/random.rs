//! Random pairs of shardings against gathering and scattering element by element.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking"
)]

mod common;

use common::{Random, copy, shape, sharding, shards};
use zellige_movement::reference::run_plan;
use zellige_reshard::{
    LinkLevel, RankProcess, Reshard, ReshardError, ShardedLayout, Topology, TransferPart,
    certify_plan,
};

/// Runs a plan as processes would: every round packs, sends and unpacks.
fn exchange(plan: &Reshard, rounds: i64) -> Vec<Vec<i64>> {
    let before = shards(plan.source(), plan.rank_count());
    let len = usize::try_from(plan.destination().shard_len()).unwrap();
    let mut after = vec![vec![0; len]; before.len()];
    for (rank, target) in (0..).zip(&mut after) {
        let local = plan.kept_plan(rank).unwrap();
        run_plan(&local, &before[usize::try_from(rank).unwrap()], target, None);
    }
    for round in 0..rounds {
        let mut mail: std::collections::HashMap<(i64, i64), Vec<i64>> = Default::default();
        for (rank, own) in (0..).zip(&before) {
            let parts = plan.parts_sent_by(rank).unwrap();
            for part in parts.iter().map(|p| p.slice_of(round, rounds)) {
                let buffer = mail.entry((rank, part.to)).or_default();
                let at = buffer.len();
                buffer.resize(at + usize::try_from(part.element_count()).unwrap(), 0);
                copy(&part.pack_nests(at as i64), own, buffer);
            }
        }
        for (rank, own) in (0..).zip(&mut after) {
            let mut at: std::collections::HashMap<i64, i64> = Default::default();
            for part in
                plan.parts_received_by(rank).unwrap().iter().map(|p| p.slice_of(round, rounds))
            {
                let begin = at.entry(part.from).or_insert(0);
                let none = Vec::new();
                let buffer = mail.get(&(part.from, rank)).unwrap_or(&none);
                copy(&part.unpack_nests(*begin), buffer, own);
                *begin += part.element_count();
            }
            for (from, read) in at {
                let sent = mail.get(&(from, rank)).map_or(0, Vec::len);
                assert_eq!(read, sent as i64, "rank {rank} reads all that {from} sent");
            }
        }
    }
    after
}

#[test]
fn every_pair_arrives_as_by_definition() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let (mut planned, mut copies, mut uneven, mut split) = (0, 0, 0, 0);
    for case in 0..1500 {
        let shape = shape(&mut random);
        let (src, dst) =
            (sharding(&mut random, &shape, false), sharding(&mut random, &shape, true));
        let what = format!(
            "case {case}: {shape:?}\n{:?} on {}\n{:?} on {}",
            src.layout(),
            src.mesh(),
            dst.layout(),
            dst.mesh()
        );
        let plan = match Reshard::between(&src, &dst, &shape) {
            Ok(plan) => plan,
            Err(e) => panic!("{what}: {e}"),
        };
        let certificate = certify_plan(&plan, None).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(certificate.busiest_sender, certificate.sender_bound, "{what}");
        let totals = plan.received_and_sent();
        for (rank, (received, sent)) in totals.iter().enumerate() {
            assert_eq!(
                (*received, *sent),
                (certificate.received[rank], certificate.sent[rank]),
                "{what}"
            );
        }
        let want = shards(&dst, plan.rank_count());
        let rounds = 1 + random.below(3);
        assert_eq!(exchange(&plan, rounds), want, "{what} in {rounds} rounds");
        planned += 1;
        copies += i64::from(src.copy_count() > 1 && dst.copy_count() > 1);
        uneven += i64::from(src.layout().window().is_some() && dst.layout().window().is_some());
        split += i64::from(plan.source().copy_count() > 1 && certificate.messages > 4);
    }
    assert!(
        planned == 1500 && copies > 150 && uneven > 300 && split > 150,
        "{copies} {uneven} {split}"
    );
}

/// Processes pack, send and unpack by the plans that they are given, and messages that are
/// contiguous in a shard are its bytes.
#[test]
fn processes_do_what_the_plan_says() {
    let mut random = Random(0x51ed_270b_9f1c_3a77);
    let (mut packed, mut direct) = (0, 0);
    for case in 0..400 {
        let shape = shape(&mut random);
        let (src, dst) =
            (sharding(&mut random, &shape, false), sharding(&mut random, &shape, true));
        // The same devices with other numbers: a step along every axis twice as many ranks, from rank 1 on.
        let renumbered = |side: &ShardedLayout| {
            let steps: Vec<i64> = side
                .mesh()
                .axes()
                .iter()
                .map(|(a, _)| 2 * side.mesh().axis_stride(*a).unwrap())
                .collect();
            side.with_rank_numbers(1, &steps, 2 * side.mesh().rank_count() + 1).unwrap()
        };
        let (src, dst) = match case % 2 {
            0 => (src, dst),
            _ => (renumbered(&src), renumbered(&dst)),
        };
        let plan = Reshard::between(&src, &dst, &shape).unwrap();
        certify_plan(&plan, None).unwrap_or_else(|e| panic!("case {case}: {e}"));
        let (before, count) = (shards(plan.source(), plan.rank_count()), 1 + random.below(3));
        let len = usize::try_from(plan.destination().shard_len()).unwrap();
        let mut after = vec![vec![0; len]; before.len()];
        let processes: Vec<RankProcess> = (0..plan.rank_count())
            .map(|rank| RankProcess::of_rank(&plan, rank, None, None).unwrap())
            .collect();
        let mut mail: std::collections::HashMap<(i64, i64, i64), Vec<i64>> = Default::default();
        for (rank, process) in (0..).zip(&processes) {
            let own = &before[usize::try_from(rank).unwrap()];
            for round in 0..count {
                for message in process.plan_round(round, count).unwrap().sends {
                    let length = usize::try_from(message.elements).unwrap();
                    let mut buffer = vec![0; length];
                    run_plan(&message.plan, own, &mut buffer, None);
                    if let Some(at) = message.direct {
                        let at = usize::try_from(at).unwrap();
                        assert_eq!(buffer, own[at..at + length], "case {case}");
                        direct += 1;
                    }
                    packed += 1;
                    mail.insert((rank, message.peer, round), buffer);
                }
            }
        }
        for (rank, process) in (0..).zip(&processes) {
            let at = usize::try_from(rank).unwrap();
            run_plan(process.kept_copies(), &before[at], &mut after[at], None);
            for round in 0..count {
                for message in process.plan_round(round, count).unwrap().receives {
                    let buffer = mail.remove(&(message.peer, rank, round)).unwrap();
                    run_plan(&message.plan, &buffer, &mut after[at], None);
                }
            }
        }
        assert!(mail.is_empty(), "case {case}: everything that is sent is received");
        assert_eq!(after, shards(plan.destination(), plan.rank_count()), "case {case}");
        let other = Reshard::between(&dst, &dst, &shape).unwrap();
        assert_eq!(
            plan.plan_digest(4, 1),
            Reshard::between(&src, &dst, &shape).unwrap().plan_digest(4, 1)
        );
        assert_ne!(plan.plan_digest(4, 1), plan.plan_digest(4, 2));
        assert!(src == dst || plan.plan_digest(4, 1) != other.plan_digest(4, 1), "case {case}");
    }
    assert!(packed > 2000 && direct > 200, "{packed} {direct}");
}

#[test]
fn links_of_nodes_are_little_busy() {
    let mut random = Random(77);
    let level = |name: &str, ranks, bandwidth| LinkLevel {
        name: name.into(),
        ranks,
        bandwidth,
        source: "test".into(),
    };
    let topology =
        Topology::new("t".into(), vec![level("rank", 1, 8.0), level("node", 4, 4.0)]).unwrap();
    let (mut better, mut worst, mut sum, mut seen) = (0, 1.0f64, 0.0, 0);
    for _ in 0..300 {
        let shape = shape(&mut random);
        let (src, dst) =
            (sharding(&mut random, &shape, false), sharding(&mut random, &shape, true));
        if src.copy_count() == 1 {
            continue;
        }
        let even = Reshard::between(&src, &dst, &shape).unwrap();
        let even = certify_plan(&even, Some(&topology)).unwrap();
        let plan = Reshard::between(&src, &dst, &shape).unwrap().balance_links(&topology).unwrap();
        let certificate = certify_plan(&plan, Some(&topology)).unwrap();
        assert_eq!(exchange(&plan, 2), shards(&dst, plan.rank_count()));
        let (before, after) = (even.links.unwrap(), certificate.links.unwrap());
        assert!(after.busiest <= before.busiest && after.bound <= after.busiest + 1e-9);
        better += i64::from(after.busiest < before.busiest);
        if after.bound > 0.0 {
            let factor = certificate.link_factor().unwrap();
            (worst, sum, seen) = (worst.max(factor), sum + factor, seen + 1);
        }
    }
    println!(
        "{better} of {seen} better than even shares; {} times the bound on average, {worst} at most",
        sum / f64::from(seen)
    );
    assert!(better > 20 && seen > 60 && worst <= 2.0);
}

/// All choices of whole pairs, tried: the planner may cut pairs too, so it can be better.
#[test]
fn the_bound_and_the_choice_are_near_the_best_of_all_choices() {
    let mut random = Random(5);
    let level =
        |ranks, bandwidth| LinkLevel { name: "l".into(), ranks, bandwidth, source: "t".into() };
    let topology = Topology::new("t".into(), vec![level(1, 8.0), level(2, 3.0)]).unwrap();
    let mut tried = 0;
    for _ in 0..4000 {
        let shape = [1 + random.below(8), 1 + random.below(4)];
        let (src, dst) =
            (sharding(&mut random, &shape, false), sharding(&mut random, &shape, false));
        let plan = Reshard::between(&src, &dst, &shape).unwrap();
        if src.copy_count() == 1 || plan.rank_count() > 8 {
            continue;
        }
        // Who can send each pair of a part and a receiver.
        let held = shards(&src, plan.rank_count());
        let mut pairs: Vec<(i64, i64, Vec<i64>)> = Vec::new();
        for to in 0..plan.rank_count() {
            let mut by_holders: std::collections::BTreeMap<Vec<i64>, i64> = Default::default();
            let wanted: std::collections::BTreeSet<i64> = shards(&dst, plan.rank_count())
                [to as usize]
                .iter()
                .copied()
                .filter(|e| *e != 0)
                .collect();
            for e in wanted {
                let holders: Vec<i64> =
                    (0..plan.rank_count()).filter(|r| held[*r as usize].contains(&e)).collect();
                if !holders.contains(&to) {
                    *by_holders.entry(holders).or_default() += 1;
                }
            }
            pairs.extend(by_holders.into_iter().map(|(holders, n)| (to, n, holders)));
        }
        let choices: i64 = pairs.iter().map(|p| p.2.len() as i64).product();
        if pairs.is_empty() || choices > 4096 {
            continue;
        }
        let mut best = f64::MAX;
        for mut choice in 0..choices {
            let mut loads = std::collections::HashMap::<(i64, i64, bool), f64>::new();
            for (to, n, holders) in &pairs {
                let from = holders[(choice % holders.len() as i64) as usize];
                choice /= holders.len() as i64;
                for (ranks, bandwidth) in [(1, 8.0), (2, 3.0)] {
                    if from / ranks != to / ranks {
                        *loads.entry((ranks, from / ranks, true)).or_default() +=
                            *n as f64 / bandwidth;
                        *loads.entry((ranks, to / ranks, false)).or_default() +=
                            *n as f64 / bandwidth;
                    }
                }
            }
            best = best.min(loads.values().copied().fold(0.0, f64::max));
        }
        let plan = plan.balance_links(&topology).unwrap();
        let links = certify_plan(&plan, Some(&topology)).unwrap().links.unwrap();
        // A bound for whole elements holds for all choices; the choice is within a third of the best of whole pairs.
        assert!(links.bound <= best.max(links.busiest) + 1e-9);
        assert!(links.busiest <= best * 4.0 / 3.0 + 1e-9, "{} against {best}", links.busiest);
        tried += 1;
    }
    assert!(tried > 40, "{tried}");
}

#[test]
fn rounds_keep_to_the_memory() {
    let mut random = Random(9);
    let (mut several, mut refused) = (0, 0);
    for _ in 0..200 {
        let shape = shape(&mut random);
        let (src, dst) =
            (sharding(&mut random, &shape, false), sharding(&mut random, &shape, false));
        let plan = Reshard::between(&src, &dst, &shape).unwrap();
        let most = 2 * (1 + random.below(40)).cast_unsigned();
        match plan.choose_rounds(2, most) {
            Ok(rounds) => {
                assert!(rounds.staging <= most);
                several += i64::from(rounds.count > 1);
                for rank in 0..plan.rank_count() {
                    let parts =
                        [plan.parts_received_by(rank).unwrap(), plan.parts_sent_by(rank).unwrap()]
                            .concat();
                    for i in 0..rounds.count {
                        let slice = |p: &TransferPart| p.slice_of(i, rounds.count).element_count();
                        let held: i64 = parts.iter().map(slice).sum();
                        assert!(2 * held.cast_unsigned() <= most);
                    }
                }
            }
            Err(ReshardError::Memory { least, .. }) => {
                assert!(least > most && plan.choose_rounds(2, least).is_ok());
                refused += 1;
            }
            Err(e) => panic!("{e}"),
        }
    }
    assert!(several > 20 && refused > 5, "{several} {refused}");
}
