//! Operations made of moves.

use crate::error::Result;
use crate::kernels::Kernel;
use crate::kernels::concat::{Concat, SliceScatter};
use crate::kernels::moves::{Moves, Moving};
use crate::kernels::pad::{Border, Pad};
use crate::kernels::rearrange::{Diag, Flip, Interleave, Repeat, Roll};
use crate::ops::Attrs;
use crate::ops::pointwise::table;
use crate::scalar::Scalar;
use std::sync::Arc;

type Built = Result<Arc<dyn Kernel>>;

fn moving(a: &Attrs, rule: impl Moves + 'static) -> Built {
    Ok(Arc::new(Moving { name: a.op, rule }))
}

fn list(a: &mut Attrs, name: &str) -> Result<Vec<i64>> {
    match a.ints(name)? {
        Some(list) => Ok(list),
        None => Err(a.bad(name, "it is missing; a list of integers".into())),
    }
}

fn optional(a: &mut Attrs, name: &str) -> Result<Option<i64>> {
    match a.ints(name)?.as_deref() {
        None => Ok(None),
        Some([n]) => Ok(Some(*n)),
        Some(_) => Err(a.bad(name, "it is one integer".into())),
    }
}

fn concat(a: &mut Attrs, new: bool) -> Built {
    let dim = a.int("dim", Some(0))?;
    moving(a, Concat { dim, new })
}

fn pad(a: &mut Attrs) -> Built {
    let widths = list(a, "pad")?;
    if widths.len() % 2 != 0 {
        return Err(a.bad("pad", "it is a list of pairs: before and after a dimension".into()));
    }
    let modes = ["constant", "reflect", "replicate", "circular"];
    let mode = a.word("mode", "constant", &modes)?;
    let value = a.scalar("value", Some(Scalar::Int(0)))?;
    let border = match mode.as_str() {
        "reflect" => Border::Reflect,
        "replicate" => Border::Replicate,
        "circular" => Border::Circular,
        _ => Border::Constant(value),
    };
    moving(a, Pad { widths, border })
}

fn roll(a: &mut Attrs) -> Built {
    let (shifts, dims) = (list(a, "shifts")?, a.ints("dims")?);
    let dims = dims.filter(|d| !d.is_empty());
    moving(a, Roll { shifts, dims })
}

fn repeat(a: &mut Attrs) -> Built {
    let repeats = list(a, "repeats")?;
    match repeats.iter().find(|r| **r < 0) {
        Some(r) => Err(a.bad("repeats", format!("{r} is negative"))),
        None => moving(a, Repeat { repeats }),
    }
}

fn interleave(a: &mut Attrs) -> Built {
    let (times, dim) = (a.int("repeats", None)?, optional(a, "dim")?);
    if times < 0 {
        return Err(a.bad("repeats", format!("{times} is negative")));
    }
    moving(a, Interleave { times, dim })
}

fn slice_scatter(a: &mut Attrs) -> Built {
    let dim = a.int("dim", Some(0))?;
    let (start, end) = (optional(a, "start")?, optional(a, "end")?);
    let step = a.int("step", Some(1))?;
    if step < 1 {
        return Err(a.bad("step", format!("{step} is not 1 or more")));
    }
    moving(a, SliceScatter { dim, start, end, step, over: false })
}

table! {
    "cat" ("tensors...") ["dim" = "0"] Native, |a| concat(a, false);
    "stack" ("tensors...") ["dim" = "0"] Decomposed, |a| concat(a, true);
    "pad" ("x") ["pad" = "", "mode" = "constant", "value" = "0"] Native, pad;
    "flip" ("x") ["dims" = ""] Fallback, |a| {
        let dims = list(a, "dims")?;
        moving(a, Flip { dims })
    };
    "roll" ("x") ["shifts" = "", "dims" = ""] Fallback, roll;
    "repeat" ("x") ["repeats" = ""] Decomposed, repeat;
    "repeat_interleave" ("x") ["repeats" = "", "dim" = ""] Decomposed, interleave;
    "diag" ("x") ["diagonal" = "0"] Decomposed, |a| {
        let diagonal = a.int("diagonal", Some(0))?;
        moving(a, Diag { diagonal })
    };
    "slice_scatter" ("x", "source") ["dim" = "0", "start" = "", "end" = "", "step" = "1"]
        Native, slice_scatter;
}
