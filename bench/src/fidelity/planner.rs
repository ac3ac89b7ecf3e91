//! The division that torch-spyre's planner chose for a product, where the source does not record it.
//!
//! The planner of July and August 2026 prices a division in microseconds by a few rules, which its documentation states. The
//! fan-out of an operand is charged to its own bytes here, which recorded divisions of one to four rows ask for. It is not the one that `policy: baseline` imitates, whose figures are older. Measured times agree: unrecorded
//! products of 64 rows take as long as with m4 n8, and batches of products take as long as with 512 columns on a core
//! (m16 n2 for 1024 columns, as one source says, m8 n4 for 2048).

use super::row::ProductSplit;

/// Sizes of the product that the planner divides.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlannedProduct {
    /// Matrices.
    pub(super) batch: i64,
    /// Rows of one matrix.
    pub(super) m: i64,
    /// Columns.
    pub(super) n: i64,
    /// The summed dimension.
    pub(super) k: i64,
    /// Elements of a stick of columns.
    pub(super) stick: i64,
    /// Whether the rules for memory count. Those measured for batches of products with operands in the default order are
    /// explained by the penalties for small parts alone.
    pub(super) by_memory: bool,
}

/// Multiply-adds of a core in a microsecond, and bytes of memory.
const PEAK_MACS: f64 = 1_536_000.0;
const PEAK_BYTES: f64 = 204_800.0;
/// Cores that one read of memory serves without a loss.
const FREE_FAN_OUT: f64 = 8.0;
/// Microseconds for half as many cores, for half of 16 rows on a core, for twice 512 columns.
const FEWER_CORES: f64 = 150.0;
const FEWER_ROWS: f64 = 30.0;
const MORE_COLUMNS: f64 = 25.0;

/// The cheapest even division on at most `cores` cores; of equals the one with most slices of rows. It splits neither
/// the batch nor the summed dimension: no unrecorded row looks as if it were.
pub(super) fn plan_division(product: PlannedProduct, cores: i64) -> ProductSplit {
    let sticks = (product.n + product.stick - 1) / product.stick;
    let divisors = |size: i64| (1..=cores.min(size)).filter(move |d| size % d == 0);
    let mut best: Option<(f64, ProductSplit)> = None;
    for n in divisors(sticks) {
        for m in divisors(product.m).filter(|m| m * n <= cores) {
            let cost = price_division(product, [m, n], cores);
            let split = ProductSplit { b: 1, m, n, k: 1 };
            // Fewer slices of columns come first, so that the first of equals has most slices of rows.
            if best.is_none_or(|(known, _)| cost < known - 1e-9) {
                best = Some((cost, split));
            }
        }
    }
    best.map_or(ProductSplit { b: 1, m: 1, n: 1, k: 1 }, |(_, split)| split)
}

fn price_division(product: PlannedProduct, [m, n]: [i64; 2], cores: i64) -> f64 {
    let PlannedProduct { batch, m: rows, n: columns, k, by_memory, .. } = product;
    let f = |x: i64| x as f64;
    let halvings = |most: f64, x: f64| (most / x).log2().max(0.0);
    let mut cost = FEWER_CORES * halvings(f(cores), f(m * n))
        + FEWER_ROWS * halvings(16.0_f64.min(f(rows)), f(rows) / f(m))
        + MORE_COLUMNS * (f(columns) / f(n) / 512.0).log2().max(0.0);
    if by_memory {
        // Slices of columns share the rows of A, slices of rows the columns of B.
        let fan_out = |cores: i64| (f(cores) / FREE_FAN_OUT).max(1.0).powf(0.75);
        let (a, b) = (f(rows) * f(k) * fan_out(n), f(k) * f(columns) * fan_out(m));
        cost += f(batch) * f(rows) * f(columns) * f(k) / f(m * n) / PEAK_MACS
            + 2.0 * f(batch) * (a + b + f(rows) * f(columns)) / PEAK_BYTES;
    }
    cost
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(batch: i64, m: i64, n: i64, k: i64, cores: i64) -> (i64, i64) {
        let by_memory = batch == 1;
        let split = plan_division(PlannedProduct { batch, m, n, k, stick: 64, by_memory }, cores);
        (split.m, split.n)
    }

    #[test]
    fn recorded_divisions_are_chosen() {
        // Recorded or stated by the sources: plain products, then batches.
        assert_eq!(plan(1, 64, 4096, 4096, 32), (4, 8));
        assert_eq!(plan(1, 512, 4096, 12800, 32), (4, 8));
        assert_eq!(plan(1, 1, 4096, 4096, 32), (1, 32));
        assert_eq!(plan(4, 1024, 1024, 2048, 32), (16, 2));
        assert_eq!(plan(4, 2048, 1024, 2048, 32), (16, 2));
        // By the time they take.
        assert_eq!(plan(4, 1024, 2048, 2048, 32), (8, 4));
        assert_eq!(plan(8, 512, 512, 2048, 32), (32, 1));
    }

    #[test]
    fn no_division_exceeds_the_cores_or_the_sizes() {
        for cores in [1, 2, 3, 8, 32] {
            for m in [1, 7, 64, 1000] {
                for n in [1, 64, 100, 4096] {
                    let (a, b) = plan(1, m, n, 128, cores);
                    assert!(a * b <= cores && m % a == 0 && ((n + 63) / 64) % b == 0);
                }
            }
        }
    }
}
