//! Scale factors in tensor memory, from their counts.

use super::OpAnswer;
use crate::RequestFault;
use crate::request::Request;
use serde_json::json;
use zellige_layout::LayoutError;
use zellige_notation::preset::{ScaleFactors, build_scale_factor_layout};

pub(super) fn scale_factors(r: &Request) -> OpAnswer {
    let mut given = ScaleFactors::new(r.require_int("rows")?, r.require_int("groups")?);
    let fields = [
        ("bits", &mut given.bits),
        ("sf_per_mma", &mut given.sf_per_mma),
        ("reuse", &mut given.reuse),
    ];
    for (field, count) in fields {
        *count = r.optional_int(field)?.unwrap_or(*count);
    }
    given.pipe_depth = r.optional_int("pipe_depth")?;
    let found = build_scale_factor_layout(&given).map_err(refused)?;
    Ok(json!({
        "layout": r.print_layout(&found.layout)?,
        "shape": found.shape,
        "epc": found.epc,
        "columns": found.columns,
    }))
}

/// The count that does not fit is the witness.
fn refused(e: LayoutError) -> RequestFault {
    let witness = match &e {
        LayoutError::BadParameter { what, value, .. } => json!({"parameter": what, "value": value}),
        _ => return e.into(),
    };
    RequestFault { witness, ..e.into() }
}
