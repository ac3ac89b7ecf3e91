//! Views: operations that only change how a tensor is looked at.

use crate::error::{GraphError, Result};
use serde_json::{Map, Value};
use zellige_layout::StridedLayout;

/// The view operations with their attributes.
pub const VIEW_OPS: &[(&str, &[&str])] = &[
    ("transpose", &["dim0", "dim1"]),
    ("t", &[]),
    ("permute", &["dims"]),
    ("view", &["size"]),
    ("reshape", &["size"]),
    ("flatten", &["start_dim", "end_dim"]),
    ("expand", &["size"]),
    ("slice", &["dim", "start", "end", "step"]),
    ("select", &["dim", "index"]),
    ("squeeze", &["dim"]),
    ("unsqueeze", &["dim"]),
    ("unfold", &["dim", "size", "step"]),
    ("as_strided", &["size", "stride", "storage_offset"]),
];

/// Whether an operation is a view.
pub(crate) fn is_view(op: &str) -> bool {
    VIEW_OPS.iter().any(|(name, _)| *name == op)
}

/// The view that an operation makes of another; `None` where its elements must be copied first. `elements` is the
/// number of elements of the base, in whose row-major index `as_strided` steps.
pub(crate) fn apply_view(
    op: &str,
    of: &StridedLayout,
    elements: i64,
    attributes: &Map<String, Value>,
) -> Result<Option<StridedLayout>> {
    let known = VIEW_OPS.iter().find(|(name, _)| *name == op).map_or(&[][..], |v| v.1);
    // Unknown attributes are refused and not ignored: `dims` in the place of `dim` would otherwise select the default
    // dimension.
    if let Some(key) = attributes.keys().find(|k| !known.contains(&k.as_str())) {
        let accepted = if known.is_empty() { "it has none".into() } else { known.join(", ") };
        let message = format!("there is no attribute `{key}`; accepted: {accepted}");
        return Err(GraphError::new("bad_attribute", message));
    }
    let int = |key: &str, default: Option<i64>| match (attributes.get(key), default) {
        (Some(Value::Null) | None, Some(d)) => Ok(d),
        (Some(v), _) => v.as_i64().ok_or_else(|| {
            GraphError::new("bad_attribute", format!("`{key}` is an integer, not {v}"))
        }),
        (None, None) => {
            Err(GraphError::new("bad_attribute", format!("`{key}` is missing; an integer")))
        }
    };
    let optional = |key: &str| match attributes.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => int(key, None).map(Some),
    };
    let list = |key: &str| {
        let all = attributes.get(key).and_then(Value::as_array);
        let all = all.and_then(|l| l.iter().map(Value::as_i64).collect::<Option<Vec<i64>>>());
        all.ok_or_else(|| {
            GraphError::new("bad_attribute", format!("`{key}` is a list of integers"))
        })
    };
    let reshaped = |size: &[i64]| match of.view(size) {
        Ok(v) => Ok(Some(v)),
        // The sizes are right and the strides are not: a copy has row-major ones.
        Err(e) => {
            StridedLayout::new_contiguous(of.size())?.view(size).map(|_| None).map_err(|_| e.into())
        }
    };
    Ok(Some(match op {
        "transpose" => of.transpose(int("dim0", None)?, int("dim1", None)?)?,
        "t" if of.rank() == 2 => of.transpose(0, 1)?,
        "t" if of.rank() < 2 => of.clone(),
        "t" => {
            let message = format!("it takes at most two dimensions, not {}", of.rank());
            return Err(GraphError::new("bad_operand", message));
        }
        "permute" => of.permute(&list("dims")?)?,
        "view" => of.view(&list("size")?)?,
        "reshape" => return reshaped(&list("size")?),
        "flatten" => {
            let rank = i64::try_from(of.rank()).unwrap_or(i64::MAX);
            let wrap = |d: i64| usize::try_from(if d < 0 { d + rank } else { d }).ok();
            let ends = (wrap(int("start_dim", Some(0))?), wrap(int("end_dim", Some(-1))?));
            let size = match ends {
                _ if of.rank() == 0 => vec![1],
                (Some(a), Some(b)) if a <= b && b < of.rank() => {
                    let size = of.size();
                    let middle = size[a..=b].iter().product();
                    [&size[..a], &[middle], &size[b + 1..]].concat()
                }
                _ => {
                    let message = format!("start_dim and end_dim are 0 to {}, in order", rank - 1);
                    return Err(GraphError::new("bad_attribute", message));
                }
            };
            return reshaped(&size);
        }
        "expand" => of.expand(&list("size")?)?,
        "slice" => {
            let (dim, step) = (int("dim", Some(0))?, int("step", Some(1))?);
            of.slice_dim(dim, optional("start")?, optional("end")?, step)?
        }
        "select" => of.select(int("dim", None)?, int("index", None)?)?,
        "squeeze" => of.squeeze(optional("dim")?)?,
        "unsqueeze" => of.unsqueeze(int("dim", None)?)?,
        "unfold" => of.unfold(int("dim", None)?, int("size", None)?, int("step", None)?)?,
        "as_strided" => {
            let offset = int("storage_offset", Some(0))?;
            of.as_strided(&list("size")?, &list("stride")?, Some(offset), Some(elements))?
        }
        _ => return Err(GraphError::new("no_such_op", format!("`{op}` is no view"))),
    }))
}
