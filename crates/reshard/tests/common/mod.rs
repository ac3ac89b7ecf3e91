//! Random shardings, and their meaning by definition.
#![allow(dead_code, reason = "each test uses a part")]

use zellige_layout::{Axis, AxisKind, Iter, Layout, PaddedExtent, TileLayout, ValidWindow};
use zellige_movement::CopyNest;
use zellige_reshard::{DeviceMesh, ShardedLayout};

/// A small generator of its own: the same cases on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        i64::try_from((self.0 >> 11) % u64::try_from(n).unwrap()).unwrap()
    }

    pub(crate) fn chance(&mut self, percent: i64) -> bool {
        self.below(100) < percent
    }
}

pub(crate) fn axis(name: &str) -> Axis {
    Axis::new(name, AxisKind::Device).unwrap()
}

/// A sharding of a shape: every mesh axis divides a dimension, holds copies, both in factors, or holds the tensor at one place.
pub(crate) fn sharding(random: &mut Random, shape: &[i64], destination: bool) -> ShardedLayout {
    let names = ["x", "y", "z"];
    let axes: Vec<(Axis, i64)> = (0..1 + random.below(3))
        .map(|k| {
            (
                axis(names[usize::try_from(k).unwrap()]),
                [1, 2, 2, 3, 4, 4, 5][random.below(7) as usize],
            )
        })
        .collect();
    let mut devices: Vec<Vec<Iter>> = vec![Vec::new(); shape.len()];
    let (mut replica, mut offset) = (Vec::new(), Vec::new());
    for (axis, size) in &axes {
        let d = random.below(shape.len() as i64) as usize;
        match random.below(10) {
            0..5 if random.chance(10) => {
                devices[d].push(Iter::new(*size, -1, *axis));
                offset.push((*axis, size - 1));
            }
            0..5 => devices[d].push(Iter::new(*size, 1, *axis)),
            5..8 => replica.push(Iter::new(*size, 1, *axis)),
            8 if size % 2 == 0 => {
                let (own, copies) = if random.chance(50) { (1, 2) } else { (size / 2, 1) };
                devices[d].push(Iter::new(2, own, *axis));
                replica.push(Iter::new(size / 2, if own == 1 { 2 } else { copies }, *axis));
            }
            _ => offset.push((*axis, random.below(*size))),
        }
    }
    // The pieces of every dimension: which are local, and how long it is with padding.
    let mut pieces: Vec<Vec<(i64, Option<Iter>)>> = Vec::new();
    let mut window = Vec::new();
    for (d, extent) in shape.iter().enumerate() {
        let parts: i64 = devices[d].iter().map(|it| it.extent).product();
        let turns = if random.chance(25) { 1 + random.below(3) } else { 1 };
        let local = (extent + parts * turns - 1) / (parts * turns) + i64::from(random.chance(8));
        let mut own = Vec::new();
        if turns > 1 {
            own.push((turns, None));
        }
        own.extend(devices[d].iter().map(|it| (it.extent, Some(*it))));
        own.push((local, None));
        let padded = turns * parts * local;
        let begin = if random.chance(15) { random.below(padded - extent + 1) } else { 0 };
        window.push(PaddedExtent { begin, valid: *extent, padded });
        pieces.push(own);
    }
    // Local pieces lie in memory in a random order, at times with gaps.
    let mut locals: Vec<(usize, usize)> = Vec::new();
    for (d, own) in pieces.iter().enumerate() {
        locals.extend((0..own.len()).filter(|k| own[*k].1.is_none()).map(|k| (d, k)));
    }
    if random.chance(40) {
        for i in (1..locals.len()).rev() {
            locals.swap(i, random.below(i as i64 + 1) as usize);
        }
    }
    let mut stride = if random.chance(15) { 2 } else { 1 };
    let mut strides = vec![vec![0; 8]; shape.len()];
    for (d, k) in locals.iter().rev() {
        strides[*d][*k] = stride;
        stride *= pieces[*d][*k].0;
        if random.chance(10) {
            stride += 3;
        }
    }
    if destination && random.chance(10) {
        replica.push(Iter::in_memory(2, stride));
    }
    if random.chance(10) {
        offset.push((Axis::M, 5));
    }
    let mut shard = Vec::new();
    for (d, own) in pieces.iter().enumerate() {
        for (k, (extent, device)) in own.iter().enumerate() {
            shard.push(device.unwrap_or_else(|| Iter::in_memory(*extent, strides[d][k])));
        }
    }
    let tile = TileLayout::new(shard, replica, offset).unwrap();
    let layout = Layout::from(tile).with_window(ValidWindow::new(window).unwrap()).unwrap();
    ShardedLayout::new(layout, DeviceMesh::new(axes).unwrap()).unwrap()
}

pub(crate) fn shape(random: &mut Random) -> Vec<i64> {
    match random.below(4) {
        0 => vec![1 + random.below(60)],
        1 => vec![1 + random.below(12), 1 + random.below(16)],
        2 => vec![1 + random.below(5), 1 + random.below(6), 1 + random.below(7)],
        _ => vec![[4, 8, 12][random.below(3) as usize], [6, 8, 16][random.below(3) as usize]],
    }
}

/// Every shard by definition: element numbers from 1, and 0 where there is none.
pub(crate) fn shards(sharded: &ShardedLayout, ranks: i64) -> Vec<Vec<i64>> {
    let len = usize::try_from(sharded.shard_len()).unwrap();
    let mut all = vec![vec![0; len]; usize::try_from(ranks).unwrap()];
    let layout = sharded.layout();
    for element in 0..layout.size() {
        for point in layout.physical_coordinates(element).unwrap().sorted_coordinates() {
            let axes = sharded.mesh().axes();
            let rank = axes.iter().fold(0, |r, (axis, size)| r * size + point.get(*axis));
            let address = point.get(layout.memory_axis());
            all[usize::try_from(rank).unwrap()][usize::try_from(address).unwrap()] = element + 1;
        }
    }
    all
}

pub(crate) fn copy(nests: &[CopyNest], from: &[i64], to: &mut [i64]) {
    for nest in nests {
        let mut pairs = nest.starts.clone();
        for l in &nest.loops {
            pairs = pairs
                .iter()
                .flat_map(|(a, b)| (0..l.range).map(move |i| (a + i * l.src, b + i * l.dst)))
                .collect();
        }
        for (a, b) in pairs {
            to[usize::try_from(b).unwrap()] = from[usize::try_from(a).unwrap()];
        }
    }
}
