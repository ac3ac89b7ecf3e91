//! Which axis of a layout becomes rows, columns or panels.

use crate::cell_label;
use zellige_layout::{Axis, Layout};

/// Threads, devices or addresses in one row of a folded table.
const FOLDED_COLS: usize = 8;

/// The part that each axis plays in a table; slots count in the axes of the layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AxisRoles {
    /// One panel per coordinate of these, slowest first.
    pub(crate) panels: Vec<usize>,
    /// The rows; where there is none, the columns fold into rows.
    pub(crate) row: Option<usize>,
    /// The columns.
    pub(crate) col: usize,
    /// Columns per row of a folded table.
    pub(crate) fold: usize,
    /// What the picture is called.
    pub(crate) title: String,
}

impl AxisRoles {
    /// The parts for a layout that has an axis besides `m`.
    pub(crate) fn choose_roles(layout: &Layout, shape: &[i64]) -> AxisRoles {
        let axes = layout.tile().axes();
        let mut order: Vec<usize> = (0..axes.len()).collect();
        order.sort_by_key(|i| cell_label::axis_rank(axes[*i]));
        let named = |name: &str| axes.iter().position(|a| a.name() == name);
        // Two-dimensional memories by their vendors' names: NVIDIA's tensor memory has lanes and columns,
        // Trainium's scratchpad partitions and a free dimension.
        for (row, col, title) in [("TLane", "TCol", "Tensor memory"), ("P", "F", "Scratchpad")] {
            if let (Some(row), Some(col)) = (named(row), named(col)) {
                order.retain(|i| *i != row && *i != col);
                return AxisRoles {
                    panels: order,
                    row: Some(row),
                    col,
                    fold: FOLDED_COLS,
                    title: title.into(),
                };
            }
        }
        let col = order.pop().unwrap_or(0);
        let last = axes.get(col);
        let title = order.last().map_or_else(
            || last.map_or(String::new(), |a| format!("Places on {a}")),
            |row| format!("{} × {}", axes[*row], last.map_or("", |a| a.name())),
        );
        let owner = order.last().map(|i| axes[*i]);
        let device = axes.iter().any(|a| a.kind().name() == "device");
        match (owner, last) {
            (None, _) => AxisRoles { panels: order, row: None, col, fold: FOLDED_COLS, title },
            (Some(owner), Some(last)) if last.is_memory() && owner.kind().name() != "device" => {
                let row = order.pop();
                let title = if owner.is_thread() && *last == Axis::M {
                    format!("{owner} × register")
                } else {
                    title
                };
                AxisRoles { panels: order, row, col, fold: FOLDED_COLS, title }
            }
            // The owner of one memory, or of nothing but itself: a box of its own.
            (Some(_), Some(last)) if last.is_memory() || !device => {
                let title = if device { "Device mesh" } else { "Threads" }.to_string();
                let fold = if last.is_memory() { local_width(layout, shape) } else { FOLDED_COLS };
                AxisRoles { panels: order, row: None, col, fold, title }
            }
            _ => AxisRoles {
                panels: order,
                row: None,
                col,
                fold: FOLDED_COLS,
                title: "Device mesh".into(),
            },
        }
    }
}

/// How many addresses of one owner belong to one row of the logical tensor.
///
/// The memory digits among the trailing iters that make up the last dimension; the usual width
/// where the iters do not meet its boundary.
fn local_width(layout: &Layout, shape: &[i64]) -> usize {
    let last = shape.last().copied().unwrap_or(1);
    let (mut seen, mut local) = (1i64, 1i64);
    for it in layout.tile().shard().iter().rev() {
        // The trailing iters make up the last dimension, which is what a row of the tensor is.
        if seen >= last {
            break;
        }
        seen = seen.saturating_mul(it.extent);
        if it.axis.is_memory() {
            local = local.saturating_mul(it.extent);
        }
    }
    match usize::try_from(local) {
        Ok(width) if seen == last && (1..=64).contains(&width) => width,
        _ => FOLDED_COLS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zellige_layout::{AxisTable, Iter, TileLayout};

    fn roles(
        iters: &[(i64, i64, &str)],
        shape: &[i64],
    ) -> (Vec<String>, Option<String>, String, usize) {
        let table = AxisTable::new();
        let shard = iters
            .iter()
            .map(|(e, s, a)| Iter::new(*e, *s, table.get(a).expect("built in")))
            .collect();
        let layout = Layout::from(TileLayout::from_shard(shard).expect("well-formed"));
        let r = AxisRoles::choose_roles(&layout, shape);
        let name = |i: usize| layout.tile().axes()[i].name().to_string();
        (r.panels.iter().map(|i| name(*i)).collect(), r.row.map(name), name(r.col), r.fold)
    }

    #[test]
    fn every_memory_gets_its_picture() {
        let own = |s: &str| Some(s.to_string());
        assert_eq!(
            roles(&[(8, 1, "laneid"), (2, 1, "m")], &[8, 2]),
            (vec![], own("laneid"), "m".into(), 8)
        );
        assert_eq!(
            roles(&[(2, 1, "warpid"), (8, 1, "laneid"), (2, 1, "m")], &[16, 2]),
            (vec!["warpid".into()], own("laneid"), "m".into(), 8)
        );
        assert_eq!(roles(&[(8, 1, "laneid")], &[8]), (vec![], None, "laneid".into(), 8));
        assert_eq!(
            roles(&[(8, 1, "laneid"), (2, 1, "warpid")], &[16]),
            (vec!["warpid".into()], None, "laneid".into(), 8)
        );
        assert_eq!(
            roles(&[(2, 1, "pid"), (2, 2, "m"), (2, 2, "pid"), (2, 1, "m")], &[4, 4]),
            (vec!["pid".into()], None, "m".into(), 2)
        );
        assert_eq!(
            roles(&[(4, 1, "P"), (2, 1, "Bank"), (4, 1, "F")], &[4, 8]),
            (vec!["Bank".into()], own("P"), "F".into(), 8)
        );
    }
}
