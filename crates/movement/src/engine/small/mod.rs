//! Tiles of dimensions that are shorter than a register or a line.
//!
//! **Idea.** Where no single loop is long, several together are: loops whose steps follow one another in
//! the destination make up a *row* of it, and loops that are near one another in the source make up whole
//! lines of that. A tile is such a row for every step of the near loops. What happens inside a tile is the
//! same for the whole nest, so it is planned once, as one of two programs:
//!
//! - a [`StretchGather`]: every register of a row is put together from a few registers of the source, by
//!   constant shuffles. It is for what stays near: images of three channels, every second element,
//!   interleaved planes, windows;
//! - squares: rows of the source that are adjacent for a register at least become columns. It is for
//!   what goes far, as a transpose does; only its rows and columns are those of several loops, and so
//!   are at the places of a table.
//!
//! Rows that go around the caches are made in a stage first, and leave it as whole lines. Squares that
//! read more than the caches hold bring their rows into a stage as well: far rows share few sets of the
//! caches, and would drive one another out between one square and the next.

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
