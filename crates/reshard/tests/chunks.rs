//! A dimension that is divided unevenly and then divided again: every mesh axis in turn cuts each
//! chunk as `torch.chunk` does.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking"
)]

mod common;

use common::{Random, copy, shape};
use std::collections::HashMap;
use zellige_reshard::{DeviceMesh, RankProcess, Reshard, ShardBox, ShardedLayout, certify_plan};

/// The role of a mesh axis: it divides a dimension or holds copies.
type Placements = Vec<Option<usize>>;

fn text(placements: &Placements) -> String {
    let word = |p: &Option<usize>| match p {
        Some(dim) => format!("Shard({dim}),"),
        None => "Replicate(),".to_string(),
    };
    format!("({})", placements.iter().map(word).collect::<Vec<_>>().join(" "))
}

/// The elements of a rank, in the order of its shard, by definition: lists of indices are cut into chunks.
fn held(placements: &Placements, sizes: &[i64], shape: &[i64], rank: i64) -> Vec<i64> {
    let mut indices: Vec<Vec<i64>> = shape.iter().map(|n| (0..*n).collect()).collect();
    let mut step: i64 = sizes.iter().product();
    for (placement, size) in placements.iter().zip(sizes) {
        step /= size;
        let Some(dim) = placement else { continue };
        let place = (rank / step % size) as usize;
        let own = &indices[*dim];
        let each = own.len().div_ceil(*size as usize).max(1);
        indices[*dim] = own.chunks(each).nth(place).map(<[i64]>::to_vec).unwrap_or_default();
    }
    let mut flat = vec![0];
    for (own, n) in indices.iter().zip(shape) {
        flat = flat.iter().flat_map(|f| own.iter().map(move |i| f * n + i)).collect();
    }
    flat
}

/// The elements of a rank with a flat shard.
fn flat(shape: &[i64], ranks: i64, rank: i64) -> Vec<i64> {
    let total: i64 = shape.iter().product();
    let each = (total + ranks - 1) / ranks;
    (0..total).filter(|i| i / each.max(1) == rank).collect()
}

/// Runs a plan between dense shards, as processes do.
fn exchange(plan: &Reshard, boxes: [&[i64]; 2], before: &[Vec<i64>], want: &[Vec<i64>]) {
    let of = |side: &ShardedLayout, shape: &[i64], rank| ShardBox::of_rank(side, shape, rank);
    let processes: Vec<RankProcess> = (0..plan.rank_count())
        .map(|rank| {
            let from = of(plan.source(), boxes[0], rank);
            RankProcess::of_rank(plan, rank, from, of(plan.destination(), boxes[1], rank)).unwrap()
        })
        .collect();
    let mut mail: HashMap<(i64, i64), Vec<i64>> = HashMap::new();
    for (rank, process) in (0..).zip(&processes) {
        for message in process.plan_round(0, 1).unwrap().sends {
            let mut buffer = vec![0; message.elements as usize];
            copy(message.plan.nests(), &before[rank as usize], &mut buffer);
            mail.insert((rank, message.peer), buffer);
        }
    }
    for (rank, process) in (0..).zip(&processes) {
        let mut after = vec![-1; want[rank as usize].len()];
        copy(process.kept_copies().nests(), &before[rank as usize], &mut after);
        for message in process.plan_round(0, 1).unwrap().receives {
            copy(message.plan.nests(), &mail[&(message.peer, rank)], &mut after);
        }
        assert_eq!(after, want[rank as usize], "rank {rank}");
    }
}

#[test]
fn chunks_of_chunks_arrive_as_by_definition() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut both, mut empty, mut copies, mut rows) = (0, 0, 0, 0);
    let mut cases = 0;
    while cases < 600 {
        let shape = shape(&mut random);
        let sizes: Vec<i64> = (0..2 + random.below(2)).map(|_| 2 + random.below(3)).collect();
        let names = ["x", "y", "z"];
        let axes: Vec<String> = sizes.iter().zip(names).map(|(n, a)| format!("{a}={n}")).collect();
        let mesh = DeviceMesh::parse(&axes.join(", ")).unwrap();
        let mut placed = || -> Placements {
            let one =
                |r: &mut Random| (!r.chance(20)).then(|| r.below(shape.len() as i64) as usize);
            sizes.iter().map(|_| one(&mut random)).collect()
        };
        let sides = [placed(), placed()];
        let uneven = |side: &Placements| {
            let whole = format!("{} mesh={sizes:?}", text(side));
            ShardedLayout::parse_chunked(&whole, Some(&shape)).is_some()
        };
        let which: Vec<bool> = sides.iter().map(uneven).collect();
        if !which.contains(&true) {
            continue;
        }
        // The other side may also have the elements in a row.
        let row = !which[1] && random.chance(30);
        let to = if row { "flat".to_string() } else { text(&sides[1]) };
        let what = format!("{shape:?} on {mesh}: {} to {to}", text(&sides[0]));
        let from = ShardedLayout::read_sharding(&text(&sides[0]), &mesh, &shape).unwrap();
        let to = ShardedLayout::read_sharding(&to, &mesh, &shape).unwrap();
        let plan = Reshard::between(&from, &to, &shape).unwrap_or_else(|e| panic!("{what}: {e}"));
        let shown = certify_plan(&plan, None).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(shown.busiest_sender, shown.sender_bound, "{what}");
        let ranks = 0..mesh.rank_count();
        let before: Vec<_> =
            ranks.clone().map(|rank| held(&sides[0], &sizes, &shape, rank)).collect();
        let want: Vec<_> = ranks
            .map(|rank| match row {
                true => flat(&shape, mesh.rank_count(), rank),
                false => held(&sides[1], &sizes, &shape, rank),
            })
            .collect();
        let elements = [shape.iter().product()];
        exchange(&plan, [&shape, if row { &elements } else { &shape }], &before, &want);
        cases += 1;
        both += usize::from(which == [true, true]);
        empty += usize::from(want.iter().chain(&before).any(Vec::is_empty));
        copies += usize::from(from.copy_count() > 1 || to.copy_count() > 1);
        rows += usize::from(row);
    }
    assert!(both > 50 && empty > 50 && copies > 50 && rows > 20, "{both} {empty} {copies} {rows}");
}

/// Where nothing is cut unevenly twice there is a layout, and other shards have none of the boxes that are needed.
#[test]
fn what_has_a_layout_is_not_listed() {
    for (text, shape) in [
        ("(Shard(0), Shard(0)) mesh=[2, 2]", [8, 3]),
        ("(Shard(0), Shard(0)) mesh=[2, 3]", [10, 3]),
        ("(Shard(0), Shard(1)) mesh=[2, 2]", [9, 3]),
        ("(Shard(0), Shard(0)) mesh=[2, 1]", [9, 3]),
        ("(_StridedShard(0, split_factor=2), Shard(0)) mesh=[2, 2]", [9, 3]),
        ("(Shard(0), Shard(0))", [9, 3]),
        ("P('x', None)", [9, 3]),
    ] {
        assert!(ShardedLayout::parse_chunked(text, Some(&shape)).is_none(), "{text}");
    }
    let made = ShardedLayout::parse_chunked("(Shard(0), Shard(0)) mesh=[2, 2] shape=[9, 3]", None);
    let (uneven, shape) = made.unwrap().unwrap();
    assert_eq!(shape, [9, 3]);
    let turns = "S[(3, 2, 2, 3):(1, 1@x, 1@y, 3)]";
    let mesh = DeviceMesh::parse("x=2, y=2").unwrap();
    let turns = ShardedLayout::read_sharding(turns, &mesh, &[12, 3]).unwrap();
    assert!(Reshard::between(&uneven, &turns, &[12, 3]).is_err());
}

/// A `PartitionSpec` means the same on a mesh that is given and on one that it says: row `r` of `n` over `p` ranks is on rank
/// `r / ceil(n / p)`, whether `p` divides `n` or not.
#[test]
fn a_spec_that_says_its_mesh_is_padded_too() {
    let mut uneven = 0;
    for ranks in 1..6 {
        let mesh = DeviceMesh::parse(&format!("tp={ranks}")).unwrap();
        let own = format!("Mesh('tp': {ranks}) P('tp', None)");
        for rows in 1..14 {
            let shape = [rows, 3];
            let given = ShardedLayout::read_sharding("P('tp', None)", &mesh, &shape).unwrap();
            let mut same = vec![ShardedLayout::read_sharding(&own, &mesh, &shape).unwrap()];
            let alone = ShardedLayout::parse_chunked(&own, Some(&shape));
            assert_eq!(alone.is_some(), rows % ranks != 0, "{own} {shape:?}");
            if let Some(made) = alone {
                let (made, found) = made.unwrap();
                assert_eq!(found, shape);
                same.push(made);
                uneven += 1;
            }
            let longest = (rows + ranks - 1) / ranks;
            for sharded in same.iter().chain([&given]) {
                assert_eq!(sharded.mesh().rank_count(), ranks);
                for element in 0..rows * 3 {
                    let points = sharded
                        .layout()
                        .physical_coordinates(element)
                        .unwrap()
                        .sorted_coordinates();
                    let held: Vec<i64> =
                        points.iter().map(|p| p.get(sharded.mesh().axes()[0].0)).collect();
                    assert_eq!(held, [element / 3 / longest], "{own} {shape:?} {element}");
                }
            }
        }
    }
    assert!(uneven > 20, "{uneven}");
}
