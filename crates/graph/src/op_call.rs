//! An operation with its attributes, written with types instead of JSON.
//!
//! The attributes of an operation are JSON in files, in texts and in [`GraphNode`](crate::GraphNode), because a file
//! may hold any. Code that makes operations knows which ones it makes: an [`OpCall`] says them with parameters, so that
//! a misspelled attribute or a list in the place of a number does not compile. What has no constructor of its own takes
//! its attributes one by one.
//!
//! ```
//! use zellige_graph::{GraphBuilder, GraphOperand, InputRole, OpCall};
//! use zellige_float::Dtype;
//! let mut graph = GraphBuilder::new("example");
//! let x = graph.add_input("x", &[4, 6], Dtype::Float32, InputRole::Input)?;
//! let turned = graph.add_call(&OpCall::transpose(0, 1), &[GraphOperand::Tensor(x)], &["turned"])?[0];
//! let sum = OpCall::reduce("sum", [-1], true);
//! let y = graph.add_call(&sum, &[GraphOperand::Tensor(turned)], &["y"])?[0];
//! assert_eq!(graph.tensor(y).size, [6, 1]);
//! let scaled = OpCall::new("add").with_number("alpha", 2.0);
//! assert_eq!(scaled.attributes()["alpha"], 2.0);
//! # Ok::<(), zellige_graph::GraphError>(())
//! ```

use serde_json::{Map, Value};
use std::borrow::Cow;
use zellige_float::Dtype;

/// The name of an operation or a view, and its attributes. Whether they fit each other and the operands is checked when
/// the call is added to a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct OpCall {
    name: Cow<'static, str>,
    attributes: Map<String, Value>,
}

/// An operation without attributes, by its name.
impl From<&'static str> for OpCall {
    fn from(name: &'static str) -> OpCall {
        OpCall::new(name)
    }
}

/// A dimension by its number; negative numbers count from the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DimNumber(i64);

impl From<i64> for DimNumber {
    fn from(dim: i64) -> DimNumber {
        DimNumber(dim)
    }
}

impl From<i32> for DimNumber {
    fn from(dim: i32) -> DimNumber {
        DimNumber(dim.into())
    }
}

impl From<usize> for DimNumber {
    fn from(dim: usize) -> DimNumber {
        // No tensor has so many dimensions: a number that does not fit is refused as any other that is too large.
        DimNumber(i64::try_from(dim).unwrap_or(i64::MAX))
    }
}

impl OpCall {
    /// An operation without attributes.
    pub fn new(name: impl Into<Cow<'static, str>>) -> OpCall {
        OpCall { name: name.into(), attributes: Map::new() }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The attributes in the order in which they were given.
    pub fn attributes(&self) -> &Map<String, Value> {
        &self.attributes
    }

    /// The same with one attribute more: an integer, a truth value, a word, or a list. Fractions and infinities have
    /// [`OpCall::with_number`].
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> OpCall {
        self.attributes.insert(name.into(), value.into());
        self
    }

    /// The same with a number that may be infinite or none.
    #[must_use]
    pub fn with_number(self, name: &str, value: f64) -> OpCall {
        // JSON has no such numbers, and serde_json writes `null` for them, which would be an attribute that is not
        // there.
        match value {
            f64::INFINITY => self.with(name, "inf"),
            f64::NEG_INFINITY => self.with(name, "-inf"),
            x if x.is_nan() => self.with(name, "nan"),
            x => self.with(name, x),
        }
    }

    fn with_dim(self, name: &str, dim: impl Into<DimNumber>) -> OpCall {
        self.with(name, dim.into().0)
    }

    fn with_list(self, name: &str, list: impl AsRef<[i64]>) -> OpCall {
        self.with(name, list.as_ref())
    }

    /// Two dimensions change places.
    pub fn transpose(dim0: impl Into<DimNumber>, dim1: impl Into<DimNumber>) -> OpCall {
        OpCall::new("transpose").with_dim("dim0", dim0).with_dim("dim1", dim1)
    }

    /// Dimension `k` of the result is dimension `dims[k]` of the operand.
    pub fn permute<D: Into<DimNumber>>(dims: impl IntoIterator<Item = D>) -> OpCall {
        OpCall::new("permute").with("dims", collect_dims(dims))
    }

    /// The same elements in other extents; a copy where no view has them.
    pub fn reshape(size: impl AsRef<[i64]>) -> OpCall {
        OpCall::new("reshape").with_list("size", size)
    }

    /// The same elements in other extents.
    pub fn view(size: impl AsRef<[i64]>) -> OpCall {
        OpCall::new("view").with_list("size", size)
    }

    /// Dimensions of one element repeated up to these extents.
    pub fn expand(size: impl AsRef<[i64]>) -> OpCall {
        OpCall::new("expand").with_list("size", size)
    }

    /// The indices `start..end` of a dimension.
    pub fn slice(dim: impl Into<DimNumber>, start: i64, end: i64) -> OpCall {
        OpCall::new("slice").with_dim("dim", dim).with("start", start).with("end", end)
    }

    /// Every `step`-th of the indices `start..end` of a dimension.
    pub fn slice_by(dim: impl Into<DimNumber>, start: i64, end: i64, step: i64) -> OpCall {
        OpCall::slice(dim, start, end).with("step", step)
    }

    /// One index of a dimension, which the result does not have.
    pub fn select(dim: impl Into<DimNumber>, index: i64) -> OpCall {
        OpCall::new("select").with_dim("dim", dim).with("index", index)
    }

    /// A dimension of one element more.
    pub fn unsqueeze(dim: impl Into<DimNumber>) -> OpCall {
        OpCall::new("unsqueeze").with_dim("dim", dim)
    }

    /// A dimension of one element less.
    pub fn squeeze(dim: impl Into<DimNumber>) -> OpCall {
        OpCall::new("squeeze").with_dim("dim", dim)
    }

    /// Tensors one behind the other along a dimension.
    pub fn cat(dim: impl Into<DimNumber>) -> OpCall {
        OpCall::new("cat").with_dim("dim", dim)
    }

    /// Tensors one behind the other along a dimension of its own.
    pub fn stack(dim: impl Into<DimNumber>) -> OpCall {
        OpCall::new("stack").with_dim("dim", dim)
    }

    /// The reverse along these dimensions.
    pub fn flip<D: Into<DimNumber>>(dims: impl IntoIterator<Item = D>) -> OpCall {
        OpCall::new("flip").with("dims", collect_dims(dims))
    }

    /// Elements around a tensor: before and behind the last dimension, then of the one before it, as in PyTorch.
    pub fn pad(around: impl AsRef<[i64]>, value: f64) -> OpCall {
        OpCall::new("pad").with_list("pad", around).with_number("value", value)
    }

    /// A reduction (`sum`, `mean`, `amax` ...) along some dimensions, which the result has as one element where they
    /// are kept.
    pub fn reduce<D: Into<DimNumber>>(
        name: &'static str,
        dims: impl IntoIterator<Item = D>,
        keep: bool,
    ) -> OpCall {
        OpCall::new(name).with("dim", collect_dims(dims)).with("keepdim", keep)
    }

    /// The reduction along one dimension of an operation that takes no list of them.
    pub fn reduce_dim(name: &'static str, dim: impl Into<DimNumber>, keep: bool) -> OpCall {
        OpCall::new(name).with_dim("dim", dim).with("keepdim", keep)
    }

    /// The elements in another dtype.
    pub fn cast(dtype: Dtype) -> OpCall {
        OpCall::new("cast").with("dtype", dtype.to_string())
    }

    /// The `k` largest or smallest elements along a dimension, and their indices.
    pub fn topk(k: i64, dim: impl Into<DimNumber>, largest: bool) -> OpCall {
        OpCall::new("topk").with("k", k).with_dim("dim", dim).with("largest", largest)
    }
}

fn collect_dims<D: Into<DimNumber>>(dims: impl IntoIterator<Item = D>) -> Vec<i64> {
    dims.into_iter().map(|d| d.into().0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zellige_op::TensorOp;

    #[test]
    fn calls_have_the_attributes_that_rows_and_views_take() {
        let views = [
            OpCall::transpose(0, -1),
            OpCall::permute([1usize, 0]),
            OpCall::reshape([2, 3]),
            OpCall::view([2, 3]),
            OpCall::expand(vec![2, 3]),
            OpCall::slice(0, 0, 2),
            OpCall::slice_by(0, 0, 2, 1),
            OpCall::select(0, 1),
            OpCall::unsqueeze(-2),
            OpCall::squeeze(0),
        ];
        for call in views {
            let (_, known) = crate::VIEW_OPS.iter().find(|(n, _)| *n == call.name()).unwrap();
            assert!(call.attributes().keys().all(|k| known.contains(&k.as_str())), "{call:?}");
        }
        let rows = [
            OpCall::cat(0),
            OpCall::stack(0),
            OpCall::flip([0]),
            OpCall::pad([1, 2], f64::NEG_INFINITY),
            OpCall::reduce("sum", [0, -1], true),
            OpCall::reduce_dim("argmax", -1, false),
            OpCall::cast(Dtype::Int64),
            OpCall::topk(2, -1, true),
            OpCall::from("mul"),
        ];
        for call in rows {
            let attributes = Value::Object(call.attributes().clone());
            assert!(TensorOp::new(call.name(), &attributes).is_ok(), "{call:?}");
        }
    }

    #[test]
    fn numbers_that_json_has_not_are_words() {
        let words =
            |x: f64| OpCall::new("add").with_number("alpha", x).attributes()["alpha"].clone();
        assert_eq!(words(f64::INFINITY), json!("inf"));
        assert_eq!(words(f64::NEG_INFINITY), json!("-inf"));
        assert_eq!(words(f64::NAN), json!("nan"));
        assert_eq!(words(0.5), json!(0.5));
    }
}
