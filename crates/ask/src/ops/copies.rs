//! The copies of a move, in the order in which its plan makes them.

use super::OpAnswer;
use super::moves::read_move_fields;
use crate::RequestFault;
use crate::request::Request;
use serde_json::{Value, json};
use zellige_layout::Layout;
use zellige_movement::MovePlan;
use zellige_view::DrawOptions;
use zellige_view::atlas::{Atlas, CellSpot};

/// Copies that one answer lists at most.
const MAX_LISTED_COPIES: i64 = 1 << 14;

pub(super) fn answer_copies(r: &Request) -> OpAnswer {
    let request = read_move_fields(r)?;
    let first = r.optional_int("first")?.unwrap_or(0).max(0);
    let count = r.optional_int("count")?.unwrap_or(MAX_LISTED_COPIES).clamp(0, MAX_LISTED_COPIES);
    let plan =
        MovePlan::between(&request.src, &request.dst, &request.shape, request.padding.fill_mode())?;
    let atlas = |field: &'static str, layout: &Layout| -> Result<Atlas, RequestFault> {
        let sticks = r.parse_layout(field)?.stick_layout().is_some();
        let bits = match field {
            "dst" => request.to_dtype.unwrap_or(request.dtype).bits(),
            _ => request.dtype.bits(),
        };
        let options = DrawOptions { dtype_bits: bits, sticks, ..DrawOptions::default() };
        Ok(Atlas::new(layout, &request.shape, &options)?)
    };
    let (from, to) = (atlas("src", &request.src)?, atlas("dst", &request.dst)?);
    let spots = |atlas: &Atlas, layout: &Layout, address: i64| -> Vec<CellSpot> {
        // Plans move along one memory axis, whatever its name; without an axis everything is at the
        // one place there is.
        let place = [address];
        atlas.place_spots(if layout.tile().axes().is_empty() { &[] } else { &place })
    };
    let mut list: Vec<Value> = Vec::new();
    let mut seen = 0i64;
    'nests: for (n, nest) in plan.nests().iter().enumerate() {
        let ranges: Vec<i64> = nest.loops.iter().map(|l| l.range).collect();
        let inner: i64 = ranges.iter().product();
        for (a, b) in &nest.starts {
            // A window far behind the beginning skips whole nests, so that scrolling through a plan of millions of
            // copies stays fast.
            if seen + inner <= first {
                seen += inner;
                continue;
            }
            for step in (first - seen).max(0)..inner {
                if i64::try_from(list.len()).unwrap_or(i64::MAX) >= count {
                    // The number of all copies is known from the plan, so nothing behind the window is visited.
                    break 'nests;
                }
                let digits = zellige_layout::unflatten_index(&ranges, step);
                let (mut src, mut dst) = (*a, *b);
                for (digit, l) in digits.iter().zip(&nest.loops) {
                    src += digit * l.src;
                    dst += digit * l.dst;
                }
                list.push(json!({
                    "nest": n,
                    "src": src,
                    "dst": dst,
                    "from": spots(&from, &request.src, src),
                    "to": spots(&to, &request.dst, dst),
                }));
            }
            seen += inner;
        }
    }
    let total: i64 = plan.nests().iter().map(zellige_movement::CopyNest::element_count).sum();
    Ok(json!({"total": total, "first": first, "copies": list}))
}
