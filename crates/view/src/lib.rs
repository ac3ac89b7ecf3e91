//! Drawings of tensor layouts, and of time.
//!
//! A [`Scene`] is what there is to see of a layout, as plain data: the logical tensor cut into
//! grids, and the places its elements live in (a lane x register table, memory lines x banks,
//! sticks, a device mesh, tensor memory). Renderers turn the same scene into text for a terminal
//! ([`terminal`]), a standalone SVG ([`svg`]) or a bitmap ([`png`], feature `png`); a web page
//! reads it as JSON.
//!
//! ```
//! use zellige_layout::{Axis, Iter, Layout, TileLayout};
//! use zellige_view::{DrawOptions, Scene, terminal};
//! // The accumulator fragment of an mma: 16 x 8 over 32 lanes and 4 registers.
//! let lane = Axis::LANEID;
//! let shard = [(2, 2, Axis::M), (8, 4, lane), (4, 1, lane), (2, 1, Axis::M)];
//! let shard = shard.map(|(extent, stride, axis)| Iter::new(extent, stride, axis)).to_vec();
//! let layout = Layout::from(TileLayout::new(shard, Vec::new(), [])?);
//! let scene = Scene::new(&layout, &[16, 8], &DrawOptions::default())?;
//! assert_eq!(scene.logical[0].cells[9].label, "T4 r1");
//! assert!(terminal::render_scene_text(&scene, 80, false).contains("T31 r3"));
//! # Ok::<(), zellige_layout::LayoutError>(())
//! ```
//!
//! An [`atlas::Atlas`] is the same drawing without a limit, made window by window for a page that
//! scrolls. A [`TimeChart`] is bars over a time axis, drawn by [`svg::chart`]; a [`page`] shows a compiled
//! program.
//!
//! # Rules
//! * The places that a cell names are those that [`zellige_layout::Layout::physical_coordinates`] gives.
//! * A scene never grows with the tensor: past [`DrawOptions::max_cells`] it is clipped, and the panel
//!   or the scene says by how much. Nothing is left out silently.
//! * No drawing needs a font on the machine: the bitmap brings its own strokes.

#![forbid(unsafe_code)]

pub mod atlas;
mod cell_label;
mod chart;
mod clip;
mod color;
mod core_traffic;
mod elements_at;
mod font;
mod logical;
mod options;
pub mod page;
mod physical;
#[cfg(feature = "png")]
pub mod png;
mod scene;
mod scene_builder;
pub mod svg;
pub mod terminal;
mod text_width;
mod ticks;

pub use chart::{ChartBar, ChartTrack, TimeChart};
pub use core_traffic::{CoreTraffic, render_core_traffic_text};
pub use options::{DrawOptions, MAX_CELLS};
pub use scene::{AxisRange, CellKind, ColorSwatch, Scene, SceneCell, ScenePanel};
