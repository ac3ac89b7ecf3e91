//! Lines in and out of memory: the elements along some dimensions at one place of the others.
//!
//! Lines are read in blocks, so that neighbours in memory are read together whether lines run along
//! the lanes or across them.

use crate::kernels::io::{ElementLoader, ElementStorer, KernelNumber};
use crate::tensor::sticks::StickForm;
use smallvec::SmallVec;
use std::sync::OnceLock;
use zellige_op::PerDimension;

/// A tensor as lines.
#[derive(Debug, Clone)]
pub(super) struct TensorLines {
    /// Elements of a line.
    pub(super) n: usize,
    /// The first element of the first line.
    offset: usize,
    /// Along the outer dimensions, how lines follow one another.
    outer: PerDimension<LineStride>,
    /// From one line of a block to the next.
    next: LineStride,
    /// The tensor, and the dimensions of a line.
    tensor: StickForm,
    along: PerDimension<usize>,
    /// The adjacent parts of a line, found when the first line is read or written: there
    /// is one for every stick of a line, and what a line costs is known without them.
    parts: OnceLock<Vec<LineRun>>,
}

/// How lines follow one another.
#[derive(Debug, Clone, Copy)]
enum LineStride {
    /// In the lanes of sticks that are `stride` apart.
    Lane { eps: usize, stride: usize },
    /// So many elements apart.
    Step(usize),
}

impl LineStride {
    /// Where line `c` begins, from the first one.
    fn line_offset(self, c: usize) -> usize {
        match self {
            LineStride::Lane { eps, stride } => c / eps * stride + c % eps,
            LineStride::Step(step) => c * step,
        }
    }
}

/// Adjacent elements of a line.
#[derive(Debug, Clone, Copy)]
struct LineRun {
    /// Where they are in the line.
    at: usize,
    /// Where they are in memory, from the first element of the line.
    place: usize,
    len: usize,
    /// How often each element is repeated in the line, one after the other.
    repeat: usize,
}

impl TensorLines {
    /// The lines of a tensor along `along`, the last fastest; `block` is the dimension of blocks.
    /// An outer dimension is any other.
    pub(super) fn new(t: &StickForm, along: &[usize], block: Option<usize>) -> TensorLines {
        let n = along.iter().map(|d| t.size[*d]).product();
        let outer = (0..t.rank()).filter(|d| !along.contains(d) && Some(*d) != block);
        let next = |d: usize| match t.stick {
            Some(s) if s == d => LineStride::Lane { eps: t.eps, stride: t.stride[d] },
            _ => LineStride::Step(t.stride[d]),
        };
        TensorLines {
            n,
            offset: t.offset,
            outer: outer.map(next).collect(),
            next: block.map_or(LineStride::Step(0), next),
            tensor: t.clone(),
            along: along.into(),
            parts: OnceLock::new(),
        }
    }

    fn line_runs(&self) -> &[LineRun] {
        self.parts.get_or_init(|| match self.n {
            0 => Vec::new(),
            _ => find_line_runs(&self.tensor, &self.along),
        })
    }

    /// Where the lines at a place of the outer dimensions begin.
    pub(super) fn outer_offset(&self, outer: &[usize]) -> usize {
        self.offset
            + outer.iter().zip(&self.outer).map(|(c, next)| next.line_offset(*c)).sum::<usize>()
    }

    /// Whether all lines of a block are the same.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.next, LineStride::Step(0))
    }

    /// Reads lines `first..first + count` of a block into `into`, each `pitch` after the one before.
    ///
    /// # Safety
    /// `base` is the block of the tensor, readable.
    pub(super) unsafe fn load_lines<T: KernelNumber>(
        &self,
        load: &ElementLoader<T>,
        base: *const u8,
        start: usize,
        (first, count): (usize, usize),
        (into, pitch): (&mut [T], usize),
    ) {
        let mut lanes: SmallVec<[T; 64]> = SmallVec::new();
        for part in self.line_runs() {
            let place = start + part.place;
            if let (LineStride::Lane { eps, .. }, 1) = (self.next, part.len) {
                let mut done = 0;
                while done < count {
                    let c = first + done;
                    let here = (eps - c % eps).min(count - done);
                    lanes.resize(here, T::default());
                    // SAFETY: by the contract of this function.
                    unsafe {
                        load.load_adjacent(base, place + self.next.line_offset(c), &mut lanes);
                    };
                    for (k, value) in lanes.iter().enumerate() {
                        into[(done + k) * pitch + part.at..][..part.repeat].fill(*value);
                    }
                    done += here;
                }
                continue;
            }
            for k in 0..count {
                let at = place + self.next.line_offset(first + k);
                let into = &mut into[k * pitch + part.at..][..part.len * part.repeat];
                // SAFETY: by the contract of this function.
                unsafe {
                    if part.repeat == 1 {
                        load.load_adjacent(base, at, into);
                    } else {
                        into.fill(load.load_element(base, at));
                    }
                }
            }
        }
    }

    /// Writes lines, as [`TensorLines::load_lines`] reads them.
    ///
    /// # Safety
    /// `base` is the block of the tensor, writable, and its elements are all different ones.
    pub(super) unsafe fn store_lines<T: KernelNumber>(
        &self,
        store: &ElementStorer<T>,
        base: *mut u8,
        start: usize,
        (first, count): (usize, usize),
        (from, pitch): (&[T], usize),
    ) {
        let mut lanes: SmallVec<[T; 64]> = SmallVec::new();
        for part in self.line_runs() {
            let place = start + part.place;
            if let (LineStride::Lane { eps, .. }, 1) = (self.next, part.len) {
                let mut done = 0;
                while done < count {
                    let c = first + done;
                    let here = (eps - c % eps).min(count - done);
                    lanes.clear();
                    lanes.extend((0..here).map(|k| from[(done + k) * pitch + part.at]));
                    // SAFETY: by the contract of this function.
                    unsafe { store.store_adjacent(base, place + self.next.line_offset(c), &lanes) };
                    done += here;
                }
                continue;
            }
            for k in 0..count {
                let at = place + self.next.line_offset(first + k);
                // SAFETY: by the contract of this function.
                unsafe { store.store_adjacent(base, at, &from[k * pitch + part.at..][..part.len]) };
            }
        }
    }
}

/// The parts of one line.
fn find_line_runs(t: &StickForm, along: &[usize]) -> Vec<LineRun> {
    // Dimensions along which nothing moves repeat the element, if they are the fastest.
    let still = |d: &&usize| t.stride[**d] == 0 && t.stick != Some(**d);
    // A vector along the channels repeats over the image: with the repetition as a count the list is as short as
    // the vector.
    let repeats = along.iter().rev().take_while(still).count();
    let repeat: usize = along[along.len() - repeats..].iter().map(|d| t.size[*d]).product();
    let moving = &along[..along.len() - repeats];
    let mut parts: Vec<LineRun> = Vec::new();
    let (slow, last) = match moving.split_last() {
        Some((last, slow)) if t.stick == Some(*last) && repeat == 1 => (slow, Some(*last)),
        _ => (moving, None),
    };
    let mut at: PerDimension<usize> = SmallVec::from_elem(0, t.rank());
    let mut done = 0;
    loop {
        // Relative to the first element of a line, so that one list serves every line.
        let place = t.element_offset(&at) - t.offset;
        match last {
            // Without lanes along the line every element is a part of its own.
            None => push_line_run(&mut parts, LineRun { at: done * repeat, place, len: 1, repeat }),
            Some(s) => {
                for from in (0..t.size[s]).step_by(t.eps) {
                    let len = t.eps.min(t.size[s] - from);
                    let place = place + from / t.eps * t.stride[s];
                    push_line_run(
                        &mut parts,
                        LineRun { at: done * t.size[s] + from, place, len, repeat: 1 },
                    );
                }
            }
        }
        done += 1;
        let next = slow.iter().rev().find(|d| {
            at[**d] += 1;
            if at[**d] == t.size[**d] {
                at[**d] = 0;
            }
            at[**d] > 0
        });
        if next.is_none() {
            return parts;
        }
    }
}

/// Adds a part, or extends the one before it where that continues.
fn push_line_run(parts: &mut Vec<LineRun>, part: LineRun) {
    if let Some(before) = parts.last_mut()
        && before.len > 1
        && before.place + before.len == part.place
    {
        before.len += part.len;
    } else {
        parts.push(part);
    }
}
