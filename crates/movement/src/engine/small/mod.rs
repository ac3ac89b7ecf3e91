//! Tiles of loops that are shorter than a register or a line.
//!
//! **Idea.** Where no single loop is long, several together are: loops whose steps follow one another in
//! the destination make up a *row* of it, and loops of small steps in the source make up whole lines of that. A
//! tile is such a row for every step of the loops of small steps. What happens inside a tile is the same for the
//! whole nest, so it is planned once, as one of two programs:
//!
//! - a [`StretchGather`](gather::StretchGather): every register of a row is put together from a few registers of
//!   the source, by constant shuffles. It is for elements that stay near: images of three channels, every second
//!   element, interleaved planes, windows;
//! - squares: rows of the source that are adjacent for a register at least become columns. It is for elements
//!   that go far, as in a transpose; only its rows and columns are those of several loops, so that a table lists
//!   their offsets.
//!
//! Rows with non-temporal stores are made in a stage first, and are copied out of it as whole lines. Squares that
//! read more than the caches hold copy their rows into a stage as well: far rows conflict in the caches, and would
//! drive one another out between one square and the next.

mod choose;
mod gather;
#[cfg(target_arch = "aarch64")]
mod neon;
mod run;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
use neon as kernels;
#[cfg(target_arch = "x86_64")]
use x86 as kernels;

pub(super) use choose::select_small_tiles;
pub(super) use run::Small;
