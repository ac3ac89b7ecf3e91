//! Host views.

use super::OpAnswer;
use crate::RequestFault;
use crate::request::{Request, parse_int, parse_ints};
use serde_json::{Value, json};
use zellige_layout::{LayoutError, StridedLayout};

/// The arguments of a view: by position in `args`, or by name beside `call`.
struct ViewArguments<'a> {
    request: &'a Request,
    list: Vec<Value>,
}

impl ViewArguments<'_> {
    /// Refuses arguments that the view does not take.
    fn refuse_more_than(&self, count: usize) -> Result<(), RequestFault> {
        if self.list.len() <= count {
            return Ok(());
        }
        let message =
            format!("the view takes {count} arguments, and `args` has {}", self.list.len());
        Err(RequestFault { kind: "bad_request", message, witness: json!({"field": "args"}) })
    }

    /// The argument at a position, or of one of its names; not both.
    fn get(&self, position: usize, names: &[&'static str]) -> Result<Option<Value>, RequestFault> {
        let named = names.iter().find_map(|n| self.request.get(n).map(|v| (*n, v.clone())));
        let placed = self.list.get(position).filter(|v| !v.is_null()).cloned();
        if let (Some((name, _)), Some(_)) = (&named, &placed) {
            let message = format!("`{name}` is given by name and in `args`");
            return Err(RequestFault {
                kind: "bad_request",
                message,
                witness: json!({"field": name}),
            });
        }
        Ok(placed.or(named.map(|(_, v)| v)))
    }

    fn require_argument(
        &self,
        position: usize,
        names: &[&'static str],
    ) -> Result<Value, RequestFault> {
        self.get(position, names)?.ok_or_else(|| RequestFault {
            kind: "bad_request",
            message: format!("`{}` is missing: argument {position} of the view", names[0]),
            witness: json!({"field": names[0]}),
        })
    }

    fn require_int(&self, position: usize, names: &[&'static str]) -> Result<i64, RequestFault> {
        parse_int(names[0], &self.require_argument(position, names)?)
    }

    fn optional_int(
        &self,
        position: usize,
        names: &[&'static str],
    ) -> Result<Option<i64>, RequestFault> {
        self.get(position, names)?.map(|v| parse_int(names[0], &v)).transpose()
    }

    /// A list as one argument, or spread over all of them as PyTorch also allows.
    fn require_ints(&self, names: &[&'static str]) -> Result<Vec<i64>, RequestFault> {
        // PyTorch accepts `x.permute(1, 0)` and `x.permute((1, 0))`; the first element tells them apart.
        if self.list.first().is_some_and(Value::is_i64) {
            return parse_ints(names[0], &Value::Array(self.list.clone()));
        }
        if self.list.len() > 1 {
            let message = "a list is one argument, or spread over all of them".into();
            return Err(RequestFault {
                kind: "bad_request",
                message,
                witness: json!({"field": "args"}),
            });
        }
        parse_ints(names[0], &self.require_argument(0, names)?)
    }
}

/// What strides alone say about a host tensor.
pub(super) fn answer_host_facts(r: &Request) -> OpAnswer {
    let size = r.require_ints("size")?;
    let offset = r.optional_int("offset")?.unwrap_or(0);
    let stride = match r.optional_ints("stride")? {
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

pub(super) fn answer_view(r: &Request) -> OpAnswer {
    let size = r.require_ints("size")?;
    let offset = r.optional_int("offset")?.unwrap_or(0);
    let host = match r.optional_ints("stride")? {
        Some(stride) => StridedLayout::new(&size, &stride, offset)?,
        None => {
            let contiguous = StridedLayout::new_contiguous(&size)?;
            StridedLayout::new(&size, contiguous.stride(), offset)?
        }
    };
    let list = match r.get("args") {
        None => Vec::new(),
        Some(Value::Array(list)) => list.clone(),
        Some(other) => return Err(RequestFault::wrong_type("`args`", "a list", other)),
    };
    let a = ViewArguments { request: r, list };
    let call = r.require_str("call")?;
    a.refuse_more_than(match call {
        "squeeze" | "unsqueeze" => 1,
        "transpose" | "select" => 2,
        "unfold" | "as_strided" => 3,
        "slice" => 4,
        // A list, as one argument or spread over all of them.
        _ => usize::MAX,
    })?;
    let found = match call {
        "transpose" => host.transpose(a.require_int(0, &["dim0"])?, a.require_int(1, &["dim1"])?),
        "permute" => host.permute(&a.require_ints(&["dims", "perm"])?),
        "slice" => host.slice_dim(
            a.require_int(0, &["dim"])?,
            a.optional_int(1, &["start"])?,
            a.optional_int(2, &["end"])?,
            a.optional_int(3, &["step"])?.unwrap_or(1),
        ),
        "select" => host.select(a.require_int(0, &["dim"])?, a.require_int(1, &["index"])?),
        "expand" => host.expand(&a.require_ints(&["sizes", "shape"])?),
        "squeeze" => host.squeeze(a.optional_int(0, &["dim"])?),
        "unsqueeze" => host.unsqueeze(a.require_int(0, &["dim"])?),
        "unfold" => host.unfold(
            a.require_int(0, &["dim", "dimension"])?,
            a.require_int(1, &["length"])?,
            a.require_int(2, &["step"])?,
        ),
        "flip" => host.flip(&a.require_ints(&["dims"])?),
        "view" => host.view(&a.require_ints(&["shape"])?),
        "reshape" => host.reshape(&a.require_ints(&["shape"])?),
        "as_strided" => {
            let list =
                |k: usize, names: &'static [&'static str]| -> Result<Vec<i64>, RequestFault> {
                    parse_ints(names[0], &a.require_argument(k, names)?)
                };
            let (size, stride) = (list(0, &["new_size"])?, list(1, &["new_stride"])?);
            host.as_strided(&size, &stride, a.optional_int(2, &["new_offset"])?, None)
        }
        other => {
            let shown: String = other.chars().take(60).collect();
            let message = format!(
                "unknown view `{shown}`; known: transpose, permute, slice, select, expand, squeeze, \
                 unsqueeze, unfold, flip, view, reshape, as_strided"
            );
            return Err(RequestFault {
                kind: "bad_request",
                message,
                witness: json!({"field": "call"}),
            });
        }
    };
    match found {
        Ok(v) => Ok(json!({"size": v.size(), "stride": v.stride(), "offset": v.offset()})),
        // An answer and not an error: that a reshape needs a copy is what the caller wants to know.
        Err(LayoutError::NeedsCopy { reason, .. }) => Ok(json!({"needs_copy": {"reason": reason}})),
        Err(e) => Err(e.into()),
    }
}
