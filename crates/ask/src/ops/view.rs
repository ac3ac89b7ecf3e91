//! Host views.

use super::Answer;
use crate::Fault;
use crate::request::{Request, int, ints};
use serde_json::{Value, json};
use zellige_layout::{LayoutError, StridedLayout};

/// The arguments of a view: by position in `args`, or by name beside `call`.
struct Arguments<'a> {
    request: &'a Request,
    list: Vec<Value>,
}

impl Arguments<'_> {
    /// Refuses arguments that the view does not take.
    fn at_most(&self, count: usize) -> Result<(), Fault> {
        if self.list.len() <= count {
            return Ok(());
        }
        let message =
            format!("the view takes {count} arguments, and `args` has {}", self.list.len());
        Err(Fault { kind: "bad_request", message, witness: json!({"field": "args"}) })
    }

    /// The argument at a position, or of one of its names; not both.
    fn get(&self, position: usize, names: &[&'static str]) -> Result<Option<Value>, Fault> {
        let named = names.iter().find_map(|n| self.request.get(n).map(|v| (*n, v.clone())));
        let placed = self.list.get(position).filter(|v| !v.is_null()).cloned();
        if let (Some((name, _)), Some(_)) = (&named, &placed) {
            let message = format!("`{name}` is given by name and in `args`");
            return Err(Fault { kind: "bad_request", message, witness: json!({"field": name}) });
        }
        Ok(placed.or(named.map(|(_, v)| v)))
    }

    fn need(&self, position: usize, names: &[&'static str]) -> Result<Value, Fault> {
        self.get(position, names)?.ok_or_else(|| Fault {
            kind: "bad_request",
            message: format!("`{}` is missing: argument {position} of the view", names[0]),
            witness: json!({"field": names[0]}),
        })
    }

    fn int(&self, position: usize, names: &[&'static str]) -> Result<i64, Fault> {
        int(names[0], &self.need(position, names)?)
    }

    fn opt_int(&self, position: usize, names: &[&'static str]) -> Result<Option<i64>, Fault> {
        self.get(position, names)?.map(|v| int(names[0], &v)).transpose()
    }

    /// A list as one argument, or spread over all of them as PyTorch also allows.
    fn ints(&self, names: &[&'static str]) -> Result<Vec<i64>, Fault> {
        if self.list.first().is_some_and(Value::is_i64) {
            return ints(names[0], &Value::Array(self.list.clone()));
        }
        if self.list.len() > 1 {
            let message = "a list is one argument, or spread over all of them".into();
            return Err(Fault { kind: "bad_request", message, witness: json!({"field": "args"}) });
        }
        ints(names[0], &self.need(0, names)?)
    }
}

/// What strides alone say about a host tensor.
pub(super) fn host_facts(r: &Request) -> Answer {
    let size = r.ints("size")?;
    let offset = r.opt_int("offset")?.unwrap_or(0);
    let stride = match r.opt_ints("stride")? {
        Some(stride) => stride,
        None => StridedLayout::new_contiguous(&size)?.stride().to_vec(),
    };
    let host = StridedLayout::new(&size, &stride, offset)?;
    let canonical = host.canonical_form();
    Ok(json!({
        "row_major": host.is_row_major(),
        "column_major": host.is_column_major(),
        "channels_last": host.is_channels_last(),
        "dense": host.is_dense_non_overlapping(),
        "own_strides": host.own_strides()?,
        "canonical": {"size": canonical.size(), "stride": canonical.stride(), "offset": canonical.offset()},
        "addresses": host.address_range().map(|b| [b.min, b.max]),
    }))
}

pub(super) fn view(r: &Request) -> Answer {
    let size = r.ints("size")?;
    let offset = r.opt_int("offset")?.unwrap_or(0);
    let host = match r.opt_ints("stride")? {
        Some(stride) => StridedLayout::new(&size, &stride, offset)?,
        None => {
            let contiguous = StridedLayout::new_contiguous(&size)?;
            StridedLayout::new(&size, contiguous.stride(), offset)?
        }
    };
    let list = match r.get("args") {
        None => Vec::new(),
        Some(Value::Array(list)) => list.clone(),
        Some(other) => return Err(Fault::expected("`args`", "a list", other)),
    };
    let a = Arguments { request: r, list };
    let call = r.str("call")?;
    a.at_most(match call {
        "squeeze" | "unsqueeze" => 1,
        "transpose" | "select" => 2,
        "unfold" | "as_strided" => 3,
        "slice" => 4,
        // A list, as one argument or spread over all of them.
        _ => usize::MAX,
    })?;
    let found = match call {
        "transpose" => host.transpose(a.int(0, &["dim0"])?, a.int(1, &["dim1"])?),
        "permute" => host.permute(&a.ints(&["dims", "perm"])?),
        "slice" => host.slice_dim(
            a.int(0, &["dim"])?,
            a.opt_int(1, &["start"])?,
            a.opt_int(2, &["end"])?,
            a.opt_int(3, &["step"])?.unwrap_or(1),
        ),
        "select" => host.select(a.int(0, &["dim"])?, a.int(1, &["index"])?),
        "expand" => host.expand(&a.ints(&["sizes", "shape"])?),
        "squeeze" => host.squeeze(a.opt_int(0, &["dim"])?),
        "unsqueeze" => host.unsqueeze(a.int(0, &["dim"])?),
        "unfold" => host.unfold(
            a.int(0, &["dim", "dimension"])?,
            a.int(1, &["length"])?,
            a.int(2, &["step"])?,
        ),
        "flip" => host.flip(&a.ints(&["dims"])?),
        "view" => host.view(&a.ints(&["shape"])?),
        "reshape" => host.reshape(&a.ints(&["shape"])?),
        "as_strided" => {
            let list = |k: usize, names: &'static [&'static str]| -> Result<Vec<i64>, Fault> {
                ints(names[0], &a.need(k, names)?)
            };
            let (size, stride) = (list(0, &["new_size"])?, list(1, &["new_stride"])?);
            host.as_strided(&size, &stride, a.opt_int(2, &["new_offset"])?, None)
        }
        other => {
            let shown: String = other.chars().take(60).collect();
            let message = format!(
                "unknown view `{shown}`; known: transpose, permute, slice, select, expand, squeeze, \
                 unsqueeze, unfold, flip, view, reshape, as_strided"
            );
            return Err(Fault { kind: "bad_request", message, witness: json!({"field": "call"}) });
        }
    };
    match found {
        Ok(v) => Ok(json!({"size": v.size(), "stride": v.stride(), "offset": v.offset()})),
        Err(LayoutError::NeedsCopy { reason, .. }) => Ok(json!({"needs_copy": {"reason": reason}})),
        Err(e) => Err(e.into()),
    }
}
