//! Scale factors in tensor memory, from their counts.

use super::Answer;
use crate::Fault;
use crate::request::Request;
use serde_json::json;
use zellige_layout::Error;
use zellige_notation::preset::{ScaleFactors, build_scale_factor_layout};

pub(super) fn scale_factors(r: &Request) -> Answer {
    let mut given = ScaleFactors::new(r.int("rows")?, r.int("groups")?);
    let fields = [
        ("bits", &mut given.bits),
        ("sf_per_mma", &mut given.sf_per_mma),
        ("reuse", &mut given.reuse),
    ];
    for (field, count) in fields {
        *count = r.opt_int(field)?.unwrap_or(*count);
    }
    given.pipe_depth = r.opt_int("pipe_depth")?;
    let found = build_scale_factor_layout(&given).map_err(refused)?;
    Ok(json!({
        "layout": r.print(&found.layout)?,
        "shape": found.shape,
        "epc": found.epc,
        "columns": found.columns,
    }))
}

/// The count that does not fit is the witness.
fn refused(e: Error) -> Fault {
    let witness = match &e {
        Error::BadParameter { what, value, .. } => json!({"parameter": what, "value": value}),
        _ => return e.into(),
    };
    Fault { witness, ..e.into() }
}
