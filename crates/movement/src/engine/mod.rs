//! The CPU engine: runs a plan on bytes, as fast as memory allows.
//!
//! A [`Mover`] is a plan made ready for one element width: every nest becomes a *job*, a kernel for
//! its two innermost loops (rows of adjacent bytes, a transpose, or single elements) and an odometer
//! over the rest. Jobs are cut into tiles that fit the caches and the TLB; tiles are what threads
//! share. Results do not depend on the number of threads: every address is written once.
//!
//! `docs/engine.md` is the design of this folder: the kernels, the order in which they are chosen, the stores,
//! the threads, and what is not done. [`tuning`] has every number that was chosen.

mod account;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod carry;
mod cell;
mod elements;
mod job;
#[cfg(target_arch = "x86_64")]
mod joined;
#[cfg(target_arch = "aarch64")]
mod joined_neon;
mod lines;
mod repeat;
mod reverse;
mod row_job;
mod rows;
mod short;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod small;
mod splat;
mod staged;
mod strategies;
mod stream;
mod transpose;
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "some kernels are of one instruction set")
)]
mod tuning;
mod walk;

use crate::between::PaddingFill;
use crate::dtypes::MoveDtypes;
use crate::engine::tuning::MAX_THREADS;
use crate::plan::{CopyNest, FillNest, MovePlan, PlanCost};
use account::{RunEstimate, RunPieces};
use job::NestJob;
use zellige_float::{Converter, Format};
use zellige_host::crew;
use zellige_layout::{Layout, LayoutError};

/// A plan for elements of one width, ready to run.
#[derive(Debug, Clone)]
pub struct Mover {
    /// Fills the whole destination before anything else, where its gaps are too scattered.
    first: Vec<NestJob>,
    jobs: Vec<NestJob>,
    fills: Vec<NestJob>,
    src_bytes: usize,
    dst_bytes: usize,
    account: RunEstimate,
    width: usize,
    cost: PlanCost,
    elements: i64,
    lengths: Vec<(i64, i64)>,
}

/// A run that was refused before any byte was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MoveError {
    /// An element width that the engine does not move.
    #[error("elements of {0} bytes are not moved; widths are 1, 2, 4, 8 and 16")]
    Width(usize),
    /// A buffer that does not hold what the plan touches.
    #[error("the {what} holds {found} bytes, but the plan touches {needed}")]
    Short {
        /// `source` or `destination`.
        what: &'static str,
        /// Bytes that the plan touches.
        needed: usize,
        /// Bytes given.
        found: usize,
    },
    /// A fill value of the wrong width.
    #[error("the fill value has {found} bytes, and an element has {needed}")]
    FillWidth {
        /// Bytes of an element.
        needed: usize,
        /// Bytes given.
        found: usize,
    },
    /// Layouts between which there is no plan.
    #[error(transparent)]
    Plan(#[from] zellige_layout::LayoutError),
    /// A dtype whose elements are not moved this way.
    #[error("{dtype}: {what}: {known}")]
    Dtype {
        /// The dtype.
        dtype: &'static str,
        /// What would be accepted.
        what: &'static str,
        /// The dtypes that have a number format.
        known: String,
    },
    /// A source buffer that begins behind the first address that the plan reads.
    #[error("the source begins at address {begins}, but the plan reads from {reads} on")]
    Begins {
        /// The given address of the first element of the buffer.
        begins: i64,
        /// The first address that is read.
        reads: i64,
    },
    /// Sizes that do not fit in memory.
    #[error("the plan touches more bytes than an address can name")]
    TooLarge,
}

impl Mover {
    /// Plans the move of a tensor of `shape` from `src` to `dst` and makes it ready, in one call:
    /// [`MovePlan::between`], then [`Mover::new`] or [`Mover::with_conversion`], depending on the elements.
    ///
    /// # Errors
    /// [`MoveError::Plan`] with the witness of the planner: layouts that are not of this shape or do
    /// not map to memory, two elements that share an address of `dst`. [`MoveError::Width`] for elements
    /// that the engine does not move.
    pub fn between(
        src: &Layout,
        dst: &Layout,
        shape: &[i64],
        dtypes: impl Into<MoveDtypes>,
        fill: PaddingFill,
    ) -> Result<Mover, MoveError> {
        let plan = MovePlan::between(src, dst, shape, fill);
        let (PaddingFill::Rest { len }, Err(LayoutError::TooLarge { .. })) = (fill, &plan) else {
            return Mover::with_dtypes(&plan?, dtypes);
        };
        // Gaps too scattered to list: the whole destination is filled, and elements are copied over that. It
        // writes the elements twice, which costs less than a list of millions of gaps.
        let copies = MovePlan::between(src, dst, shape, PaddingFill::Leave)?;
        let mover = Mover::with_dtypes(&copies, dtypes)?;
        mover.with_fill_first(len.max(copies.dst_len()))
    }

    /// The same move after a fill of all `len` elements of the destination.
    fn with_fill_first(self, len: i64) -> Result<Mover, MoveError> {
        let dst_bytes = elements_to_bytes(len, self.width)?;
        let whole = FillNest { loops: vec![(len, 1)], starts: vec![0] };
        let first =
            NestJob::fill_jobs(&whole, self.width, stream::exceeds_caches(0, dst_bytes)).collect();
        let mut cost = self.cost;
        let written = i64::try_from(dst_bytes).unwrap_or(i64::MAX);
        cost.bytes_written = cost.bytes_written.saturating_add(written);
        cost.lines = cost.lines.saturating_add(written.saturating_add(63) / 64);
        cost.runs = cost.runs.saturating_add(1);
        Ok(Mover { first, dst_bytes, cost, ..self })
    }

    /// Makes a plan ready for some elements.
    pub fn with_dtypes(plan: &MovePlan, dtypes: impl Into<MoveDtypes>) -> Result<Mover, MoveError> {
        Mover::with_stores(plan, dtypes.into(), None)
    }

    /// Makes a plan ready for elements of `width` bytes.
    pub fn new(plan: &MovePlan, width: usize) -> Result<Mover, MoveError> {
        Mover::with_stores(plan, MoveDtypes::Bytes(width), None)
    }

    /// As [`Mover::with_dtypes`], with the choice of non-temporal stores given: for tests, which would need
    /// large tensors otherwise.
    #[doc(hidden)]
    pub fn with_stores(
        plan: &MovePlan,
        dtypes: MoveDtypes,
        around: Option<bool>,
    ) -> Result<Mover, MoveError> {
        zellige_calls::record_call!();
        match dtypes {
            MoveDtypes::Bytes(width) if !matches!(width, 1 | 2 | 4 | 8 | 16) => {
                Err(MoveError::Width(width))
            }
            MoveDtypes::Bytes(width) => Mover::build_jobs(plan, width, width, around, |n, s| {
                NestJob::copy_nest(n, width, s)
            }),
            MoveDtypes::Formats { from, to } if from == to => {
                Mover::with_stores(plan, MoveDtypes::Bytes(from.byte_size()), around)
            }
            MoveDtypes::Formats { from, to } => {
                let converter = Converter::new(from, to);
                let job = |n: &CopyNest, s| NestJob::convert_nest(n, &converter, s);
                Mover::build_jobs(plan, from.byte_size(), to.byte_size(), around, job)
            }
        }
    }

    /// Makes a plan ready that also converts elements of `from` to elements of `to`.
    ///
    /// **Law**: the result is that of moving first and converting every element then, by
    /// [`zellige_float::Element::cast_from`].
    pub fn with_conversion(plan: &MovePlan, from: Format, to: Format) -> Result<Mover, MoveError> {
        Mover::with_stores(plan, MoveDtypes::Formats { from, to }, None)
    }

    fn build_jobs(
        plan: &MovePlan,
        src_width: usize,
        dst_width: usize,
        around: Option<bool>,
        job: impl Fn(&CopyNest, bool) -> NestJob,
    ) -> Result<Mover, MoveError> {
        let src_bytes = elements_to_bytes(plan.src_len(), src_width)?;
        let dst_bytes = elements_to_bytes(plan.dst_len(), dst_width)?;
        let total = elements_to_bytes(plan.element_count().saturating_mul(plan.copies), dst_width)?;
        // A source that is read again and again (a broadcast) occupies the caches once, but a window of a
        // large source occupies no more than the elements that are moved.
        let stream = around.unwrap_or_else(|| stream::exceeds_caches(src_bytes.min(total), total));
        let jobs: Vec<NestJob> = plan.nests().iter().map(|n| job(n, stream)).collect();
        let fills =
            plan.fills().iter().flat_map(|f| NestJob::fill_jobs(f, dst_width, stream)).collect();
        let cost =
            plan.cost_in_bytes(src_width.cast_signed() as i64, dst_width.cast_signed() as i64);
        let account = RunEstimate::for_jobs(&jobs, src_width, total, stream);
        let first = Vec::new();
        let (elements, lengths) = (plan.element_count(), plan.run_lengths());
        let width = dst_width;
        Ok(Mover {
            first,
            jobs,
            fills,
            src_bytes,
            dst_bytes,
            account,
            width,
            cost,
            elements,
            lengths,
        })
    }

    /// Bytes that the source must hold.
    pub fn src_bytes(&self) -> usize {
        self.src_bytes
    }

    /// Bytes that the destination must hold.
    pub fn dst_bytes(&self) -> usize {
        self.dst_bytes
    }

    /// What a run reads and writes, fills included, computed from the plan.
    pub fn cost(&self) -> PlanCost {
        self.cost
    }

    /// [`MovePlan::element_count`] of the plan.
    pub fn elements(&self) -> i64 {
        self.elements
    }

    /// [`MovePlan::run_lengths`] of the plan.
    pub fn run_length_counts(&self) -> &[(i64, i64)] {
        &self.lengths
    }

    /// Moves, with up to `threads` threads; `fill` is the element written to padding.
    ///
    /// Nothing is written when the buffers are too short.
    pub fn run_on_slices(
        &self,
        src: &[u8],
        dst: &mut [u8],
        fill: Option<&[u8]>,
        threads: usize,
    ) -> Result<(), MoveError> {
        zellige_calls::record_call!();
        for (what, needed, found) in
            [("source", self.src_bytes, src.len()), ("destination", self.dst_bytes, dst.len())]
        {
            if found < needed {
                return Err(MoveError::Short { what, needed, found });
            }
        }
        if let Some(value) = fill
            && value.len() != self.width
        {
            return Err(MoveError::FillWidth { needed: self.width, found: value.len() });
        }
        // The pattern is made only where something is filled: it is 4 KiB, and a call of a small planned move takes
        // 51 to 86 ns in all (bench/README.md, 18 November 2026).
        let fills = !(self.fills.is_empty() && self.first.is_empty());
        let pattern = fill.filter(|_| fills).map(job::repeat_fill_element);
        // SAFETY: the plan was built by this crate: its addresses are in `[0, src_len)` and
        // `[0, dst_len)` elements, which the buffers were just checked to hold; `src` and `dst` are
        // distinct borrows and so do not overlap.
        unsafe { self.run_raw(src.as_ptr(), dst.as_mut_ptr(), pattern.as_ref(), threads) };
        Ok(())
    }

    /// # Safety
    /// `src` is readable for `src_bytes`, `dst` writable for `dst_bytes`, and they do not overlap.
    unsafe fn run_raw(
        &self,
        src: *const u8,
        dst: *mut u8,
        fill: Option<&job::FillPattern>,
        threads: usize,
    ) {
        let most = match threads {
            // WebAssembly has no threads to start.
            _ if cfg!(target_family = "wasm") => 1,
            // Tests that insist on helpers want them for small moves too, which are quick to check.
            2.. if crew::is_insisting_on_helpers() => MAX_THREADS,
            _ => self.account.useful_threads(),
        };
        let threads = threads.clamp(1, MAX_THREADS).min(most);
        let fills = fill.map(|p| (p.as_ptr(), self.fills.as_slice())).unwrap_or((src, &[]));
        if let Some(pattern) = fill {
            for job in &self.first {
                let cut = job.cut_for_buffers(pattern.as_ptr(), dst);
                // On this thread alone, because the copies write the same addresses and may not begin before.
                // SAFETY: by the contract of this function; it reads only its pattern, and nothing
                // else is written before it is done.
                unsafe { job.run_tiles(0..job.tile_count(cut), pattern.as_ptr(), dst, cut) };
            }
        }
        let parts = [(src, self.jobs.as_slice()), fills];
        if threads > 1 {
            // SAFETY: by the contract of this function.
            unsafe { self.run_shared(parts, dst, threads) };
        } else {
            for (from, jobs) in parts {
                for job in jobs {
                    let cut = job.cut_for_buffers(from, dst);
                    // SAFETY: by the contract of this function; a fill reads only its pattern.
                    unsafe { job.run_tiles(0..job.tile_count(cut), from, dst, cut) };
                }
            }
        }
    }

    /// # Safety
    /// As [`Mover::run_raw`]; parts are sources and the jobs that read them.
    #[inline(never)]
    unsafe fn run_shared(&self, parts: [(*const u8, &[NestJob]); 2], dst: *mut u8, threads: usize) {
        let work = parts.iter().flat_map(|(from, jobs)| jobs.iter().map(|j| (j, *from))).collect();
        let shared = SharedRun { work, dst };
        let RunPieces { count, together } =
            self.account.divide_into_pieces(threads, shared.work.len());
        let items = |(job, from): &(&NestJob, *const u8)| {
            job.tile_count(job.cut_for_pieces(*from, dst, count))
        };
        // With more pieces than the longest job has tiles, some would be empty.
        let most = shared.work.iter().map(items).max().unwrap_or(0);
        let count = count.min(most.max(1));
        crew::share_piece_ranges(threads, count, together, &|range| {
            let shared = &shared;
            for (job, from) in &shared.work {
                let cut = job.cut_for_pieces(*from, shared.dst, count);
                let items = job.tile_count(cut);
                let range = items * range.start / count..items * range.end / count;
                // SAFETY: as above; the ranges of the pieces are disjoint sets of tiles, every piece is taken
                // once, and a plan writes every address once.
                unsafe { job.run_tiles(range, *from, shared.dst, cut) };
            }
        });
    }
}

/// Elements in bytes, where an address can name them all.
fn elements_to_bytes(elements: i64, width: usize) -> Result<usize, MoveError> {
    let fits = usize::try_from(elements).ok().and_then(|n| n.checked_mul(width));
    fits.filter(|b| isize::try_from(*b).is_ok()).ok_or(MoveError::TooLarge)
}

/// What the threads of one run share.
struct SharedRun<'a> {
    work: Vec<(&'a NestJob, *const u8)>,
    dst: *mut u8,
}

// SAFETY: sources are only read, and the threads write disjoint parts of the destination.
unsafe impl Sync for SharedRun<'_> {}
