//! How a division cuts the memory order of a tensor, as far as the time of a copy depends on it.

use crate::division::TensorDivision;

/// Consecutive elements that the cores of a division hold, in row-major order of the tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DivisionRuns {
    /// Cores that hold something.
    pub cores: i64,
    /// Elements of the shortest run of consecutive elements of a core.
    pub run: i64,
    /// Slices of the dimension that ends those runs: 1 where a core holds the whole tensor.
    pub split: i64,
}

impl TensorDivision {
    /// The runs of a division; of boxes with equally short runs, those of the most slices.
    pub fn count_runs(&self) -> DivisionRuns {
        let cores = i64::try_from(self.parts().count()).unwrap_or(i64::MAX);
        let of_box = |ranges: &[(i64, i64)]| -> (i64, i64) {
            let mut run = 1;
            for ((begin, end), extent) in ranges.iter().zip(self.shape()).rev() {
                let length = end - begin;
                run *= length;
                // The first dimension, from the fastest on, of which a core has a part: the next element is on another
                // core.
                if length < *extent {
                    return (run, (extent + length - 1) / length);
                }
            }
            (run, 1)
        };
        let boxes = self.parts().flat_map(|(_, own)| own);
        let shortest = boxes.map(|b| of_box(b.ranges())).min_by_key(|(run, split)| (*run, -split));
        let (run, split) = shortest.unwrap_or((0, 1));
        DivisionRuns { cores, run, split }
    }
}
