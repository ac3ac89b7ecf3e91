//! The operators of the algebra, one file each.

mod canonical;
mod direct_sum;
mod group;
mod pack;
mod permute;
mod slice;
mod tiling;
