//! Cells as single bytes, for drawings too small for text.

use super::{Atlas, CellWindow, PlaceSheet, SheetSide, window_area};
use crate::physical::PlaceOccupants;
use crate::scene_builder::SceneContext;
use zellige_layout::{Layout, Result, flatten_coordinate};

/// The byte of a cell that nothing is drawn in.
pub const NOTHING: u8 = 255;
/// The byte of a place inside the span that nothing maps to.
pub const UNUSED: u8 = 254;
/// The byte of padding.
pub const PADDING: u8 = 253;

impl Atlas {
    /// One byte per cell of a window, row by row: the number of its colour (of its first copy), or
    /// [`PADDING`], [`UNUSED`], [`NOTHING`]. The window is not cut: cells past the end are
    /// [`NOTHING`].
    ///
    /// **Law**: the byte of a cell agrees with the cell of [`Atlas::window_cells`].
    pub fn paint_window(&self, side: SheetSide, window: &CellWindow) -> Result<Vec<u8>> {
        // The bytes answer for the window as it was asked, so that the caller's rows stay where they are; only what
        // is computed is clipped.
        let inside = self.clip_window(side, window)?;
        let context = SceneContext::new(&self.layout, &self.shape, &self.options)?;
        let mut bytes = vec![NOTHING; usize::try_from(window_area(window)?).unwrap_or(0)];
        let mut put = |row: i64, col: i64, byte: u8| {
            let at = (row - window.rows.start) * (window.cols.end - window.cols.start)
                + (col - window.cols.start);
            if let Some(b) = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at)) {
                *b = byte;
            }
        };
        match (side, &self.places, &self.host) {
            (SheetSide::Physical, Some(PlaceSheet::Memory(memory)), _) => {
                let addresses = if inside.cols.is_empty() {
                    Vec::new()
                } else {
                    memory.window_addresses(&inside)
                };
                let occupants = memory.find_occupants(&context, &inside, &addresses);
                let scalar = context.axes().is_empty();
                for (i, address) in addresses.iter().enumerate() {
                    let at = if scalar { vec![] } else { vec![i] };
                    let byte = self.place_byte(&context, &occupants, &at, &[*address])?;
                    for spot in memory.address_spots(*address) {
                        let cols = spot.col.max(inside.cols.start)
                            ..(spot.col + spot.span).min(inside.cols.end);
                        if inside.rows.contains(&spot.row) {
                            cols.for_each(|col| put(spot.row, col, byte));
                        }
                    }
                }
            }
            (SheetSide::Physical, Some(PlaceSheet::Table(table)), _) => {
                let (wanted, occupants) = table.find_occupants(&context, &inside);
                for row in inside.rows.clone() {
                    for col in inside.cols.clone() {
                        let place = table.place_at(inside.index, row, col);
                        let at = place
                            .as_ref()
                            .and_then(|p| super::table::find_wanted_place(&wanted, p));
                        if let (Some(place), Some(at)) = (place, at) {
                            put(row, col, self.place_byte(&context, &occupants, &at, &place)?);
                        }
                    }
                }
            }
            _ => {
                for row in inside.rows.clone() {
                    for col in inside.cols.clone() {
                        let flat = match (side, &self.host) {
                            (SheetSide::Host, Some(host)) => host.element_at(row, col),
                            _ => self.logical.element_at(inside.index, row, col),
                        };
                        if let Some(flat) = flat {
                            put(row, col, self.first_tone(&context, flat)?);
                        }
                    }
                }
            }
        }
        Ok(bytes)
    }

    fn place_byte(
        &self,
        context: &SceneContext<'_>,
        occupants: &PlaceOccupants,
        at: &[usize],
        place: &[i64],
    ) -> Result<u8> {
        Ok(match (occupants.cell_kind(context, at), &self.colored_layout) {
            (crate::CellKind::Element, None) => tone_byte(self.place_tone(place)),
            (crate::CellKind::Element, Some(other)) => {
                // Several elements may share the place; the smallest colour is the first of the cell's list.
                let mut least = usize::MAX;
                for coord in occupants.elements_at(context, at) {
                    least = least
                        .min(self.least_tone(other, flatten_coordinate(&self.shape, &coord)?)?);
                }
                tone_byte(least)
            }
            (crate::CellKind::Padding, _) => PADDING,
            (crate::CellKind::Gap, _) => UNUSED,
        })
    }

    /// The smallest colour among the copies of an element, in the layout that gives the colours.
    fn first_tone(&self, context: &SceneContext<'_>, flat: i64) -> Result<u8> {
        let layout = self.colored_layout.as_ref().unwrap_or(context.listed_layout());
        Ok(tone_byte(self.least_tone(layout, flat)?))
    }

    /// The smallest and not the first, because the order of copies is not defined.
    fn least_tone(&self, layout: &Layout, flat: i64) -> Result<usize> {
        let places = layout.physical_coordinates(flat)?;
        Ok(places.coordinate_rows().map(|row| self.place_tone(row)).min().unwrap_or(0))
    }
}

fn tone_byte(tone: usize) -> u8 {
    u8::try_from(tone).unwrap_or(0)
}
