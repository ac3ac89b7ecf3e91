//! The elements that each lane of a warp accesses.

use crate::axis::Axis;
use crate::error::{LayoutError, Result};
use crate::layout::{Layout, flatten_coordinate};

/// Lanes of a CUDA warp, which issue a memory instruction together.
pub const WARP: usize = 32;

/// The elements that each lane of a warp reads or writes in one memory instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaneAccessPattern {
    /// Lane `l` accesses the vector at `[.., l, index]`, so the lanes follow one column of the last two
    /// dimensions. Coordinates in other dimensions are 0.
    Column {
        /// First element of every lane's vector, in the last dimension.
        index: i64,
    },
    /// Lane `l` accesses the vector at `[.., index, l * vector]`, so the lanes follow one row.
    Row {
        /// The row, in the dimension before the last.
        index: i64,
    },
    /// Eight consecutive rows of 16 bytes from `(row, column)` on, as `ldmatrix` reads one 8x8 matrix.
    Ldmatrix {
        /// First row.
        row: i64,
        /// First element of each row.
        column: i64,
    },
    /// The coordinate of each lane's vector, lane by lane.
    Lanes(Vec<Vec<i64>>),
}

impl LaneAccessPattern {
    /// The flat indices of each lane's vector of `vector` elements along the last dimension.
    pub fn lane_elements(&self, shape: &[i64], vector: i64, bits: i64) -> Result<Vec<Vec<i64>>> {
        if vector < 1 {
            let accepted = "a lane accesses 1 or more elements".into();
            return Err(LayoutError::BadParameter { what: "vector", value: vector, accepted });
        }
        let (rows, columns) = match shape {
            [] => (1, 1),
            [n] => (1, *n),
            [.., r, c] => (*r, *c),
        };
        let coordinate = |row: i64, column: i64| {
            let mut c = vec![0; shape.len()];
            match c.as_mut_slice() {
                [] => {}
                [only] => *only = column,
                [.., r, last] => (*r, *last) = (row, column),
            }
            c
        };
        let (starts, vector): (Vec<Vec<i64>>, i64) = match self {
            LaneAccessPattern::Column { index } => {
                check_touched_elements(rows, vector)?;
                ((0..rows).map(|r| coordinate(r, *index)).collect(), vector)
            }
            LaneAccessPattern::Row { .. } if columns % vector != 0 => {
                return Err(LayoutError::BadParameter {
                    what: "vector",
                    value: vector,
                    accepted: format!(
                        "a row of {columns} elements is read in vectors whose length divides it"
                    ),
                });
            }
            LaneAccessPattern::Row { index } => {
                check_touched_elements(columns / vector, vector)?;
                ((0..columns / vector).map(|l| coordinate(*index, l * vector)).collect(), vector)
            }
            // PTX ISA, `ldmatrix`: a thread gives the address of one row of an 8x8 matrix of 16-bit
            // elements, hence eight rows of 128 bits for one matrix.
            LaneAccessPattern::Ldmatrix { row, column } => {
                let per_row = (128 / bits).max(1);
                let nth_row =
                    |r: i64| row.checked_add(r).ok_or_else(|| LayoutError::overflow_of("the row"));
                let starts =
                    (0..8).map(|r| Ok(coordinate(nth_row(r)?, *column))).collect::<Result<_>>()?;
                (starts, per_row)
            }
            LaneAccessPattern::Lanes(list) => {
                check_touched_elements(i64::try_from(list.len()).unwrap_or(i64::MAX), vector)?;
                (list.clone(), vector)
            }
        };
        starts
            .into_iter()
            .map(|start| {
                let first = flatten_coordinate(shape, &start)?;
                if let (Some(c), Some(extent)) = (start.last(), shape.last())
                    && vector > extent - c
                {
                    let dim = shape.len() - 1;
                    let value = c.saturating_add(vector - 1);
                    return Err(LayoutError::CoordinateOutOfRange { dim, value, extent: *extent });
                }
                Ok((first..first + vector).collect())
            })
            .collect()
    }
}

/// The largest number of elements that all lanes of one access may have together. It bounds the memory of the list
/// below, because the caller chooses the shape and the vector.
const MAX_TOUCHED_ELEMENTS: i64 = 1 << 18;

fn check_touched_elements(lanes: i64, vector: i64) -> Result<()> {
    if lanes.saturating_mul(vector) <= MAX_TOUCHED_ELEMENTS {
        return Ok(());
    }
    Err(LayoutError::TooLarge {
        what: "listing the elements of the access",
        limit: MAX_TOUCHED_ELEMENTS.cast_unsigned(),
    })
}

impl Layout {
    /// The address on `m` of the first replica of an element, in bits.
    pub(crate) fn bit_address(&self, flat: i64, bits: i64) -> Result<i128> {
        let Some(slot) = self.tile().axis_index(Axis::M) else {
            return Err(LayoutError::not_on_one_axis(
                "memory analysis",
                Axis::M,
                self.tile().axes(),
            ));
        };
        let inside = self.window().map_or(flat, |w| w.padded_index_of(flat));
        let address = self.tile().unreplicated_coordinate(inside)[slot];
        if address < 0 {
            return Err(LayoutError::BadParameter {
                what: "an address",
                value: address,
                accepted: "banks and sectors are counted from address 0".into(),
            });
        }
        let address = self.swizzle().map_or(address, |sw| sw.apply_to_address(address));
        Ok(i128::from(address) * i128::from(bits))
    }

    /// Checks an element width in bits.
    pub(crate) fn check_element_bits(bits: i64) -> Result<()> {
        if (1..=1024).contains(&bits) {
            return Ok(());
        }
        let accepted = "an element has 1 to 1024 bits".into();
        Err(LayoutError::BadParameter { what: "the element width in bits", value: bits, accepted })
    }
}
