//! The choice of the loops that make up a small tile, and of the program that runs inside it.

use super::super::job::{ByteLoop, JobKernel, NestJob, even_tile, without_loops};
use super::super::stream::{LINE_BYTES, StreamRule};
use super::gather::{REGISTER_BYTES, StretchGather};
use super::kernels;
use super::run::{GatherTile, Small, SmallProgram, SquareTile};
use crate::engine::tuning::{
    GATHER_RUN_COST_REGISTERS, GATHER_TILE_BYTES, MAX_GATHER_ROW_BYTES, MAX_PREFETCH_STRETCHES,
    MAX_SQUARE_READ_BYTES, MAX_SQUARE_ROW_BYTES, MAX_UNSTAGED_FAR_ROWS, MIN_CONFLICT_STEP_BYTES,
    MIN_GATHER_ROW_BYTES, MIN_SMALL_NEST_BYTES, MIN_SQUARE_READ_BYTES,
    MIN_STREAMED_SMALL_ROW_BYTES, MIN_TRANSPOSE_ROW_BYTES, MIN_UNGATHERED_ELEMENT_BYTES,
    MIN_UNGATHERED_RUN_BYTES, SQUARE_STAGE_BYTES, SQUARE_STAGE_GAP_BYTES,
};
use zellige_isa::Isa;

/// The job of some loops, in bytes, around elements of `width` bytes; none where small tiles would be slower than
/// the other kernels.
pub(in super::super) fn select_small_tiles(
    loops: &[ByteLoop],
    starts: &[(isize, isize)],
    width: usize,
    stream: bool,
) -> Option<NestJob> {
    let steps = loops.iter().fold(width, |all, l| all.saturating_mul(l.n.unsigned_abs()));
    if steps < MIN_SMALL_NEST_BYTES || width > REGISTER_BYTES || Isa::process_isa() == Isa::BASELINE
    {
        return None;
    }
    // Squares first: they load each byte of the source once, a gather as often as windows have it.
    let tile = plan_square_tile(loops, width, stream).or_else(|| plan_gather_tile(loops, width))?;
    let SmallTile { program, row, inside, x, y, parts, outer } = tile;
    // Rows begin at sums of the steps of all loops that are not inside a row, and of tiles along a cut row.
    let whole = if x.n > parts.0 { parts.0 * x.dst } else { 0 };
    let places = without_loops(loops, &inside).into_iter().map(|l| l.dst).chain([whole]);
    let stream = if stream && row >= MIN_STREAMED_SMALL_ROW_BYTES {
        StreamRule::Always
    } else {
        StreamRule::for_rows(stream, row, places.chain(starts.iter().map(|s| s.1)))
    };
    let small = Small { program, row };
    let x_first = small.grows_rows();
    let kernel = JobKernel::Small(Box::new(small));
    Some(NestJob { kernel, stream, x, y, tile: parts, x_first, outer, starts: starts.to_vec() })
}

/// A program, the bytes of its rows and the loops inside them, the two loops that are cut, the steps of
/// a tile, and the rest.
struct SmallTile {
    program: SmallProgram,
    row: usize,
    inside: Vec<usize>,
    x: ByteLoop,
    y: ByteLoop,
    parts: (isize, isize),
    outer: Vec<ByteLoop>,
}

/// Loops that follow one another on one side, innermost first, up to `most` bytes. Loops that `barred` refuses are
/// left out.
fn chain_loops(
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

/// A part of `n` steps of `unit` bytes that is no more than `most` bytes: in whole lines, if that leaves no short
/// remainder.
fn cut_loop(n: isize, unit: usize, most: usize) -> isize {
    let most = (most / unit).max(1).cast_signed();
    if n <= most {
        return n;
    }
    let lines = |p: &isize| (p.unsigned_abs() * unit).is_multiple_of(LINE_BYTES);
    // A last part of less than half a tile costs as much as a tile.
    let tidy = |p: &isize| n % p == 0 || n % p >= p / 2;
    (most / 2 + 1..=most).rev().find(|p| lines(p) && tidy(p)).unwrap_or_else(|| even_tile(n, most))
}

/// Offsets of all combinations of digits, innermost loop first, and fastest.
fn list_offsets(loops: &[ByteLoop], side: fn(&ByteLoop) -> isize) -> Vec<isize> {
    loops.iter().fold(vec![0], |inner, l| {
        (0..l.n).flat_map(|i| inner.iter().map(move |a| a + i * side(l))).collect()
    })
}

fn plan_square_tile(loops: &[ByteLoop], width: usize, stream: bool) -> Option<SmallTile> {
    let run = kernels::select_square_kernel(width)?;
    let e = width.cast_signed();
    // A run that is adjacent on both sides belongs to the rows of neither side; it was taken as the unit.
    let (xs, _) = chain_loops(loops, width, MAX_SQUARE_ROW_BYTES, |l| l.dst, |_, l| l.src == e);
    let (mut ys, _) = chain_loops(
        loops,
        width,
        MAX_SQUARE_READ_BYTES,
        |l| l.src,
        |_, l| xs.iter().any(|i| loops[*i] == *l),
    );
    let x = loops[*xs.last()?];
    ys.first()?;
    let long = |l: &ByteLoop, bytes: usize| l.n.unsigned_abs() * width >= bytes;
    // One long loop on either side is a transpose, whose addresses need no tables.
    if long(&loops[xs[0]], MIN_TRANSPOSE_ROW_BYTES) && long(&loops[ys[0]], REGISTER_BYTES) {
        return None;
    }
    // In the caches, wide elements need no more than a line of either.
    if !stream && width >= 8 && long(&loops[xs[0]], LINE_BYTES) && long(&loops[ys[0]], LINE_BYTES) {
        return None;
    }
    // Whole lines that follow one another: the registers of a transpose make them.
    let whole = loops[xs[0]].n * e;
    if whole % LINE_BYTES.cast_signed() == 0
        && loops[ys[0]].dst == whole
        && long(&loops[ys[0]], LINE_BYTES)
    {
        return None;
    }
    let px = cut_loop(x.n, x.dst.unsigned_abs(), MAX_SQUARE_ROW_BYTES);
    let row = (px * x.dst).unsigned_abs();
    // Rows in the stage are whole lines apart.
    let fits = ((SQUARE_STAGE_BYTES / (row / width) - SQUARE_STAGE_GAP_BYTES) / LINE_BYTES
        * LINE_BYTES)
        .min(MAX_SQUARE_READ_BYTES);
    while ys.len() > 1 && loops[ys[ys.len() - 1]].src.unsigned_abs() > fits {
        ys.pop();
    }
    let y = loops[*ys.last()?];
    let py = cut_loop(y.n, y.src.unsigned_abs(), fits);
    let cut = |taken: &[usize], n: isize| -> Vec<ByteLoop> {
        let mut all: Vec<ByteLoop> = taken.iter().map(|i| loops[*i]).collect();
        if let Some(last) = all.last_mut() {
            last.n = n;
        }
        all
    };
    let (rows, columns) =
        (list_offsets(&cut(&xs, px), |l| l.src), list_offsets(&cut(&ys, py), |l| l.dst));
    let read = columns.len() * width;
    if row < LINE_BYTES || read < MIN_SQUARE_READ_BYTES[usize::from(width >= 4)] || read > fits {
        return None;
    }
    // Stretches of the source that may share the sets of the caches; few of them stay there together.
    let far: isize = cut(&xs, px)
        .iter()
        .filter(|l| l.src.unsigned_abs() >= MIN_CONFLICT_STEP_BYTES)
        .map(|l| l.n)
        .product();
    let far = stream && far > MAX_UNSTAGED_FAR_ROWS;
    let tile = SquareTile::new(run, rows, columns, (px, py), width, far);
    let taken: Vec<usize> = xs.iter().chain(&ys).copied().collect();
    let outer = without_loops(loops, &taken);
    Some(SmallTile {
        program: SmallProgram::Squares(tile),
        row,
        inside: xs,
        x,
        y,
        parts: (px, py),
        outer,
    })
}

/// Whether one loop of either side fills the registers of a transpose.
fn fills_transpose(loops: &[ByteLoop], width: usize) -> bool {
    let (e, side) = (width.cast_signed(), (16 / width.min(16)).cast_signed());
    let x = loops.iter().any(|l| l.dst == e && l.n >= side);
    x && loops.iter().any(|l| l.src == e && l.dst != e && l.n >= 2 * side)
}

/// The stretches of the source that the loops of a tile read: where they begin, and their bytes; none where
/// there are more of them than are worth a prefetch.
fn source_stretches(mut loops: Vec<ByteLoop>, width: usize) -> (Vec<isize>, usize) {
    loops.retain(|l| l.n > 1 && l.src != 0);
    loops.sort_unstable_by_key(|l| l.src.unsigned_abs());
    let (mut bytes, mut first, mut far) = (width, 0, 1);
    let mut apart: Vec<ByteLoop> = Vec::new();
    for l in loops {
        let span = (l.n - 1).unsigned_abs() * l.src.unsigned_abs();
        // Steps that leave out less than a line touch every line on their way.
        if l.src.unsigned_abs() < bytes + LINE_BYTES && apart.is_empty() {
            bytes += span;
            first += if l.src < 0 { -span.cast_signed() } else { 0 };
        } else {
            far *= l.n.unsigned_abs();
            apart.push(l);
        }
    }
    if far > MAX_PREFETCH_STRETCHES {
        return (Vec::new(), 0);
    }
    (list_offsets(&apart, |l| l.src).into_iter().map(|a| a + first).collect(), bytes)
}

fn plan_gather_tile(loops: &[ByteLoop], width: usize) -> Option<SmallTile> {
    let (xs, bytes) = chain_loops(loops, width, MAX_GATHER_ROW_BYTES, |l| l.dst, |_, _| false);
    let widest = if width.is_power_of_two() {
        MIN_UNGATHERED_ELEMENT_BYTES
    } else {
        MIN_UNGATHERED_RUN_BYTES
    };
    if bytes < REGISTER_BYTES || width >= widest || fills_transpose(loops, width) {
        return None;
    }
    // Loops outside of the row that share its lines of the source, nearest first.
    let mut near: Vec<usize> = (0..loops.len()).filter(|i| !xs.contains(i)).collect();
    near.retain(|i| loops[*i].src != 0 && loops[*i].src.unsigned_abs() < LINE_BYTES);
    near.sort_unstable_by_key(|i| loops[*i].src.unsigned_abs());
    // All of them belong to one tile, so that a line of the source is read once for all the rows that need it;
    // not so many that rows would become too short.
    let mut rows = 1;
    near.retain(|i| {
        let all = rows * loops[*i].n.unsigned_abs();
        let fits = all <= GATHER_TILE_BYTES / MIN_GATHER_ROW_BYTES;
        rows = if fits { all } else { rows };
        fits
    });
    let most = (GATHER_TILE_BYTES / rows).min(MAX_GATHER_ROW_BYTES);
    let of = |taken: &[usize]| -> Vec<ByteLoop> { taken.iter().map(|i| loops[*i]).collect() };
    // Rows are cut in the first loop that makes them too long, if one does.
    let cut = xs.iter().position(|i| loops[*i].dst * loops[*i].n > most.cast_signed());
    let inside = cut.unwrap_or(xs.len());
    let x = cut.map_or(ByteLoop::UNIT_LOOP, |at| loops[xs[at]]);
    let px = cut.map_or(1, |_| cut_loop(x.n, x.dst.unsigned_abs(), most));
    let row = cut.map_or(bytes, |_| (px * x.dst).unsigned_abs());
    // The loop along which registers repeat: where fewest of them, and of runs of them, make up a row.
    let part_of = |at: usize| match cut {
        Some(cut) if cut == at => ByteLoop { n: px, ..x },
        _ => loops[xs[at]],
    };
    let cost = |at: &usize| {
        let l = part_of(*at);
        let registers = StretchGather::register_count(l)?;
        Some((registers + GATHER_RUN_COST_REGISTERS) * (row / (l.dst * l.n).unsigned_abs()))
    };
    let last = cut.unwrap_or(xs.len() - 1);
    let along = (0..=last).filter(|at| cost(at).is_some()).min_by_key(cost)?;
    let (along_x, steps) = (cut == Some(along), part_of(along));
    let plan = StretchGather::plan_stretch(&of(&xs[..along]), steps, width)?;
    // A window for every element, or nearly so, is no better than moving that element.
    let most_windows = if width.is_power_of_two() { 16 / width - 1 } else { 16 / width + 2 };
    let run = kernels::select_gather_kernel(plan.each).filter(|_| plan.each <= most_windows)?;
    let after = if along_x { vec![] } else { of(&xs[along + 1..inside]) };
    let in_row = xs[..(inside + 1).min(xs.len())].to_vec();
    let taken: Vec<usize> = in_row.iter().chain(&near).copied().collect();
    let mut outer = without_loops(loops, &taken);
    // Short rows: several of them, along what is nearest in the destination.
    let (mut y, mut py) = (ByteLoop::UNIT_LOOP, 1);
    let mut more = of(&near);
    while row * rows < GATHER_TILE_BYTES / 2
        && let Some(i) = (0..outer.len()).min_by_key(|i| outer[*i].dst.unsigned_abs())
    {
        let l = outer.remove(i);
        let all = row * rows * l.n.unsigned_abs();
        if all > GATHER_TILE_BYTES {
            y = l;
            py = even_tile(y.n, (GATHER_TILE_BYTES / (row * rows)).cast_signed());
            break;
        }
        rows *= l.n.unsigned_abs();
        more.push(l);
    }
    let both = |loops: &[ByteLoop]| -> Vec<(isize, isize)> {
        list_offsets(loops, |l| l.src).into_iter().zip(list_offsets(loops, |l| l.dst)).collect()
    };
    let mut inside = of(&in_row);
    if let Some(last) = inside.last_mut().filter(|_| cut.is_some()) {
        last.n = px;
    }
    inside.extend(more.iter().chain([&ByteLoop { n: py, ..y }]));
    let tile = GatherTile {
        ahead: source_stretches(inside, width),
        gather: plan,
        run,
        along: steps,
        along_x,
        within: both(&after),
        rows: both(&more),
    };
    Some(SmallTile {
        program: SmallProgram::Gather(tile),
        row,
        inside: in_row,
        x,
        y,
        parts: (px, py),
        outer,
    })
}
