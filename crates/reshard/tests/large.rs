//! Meshes of many ranks.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking"
)]

mod common;

use common::axis;
use std::time::Instant;
use zellige_layout::{Iter, Layout, PaddedExtent, TileLayout, ValidWindow};
use zellige_reshard::{DeviceMesh, Reshard, ShardedLayout, certify_plan};

/// Rows over `parts` of the ranks, each part on `copies` of them, the copies fastest.
fn rows(shape: [i64; 2], parts: i64, copies: i64) -> ShardedLayout {
    let (r, local) = (axis("r"), (shape[0] + parts - 1) / parts);
    let shard = vec![
        Iter::new(parts, copies, r),
        Iter::in_memory(local, shape[1]),
        Iter::in_memory(shape[1], 1),
    ];
    let tile = TileLayout::new(shard, vec![Iter::new(copies, 1, r)], []).unwrap();
    let window = vec![
        PaddedExtent::padded_to(shape[0], parts * local),
        PaddedExtent::without_padding(shape[1]),
    ];
    let layout = Layout::from(tile).with_window(ValidWindow::new(window).unwrap()).unwrap();
    ShardedLayout::new(layout, DeviceMesh::new(vec![(r, parts * copies)]).unwrap()).unwrap()
}

/// Columns over `parts` of the ranks, each on `copies` of them, the copies slowest.
fn columns(shape: [i64; 2], parts: i64, copies: i64) -> ShardedLayout {
    let (r, local) = (axis("r"), shape[1] / parts);
    let shard =
        vec![Iter::in_memory(shape[0], local), Iter::new(parts, 1, r), Iter::in_memory(local, 1)];
    let tile = TileLayout::new(shard, vec![Iter::new(copies, parts, r)], []).unwrap();
    ShardedLayout::new(Layout::from(tile), DeviceMesh::new(vec![(r, parts * copies)]).unwrap())
        .unwrap()
}

#[test]
fn sixty_five_thousand_ranks_in_seconds() {
    let shape = [1 << 18, 1 << 14];
    let started = Instant::now();
    let (src, dst) = (rows(shape, 256, 256), columns(shape, 1024, 64));
    let plan = Reshard::between(&src, &dst, &shape).unwrap();
    let totals = plan.received_and_sent();
    assert_eq!(totals.len(), 65_536);
    // A rank needs a column of 1/1024 and has 1/256 of it.
    let need = shape[0] * shape[1] / 1024;
    assert!(totals.iter().all(|(received, _)| *received == need - need / 256));
    let (received, sent) = totals.iter().fold((0, 0), |(a, b), (r, s)| (a + r, b + s));
    assert_eq!(received, sent);
    let (least, most) = (totals.iter().map(|t| t.1).min(), totals.iter().map(|t| t.1).max());
    println!(
        "65,536 ranks: {received} elements, senders {least:?} to {most:?}, {:?}",
        started.elapsed()
    );
    assert!(most.unwrap() - least.unwrap() <= 1);
    let one = plan.parts_sent_by(40_000).unwrap();
    assert_eq!(one.iter().map(|p| p.element_count()).sum::<i64>(), totals[40_000].1);
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}

#[test]
fn all_to_all_and_a_million_ranks_are_formulas() {
    let started = Instant::now();
    let shape = [1 << 20, 1 << 20];
    let (src, dst) = (rows(shape, 1 << 20, 1), columns(shape, 1 << 20, 1));
    let plan = Reshard::between(&src, &dst, &shape).unwrap();
    for rank in [0, 777_777, (1 << 20) - 1] {
        assert_eq!(
            (plan.elements_received(rank), plan.elements_sent(rank)),
            ((1 << 20) - 1, (1 << 20) - 1)
        );
    }
    println!("a million ranks: {:?}", started.elapsed());
    // Uneven on both sides, with boundaries that do not nest.
    let shape = [1_000_003, 3];
    let plan = Reshard::between(&rows(shape, 65_536, 1), &rows(shape, 49_152, 1), &shape).unwrap();
    let totals = plan.received_and_sent();
    assert_eq!(totals.iter().map(|t| t.0).sum::<i64>(), totals.iter().map(|t| t.1).sum::<i64>());
    println!("uneven, 65,536 to 49,152: {:?}", started.elapsed());
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}

/// The whole certificate, every element of every rank.
#[test]
fn sixty_five_thousand_ranks_are_certified() {
    let shape = [1 << 15, 16];
    let plan = Reshard::between(&rows(shape, 1 << 15, 2), &rows(shape, 21_845, 3), &shape).unwrap();
    let started = Instant::now();
    let certificate = certify_plan(&plan, None).unwrap();
    println!("{} messages certified in {:?}", certificate.messages, started.elapsed());
    assert_eq!(certificate.busiest_sender, certificate.sender_bound);
    assert_eq!(certificate.received.len(), 65_536);
}
