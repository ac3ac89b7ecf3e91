//! Which loops make up a small tile, and which program runs inside it.

use super::super::job::{ByteLoop, Job, Kernel, even, without};
use super::super::stream::{LINE, Stream};
use super::gather::{Gather, REGISTER};
use super::run::{GatherTile, PITCH_GAP, Program, STAGE_IN, Small, SquareTile};
use super::x86;
use zellige_isa::Isa;

/// Nests of fewer bytes are not worth a plan of their own.
const LEAST: usize = 4096;
/// Bytes of a row that squares write, at most.
pub(super) const SQUARE_ROW: usize = 512;
/// Adjacent bytes that squares read, at most.
const SQUARE_SRC: usize = 256;
/// Rows and columns of bytes from which one loop on either side is enough, and a transpose its kernel.
const LONG_ROW: usize = 256;
/// Bytes of a row that is gathered, at most and at least; and of a tile of them.
pub(super) const GATHER_ROW: usize = 2048;
const LEAST_ROW: usize = 256;
const GATHER_TILE: usize = 8192;
/// Rows from which streaming pays although the first and last lines are broken.
const STREAMED: usize = 192;

/// The job of some loops, in bytes, around elements of `width` bytes, where small tiles are the best.
pub(in super::super) fn select(
    loops: &[ByteLoop],
    starts: &[(isize, isize)],
    width: usize,
    stream: bool,
) -> Option<Job> {
    let steps = loops.iter().fold(width, |all, l| all.saturating_mul(l.n.unsigned_abs()));
    if steps < LEAST || width > REGISTER || !Isa::best().has_avx2() {
        return None;
    }
    let tile = squares(loops, width, stream).or_else(|| gathers(loops, width))?;
    let Tile { program, row, inside, x, y, parts, outer } = tile;
    let whole = if x.n > parts.0 { parts.0 * x.dst } else { 0 };
    let places = without(loops, &inside).into_iter().map(|l| l.dst).chain([whole]);
    let stream = if stream && row >= STREAMED {
        Stream::Always
    } else {
        Stream::of(stream, row, places.chain(starts.iter().map(|s| s.1)))
    };
    let kernel = Kernel::Small(Box::new(Small { program, row }));
    Some(Job { kernel, stream, x, y, tile: parts, outer, starts: starts.to_vec() })
}

/// A program, the bytes of its rows and the loops inside them, the two loops that are cut, the steps of
/// a tile, and the rest.
struct Tile {
    program: Program,
    row: usize,
    inside: Vec<usize>,
    x: ByteLoop,
    y: ByteLoop,
    parts: (isize, isize),
    outer: Vec<ByteLoop>,
}

/// Loops that follow one another on one side, innermost first, up to some bytes; those that are barred
/// are not among them.
fn chain(
    loops: &[ByteLoop],
    width: usize,
    most: usize,
    side: fn(&ByteLoop) -> isize,
    barred: impl Fn(usize, &ByteLoop) -> bool,
) -> (Vec<usize>, usize) {
    let (mut taken, mut bytes) = (Vec::new(), width);
    while bytes < most {
        let next = loops.iter().enumerate().find(|(i, l)| {
            side(l) == bytes.cast_signed() && l.n > 1 && !taken.contains(i) && !barred(bytes, l)
        });
        let Some((i, l)) = next else { break };
        bytes = bytes.saturating_mul(l.n.unsigned_abs());
        taken.push(i);
    }
    (taken, bytes)
}

/// A part of `n` steps of `unit` bytes that is no more than `most` bytes: in whole lines, where no short
/// end is left then.
fn part(n: isize, unit: usize, most: usize) -> isize {
    let most = (most / unit).max(1).cast_signed();
    if n <= most {
        return n;
    }
    let lines = |p: &isize| (p.unsigned_abs() * unit).is_multiple_of(LINE);
    let tidy = |p: &isize| n % p == 0 || n % p >= p / 2;
    (most / 2 + 1..=most).rev().find(|p| lines(p) && tidy(p)).unwrap_or_else(|| even(n, most))
}

/// Offsets of all combinations of digits, innermost loop first, and fastest.
fn offsets(loops: &[ByteLoop], side: fn(&ByteLoop) -> isize) -> Vec<isize> {
    loops.iter().fold(vec![0], |inner, l| {
        (0..l.n).flat_map(|i| inner.iter().map(move |a| a + i * side(l))).collect()
    })
}

fn squares(loops: &[ByteLoop], width: usize, stream: bool) -> Option<Tile> {
    let run = x86::squares(width)?;
    let (e, least) = (width.cast_signed(), (16 / width).cast_signed());
    let (xs, _) = chain(loops, width, SQUARE_ROW, |l| l.dst, |_, l| l.src == e);
    let (mut ys, _) =
        chain(loops, width, SQUARE_SRC, |l| l.src, |_, l| xs.iter().any(|i| loops[*i] == *l));
    let x = loops[*xs.last()?];
    ys.first()?;
    let long = |l: &ByteLoop, bytes: usize| l.n.unsigned_abs() * width >= bytes;
    if long(&loops[xs[0]], LONG_ROW) && long(&loops[ys[0]], LINE) {
        return None;
    }
    let px = part(x.n, x.dst.unsigned_abs(), SQUARE_ROW);
    let row = (px * x.dst).unsigned_abs();
    // Rows in the stage are whole lines apart.
    let fits = ((STAGE_IN / (row / width) - PITCH_GAP) / LINE * LINE).min(SQUARE_SRC);
    while ys.len() > 1 && loops[ys[ys.len() - 1]].src.unsigned_abs() > fits {
        ys.pop();
    }
    let y = loops[*ys.last()?];
    let py = part(y.n, y.src.unsigned_abs(), fits);
    let cut = |taken: &[usize], n: isize| -> Vec<ByteLoop> {
        let mut all: Vec<ByteLoop> = taken.iter().map(|i| loops[*i]).collect();
        if let Some(last) = all.last_mut() {
            last.n = n;
        }
        all
    };
    let (rows, columns) = (offsets(&cut(&xs, px), |l| l.src), offsets(&cut(&ys, py), |l| l.dst));
    if rows.len().min(columns.len()) < least.unsigned_abs() || columns.len() * width > fits {
        return None;
    }
    let tile = SquareTile::new(run, rows, columns, (px, py), width, stream);
    let taken: Vec<usize> = xs.iter().chain(&ys).copied().collect();
    let outer = without(loops, &taken);
    Some(Tile { program: Program::Squares(tile), row, inside: xs, x, y, parts: (px, py), outer })
}

fn gathers(loops: &[ByteLoop], width: usize) -> Option<Tile> {
    let (xs, bytes) = chain(loops, width, GATHER_ROW, |l| l.dst, |_, _| false);
    if bytes < REGISTER {
        return None;
    }
    // Loops outside of the row that share its lines of the source, nearest first.
    let mut near: Vec<usize> = (0..loops.len()).filter(|i| !xs.contains(i)).collect();
    near.retain(|i| loops[*i].src != 0 && loops[*i].src.unsigned_abs() < LINE);
    near.sort_unstable_by_key(|i| loops[*i].src.unsigned_abs());
    let mut rows = 1;
    near.retain(|i| {
        let all = rows * loops[*i].n.unsigned_abs();
        let fits = all <= GATHER_TILE / LEAST_ROW;
        rows = if fits { all } else { rows };
        fits
    });
    let most = (GATHER_TILE / rows).min(GATHER_ROW);
    // The loop along which the registers are the same: the first that fills one.
    let along = xs
        .iter()
        .position(|i| loops[*i].dst.unsigned_abs() * loops[*i].n.unsigned_abs() >= REGISTER)?;
    let of = |taken: &[usize]| -> Vec<ByteLoop> { taken.iter().map(|i| loops[*i]).collect() };
    // Rows are cut in the first loop that makes them too long, which is that one or a later one.
    let cut = xs.iter().position(|i| loops[*i].dst * loops[*i].n > most.cast_signed());
    let inside = cut.unwrap_or(xs.len());
    let x = cut.map_or(ByteLoop::UNIT, |at| loops[xs[at]]);
    let px = if inside < xs.len() { part(x.n, x.dst.unsigned_abs(), most) } else { 1 };
    let (along_x, steps) =
        if inside == along { (true, ByteLoop { n: px, ..x }) } else { (false, loops[xs[along]]) };
    let plan = Gather::plan(&of(&xs[..along]), steps, width)?;
    let run = x86::gather(plan.each)?;
    let after = if along_x { vec![] } else { of(&xs[along + 1..inside]) };
    let row = if inside < xs.len() { px.unsigned_abs() * x.dst.unsigned_abs() } else { bytes };
    let in_row = xs[..(inside + 1).min(xs.len())].to_vec();
    let taken: Vec<usize> = in_row.iter().chain(&near).copied().collect();
    let mut outer = without(loops, &taken);
    // Short rows: several of them, along what is nearest in the destination.
    let (mut y, mut py) = (ByteLoop::UNIT, 1);
    if row * rows < GATHER_TILE / 2
        && let Some(i) = (0..outer.len()).min_by_key(|i| outer[*i].dst.unsigned_abs())
    {
        y = outer.remove(i);
        py = even(y.n, (GATHER_TILE / (row * rows)).cast_signed());
    }
    let both = |loops: &[ByteLoop]| -> Vec<(isize, isize)> {
        offsets(loops, |l| l.src).into_iter().zip(offsets(loops, |l| l.dst)).collect()
    };
    let tile = GatherTile {
        gather: plan,
        run,
        along: steps,
        along_x,
        within: both(&after),
        rows: both(&of(&near)),
    };
    Some(Tile { program: Program::Gather(tile), row, inside: in_row, x, y, parts: (px, py), outer })
}
