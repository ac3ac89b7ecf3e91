//! Tiles: making, reshaping, reducing, multiplying.

use super::{Builder, tail};
use crate::affine::Map;
use crate::ir::{Attr, Value};
use crate::op::Kind;
use crate::types::{Elem, Type};

impl Builder {
    /// `tensor.empty`.
    pub fn empty(&mut self, shape: &[i64], elem: Elem) -> Value {
        self.one(Kind::TensorEmpty, &[], Type::tensor(shape, elem), vec![], "empty")
    }

    /// `tensor.splat`: a tile with one value everywhere.
    pub fn splat(&mut self, value: Value, shape: &[i64]) -> Value {
        let elem = self.ty(value).elem().unwrap_or(Elem::Index);
        self.one(Kind::Splat, &[value], Type::tensor(shape, elem), vec![], "splat")
    }

    /// `tensor.extract`.
    pub fn extract(&mut self, tile: Value, at: &[Value]) -> Value {
        let ty = Type::Scalar(self.ty(tile).elem().unwrap_or(Elem::Index));
        let operands = [vec![tile], at.to_vec()].concat();
        self.one(Kind::Extract, &operands, ty, vec![], "extract")
    }

    /// `tensor.expand_shape` or `tensor.collapse_shape`, whichever takes the tile to the shape.
    pub fn reassociate(&mut self, tile: Value, groups: &[Vec<i64>], shape: &[i64]) -> Value {
        let (rank, elem) = match self.ty(tile) {
            Type::Tensor(shape, elem) => (shape.len(), *elem),
            _ => (0, Elem::Index),
        };
        let kind = if shape.len() >= rank { Kind::ExpandShape } else { Kind::CollapseShape };
        let attrs = vec![("reassociation", Attr::Groups(groups.to_vec()))];
        self.one(kind, &[tile], Type::tensor(shape, elem), attrs, "reshaped")
    }

    /// A tile in another shape of as many elements, in row-major order: one `tensor.expand_shape` or
    /// `tensor.collapse_shape`, both where neither does it alone, nothing where the shape is the same.
    pub fn reshape(&mut self, tile: Value, shape: &[i64]) -> Value {
        let from = self.ty(tile).shape().unwrap_or(&[]).to_vec();
        if from == shape {
            return tile;
        }
        let (long, short) =
            if from.len() > shape.len() { (&from[..], shape) } else { (shape, &from[..]) };
        if long.len() > short.len()
            && let Some(groups) = group_dimensions(long, short)
        {
            return self.reassociate(tile, &groups, shape);
        }
        let all =
            |rank: usize| vec![(0..rank).map(|d| i64::try_from(d).unwrap_or(i64::MAX)).collect()];
        let flat = [from.iter().product()];
        let flat = self.reassociate(tile, &all(from.len()), &flat);
        self.reassociate(flat, &all(shape.len()), shape)
    }

    /// `tensor.extract_slice` at numbers, with stride 1.
    pub fn extract_slice(&mut self, tile: Value, offsets: &[i64], sizes: &[i64]) -> Value {
        let elem = self.ty(tile).elem().unwrap_or(Elem::Index);
        let attrs = slice(offsets, sizes);
        self.one(Kind::ExtractSlice, &[tile], Type::tensor(sizes, elem), attrs, "slice")
    }

    /// `tensor.insert_slice` at numbers, with stride 1.
    pub fn insert_slice(&mut self, part: Value, into: Value, offsets: &[i64]) -> Value {
        let sizes = self.ty(part).shape().unwrap_or(&[]).to_vec();
        let ty = self.ty(into).clone();
        self.one(Kind::InsertSlice, &[part, into], ty, slice(offsets, &sizes), "inserted")
    }

    /// `tensor.concat`.
    pub fn concat(&mut self, dim: usize, parts: &[Value], shape: &[i64]) -> Value {
        let elem = parts.first().and_then(|v| self.ty(*v).elem()).unwrap_or(Elem::Index);
        let attrs = vec![("dim", Attr::Int(i64::try_from(dim).unwrap_or(i64::MAX)))];
        self.one(Kind::Concat, parts, Type::tensor(shape, elem), attrs, "concat")
    }

    /// A named operation `ins(..) outs(..)`: `linalg.add`, `linalg.matmul`, `linalg.fill`.
    pub fn structured(&mut self, kind: Kind, inputs: &[Value], output: Value) -> Value {
        let ty = self.ty(output).clone();
        let operands = [inputs.to_vec(), vec![output]].concat();
        self.one(kind, &operands, ty, vec![], tail(kind))
    }

    /// `linalg.matmul` added to `output`.
    pub fn matmul(&mut self, a: Value, b: Value, output: Value) -> Value {
        self.structured(Kind::Matmul, &[a, b], output)
    }

    /// `linalg.reduce` over dimensions by an operation of two elements, beginning with `init`.
    pub fn reduce(&mut self, combiner: Kind, tile: Value, init: Value, dims: &[i64]) -> Value {
        let ty = self.ty(init).clone();
        let attrs = vec![
            ("inputs", Attr::Int(1)),
            ("dimensions", Attr::Ints(dims.to_vec())),
            ("combiner", Attr::Word(combiner.name().into())),
        ];
        self.one(Kind::Reduce, &[tile, init], ty, attrs, "reduced")
    }

    /// `linalg.broadcast` into a shape that has `dims` more than the tile.
    pub fn broadcast(&mut self, tile: Value, shape: &[i64], dims: &[i64]) -> Value {
        let elem = self.ty(tile).elem().unwrap_or(Elem::Index);
        let out = self.empty(shape, elem);
        let attrs = vec![("dimensions", Attr::Ints(dims.to_vec()))];
        self.one(Kind::Broadcast, &[tile, out], Type::tensor(shape, elem), attrs, "broadcasted")
    }

    /// `linalg.transpose`: dimension `i` of the result is dimension `permutation[i]` of the tile.
    pub fn transpose(&mut self, tile: Value, permutation: &[i64]) -> Value {
        let (shape, elem) = match self.ty(tile) {
            Type::Tensor(shape, elem) => (shape.clone(), *elem),
            _ => (Vec::new(), Elem::Index),
        };
        let size = |d: &i64| usize::try_from(*d).ok().and_then(|d| shape.get(d)).copied();
        let to: Vec<i64> = permutation.iter().map(|d| size(d).unwrap_or(0)).collect();
        let out = self.empty(&to, elem);
        let attrs = vec![("permutation", Attr::Ints(permutation.to_vec()))];
        self.one(Kind::Transpose, &[tile, out], Type::tensor(&to, elem), attrs, "transposed")
    }

    /// `linalg.generic`: `f` gets an element of every operand and gives one for every output.
    pub fn generic(
        &mut self,
        maps: &[Map],
        iterators: &[&str],
        inputs: &[Value],
        outputs: &[Value],
        f: impl FnOnce(&mut Builder, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let operands = [inputs.to_vec(), outputs.to_vec()].concat();
        let elems: Vec<Elem> =
            operands.iter().map(|v| self.ty(*v).elem().unwrap_or(Elem::Index)).collect();
        let args: Vec<Value> =
            elems.into_iter().map(|e| self.value("x", Type::Scalar(e))).collect();
        let block = self.block(args.clone(), Kind::LinalgYield, |b| f(b, &args));
        let types = outputs.iter().map(|v| self.ty(*v).clone()).collect();
        let attrs = vec![
            ("inputs", Attr::Int(i64::try_from(inputs.len()).unwrap_or(i64::MAX))),
            ("indexing_maps", Attr::Maps(maps.to_vec())),
            ("iterator_types", Attr::Words(iterators.iter().map(ToString::to_string).collect())),
        ];
        self.op(Kind::Generic, &operands, types, attrs, vec![block], "generic")
    }

    /// `linalg.index`, in the body of a generic.
    pub fn loop_index(&mut self, dim: i64) -> Value {
        self.one(Kind::LinalgIndex, &[], Type::INDEX, vec![("dim", Attr::Int(dim))], "at")
    }
}

/// Which neighbouring dimensions of `long` make up each dimension of `short`.
fn group_dimensions(long: &[i64], short: &[i64]) -> Option<Vec<Vec<i64>>> {
    let mut next = 0;
    let mut groups: Vec<Vec<i64>> = Vec::with_capacity(short.len());
    for size in short {
        let (mut group, mut product) = (Vec::new(), 1_i64);
        while group.is_empty() || product != *size {
            product = product.checked_mul(*long.get(next)?)?;
            group.push(i64::try_from(next).ok()?);
            next += 1;
        }
        groups.push(group);
    }
    // What is left holds one element each, or the numbers of elements would differ.
    let rest = next..long.len();
    if long[rest.clone()].iter().any(|n| *n != 1) {
        return None;
    }
    groups.last_mut()?.extend(rest.filter_map(|d| i64::try_from(d).ok()));
    Some(groups)
}

fn slice(offsets: &[i64], sizes: &[i64]) -> Vec<(&'static str, Attr)> {
    vec![
        ("offsets", Attr::Ints(offsets.to_vec())),
        ("sizes", Attr::Ints(sizes.to_vec())),
        ("strides", Attr::Ints(vec![1; sizes.len()])),
    ]
}
