//! What kernels keep in the scratchpad of a core, and how often a product reads its operands because of that.

/// Bytes of a streamed tensor that stay in the scratchpad: two tiles of 16 KiB, one in use while the other is on its
/// way.
pub const STREAMED_TENSOR_BYTES: u64 = 2 * 16 * 1024;

/// Bytes of a scratchpad that kernels use: 2 MiB less a fifth for the backend.
pub const KERNEL_SCRATCHPAD: u64 = 1_677_721;

/// One operand of a product on a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProductOperand {
    /// Bytes of an element.
    pub width: u64,
    /// Bytes of the core's slice.
    pub bytes: u64,
}

/// How a core reads the operands of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProductReads {
    /// How often it reads its slices of A and of B.
    pub times: [u64; 2],
    /// Bytes that stay in the scratchpad.
    pub resident: u64,
}

/// How often a core reads its slices of A and B, for so many rows, padded columns and padded depth, in `room` bytes of
/// the scratchpad; `lanes` are the elements of a stick of B.
///
/// Rows of A stay in the scratchpad with their sums, as many as fit, and B passes by once for each such part; or
/// sticks of columns of B stay, and A passes by. The core keeps the one that makes it read less; where both give the
/// same, A.
pub fn plan_product_reads(
    [rows, columns, depth]: [u64; 3],
    [a, b]: [ProductOperand; 2],
    lanes: u64,
    room: u64,
) -> ProductReads {
    let row = depth * a.width + columns.min(64) * 4;
    let lanes = columns.min(lanes).max(1);
    let stick = lanes * (depth * b.width + 4);
    let sticks = columns.div_ceil(lanes);
    let held_rows = (room / row.max(1)).clamp(1, rows.max(1));
    let held_sticks = (room / stick.max(1)).clamp(1, sticks.max(1));
    let row_parts = rows.div_ceil(held_rows).max(1);
    let stick_parts = sticks.div_ceil(held_sticks).max(1);
    let keep_a = a.bytes.saturating_add(b.bytes.saturating_mul(row_parts));
    let keep_b = a.bytes.saturating_mul(stick_parts).saturating_add(b.bytes);
    if keep_a <= keep_b {
        ProductReads { times: [1, row_parts], resident: held_rows * row }
    } else {
        ProductReads { times: [stick_parts, 1], resident: held_sticks * stick }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_read_again() {
        let factor = |bytes| ProductOperand { width: 2, bytes };
        // A has 4 rows of 64 elements and 128 columns pass by: everything fits.
        let small = plan_product_reads([4, 128, 64], [factor(512), factor(16384)], 64, 1 << 20);
        assert_eq!(small, ProductReads { times: [1, 1], resident: 4 * (64 * 2 + 64 * 4) });
        // Room for two of the rows: B would pass by twice, or A once for each of two sticks of B, which is less.
        let tight = plan_product_reads([4, 128, 64], [factor(512), factor(16384)], 64, 800);
        assert_eq!(tight.times, [2, 1]);
    }
}
