//! Builds operations that make, reshape, reduce and multiply tiles.

use super::{KtirBuilder, op_name_tail};
use crate::affine::KtirAffineMap;
use crate::ir::{KtirAttr, KtirValue};
use crate::op::KtirOpKind;
use crate::types::{KtirElem, KtirType};

impl KtirBuilder {
    /// `tensor.empty`.
    pub fn empty_tile(&mut self, shape: &[i64], elem: KtirElem) -> KtirValue {
        self.add_single_result_op(
            KtirOpKind::TensorEmpty,
            &[],
            KtirType::tensor(shape, elem),
            vec![],
            "empty",
        )
    }

    /// `tensor.splat`: a tile with one value everywhere.
    pub fn splat_tile(&mut self, value: KtirValue, shape: &[i64]) -> KtirValue {
        let elem = self.value_type(value).elem().unwrap_or(KtirElem::Index);
        self.add_single_result_op(
            KtirOpKind::Splat,
            &[value],
            KtirType::tensor(shape, elem),
            vec![],
            "splat",
        )
    }

    /// `tensor.extract`.
    pub fn extract_element(&mut self, tile: KtirValue, at: &[KtirValue]) -> KtirValue {
        let ty = KtirType::Scalar(self.value_type(tile).elem().unwrap_or(KtirElem::Index));
        let operands = [vec![tile], at.to_vec()].concat();
        self.add_single_result_op(KtirOpKind::Extract, &operands, ty, vec![], "extract")
    }

    /// `tensor.expand_shape` or `tensor.collapse_shape`, depending on the ranks of the tile and the
    /// shape.
    pub fn reassociate_tile(
        &mut self,
        tile: KtirValue,
        groups: &[Vec<i64>],
        shape: &[i64],
    ) -> KtirValue {
        let (rank, elem) = match self.value_type(tile) {
            KtirType::Tensor(shape, elem) => (shape.len(), *elem),
            _ => (0, KtirElem::Index),
        };
        let kind =
            // Equal ranks are an expansion with one dimension per group, which changes nothing.
            if shape.len() >= rank { KtirOpKind::ExpandShape } else { KtirOpKind::CollapseShape };
        let attrs = vec![("reassociation", KtirAttr::Groups(groups.to_vec()))];
        self.add_single_result_op(kind, &[tile], KtirType::tensor(shape, elem), attrs, "reshaped")
    }

    /// Reshapes a tile, in row-major order: by one `tensor.expand_shape` or
    /// `tensor.collapse_shape`, by both where neither suffices alone, and by none where the shape
    /// stays the same.
    pub fn reshape_tile(&mut self, tile: KtirValue, shape: &[i64]) -> KtirValue {
        let from = self.value_type(tile).shape().unwrap_or(&[]).to_vec();
        if from == shape {
            return tile;
        }
        let (long, short) =
            if from.len() > shape.len() { (&from[..], shape) } else { (shape, &from[..]) };
        // One operation suffices where every dimension of the shorter shape is a product of
        // neighbouring dimensions of the longer one. Different shapes of equal rank need both
        // operations, because each of them changes the rank.
        if long.len() > short.len()
            && let Some(groups) = group_dimensions(long, short)
        {
            return self.reassociate_tile(tile, &groups, shape);
        }
        let all =
            |rank: usize| vec![(0..rank).map(|d| i64::try_from(d).unwrap_or(i64::MAX)).collect()];
        // Any two shapes of equally many elements collapse to the same flat one.
        let flat = [from.iter().product()];
        let flat = self.reassociate_tile(tile, &all(from.len()), &flat);
        self.reassociate_tile(flat, &all(shape.len()), shape)
    }

    /// `tensor.extract_slice` at constant offsets, with stride 1.
    pub fn extract_slice(&mut self, tile: KtirValue, offsets: &[i64], sizes: &[i64]) -> KtirValue {
        let elem = self.value_type(tile).elem().unwrap_or(KtirElem::Index);
        let attrs = slice_attributes(offsets, sizes);
        self.add_single_result_op(
            KtirOpKind::ExtractSlice,
            &[tile],
            KtirType::tensor(sizes, elem),
            attrs,
            "slice",
        )
    }

    /// `tensor.insert_slice` at constant offsets, with stride 1.
    pub fn insert_slice(&mut self, part: KtirValue, into: KtirValue, offsets: &[i64]) -> KtirValue {
        let sizes = self.value_type(part).shape().unwrap_or(&[]).to_vec();
        let ty = self.value_type(into).clone();
        self.add_single_result_op(
            KtirOpKind::InsertSlice,
            &[part, into],
            ty,
            slice_attributes(offsets, &sizes),
            "inserted",
        )
    }

    /// `tensor.concat`.
    pub fn concat_tiles(&mut self, dim: usize, parts: &[KtirValue], shape: &[i64]) -> KtirValue {
        let elem =
            parts.first().and_then(|v| self.value_type(*v).elem()).unwrap_or(KtirElem::Index);
        let attrs = vec![("dim", KtirAttr::Int(i64::try_from(dim).unwrap_or(i64::MAX)))];
        self.add_single_result_op(
            KtirOpKind::Concat,
            parts,
            KtirType::tensor(shape, elem),
            attrs,
            "concat",
        )
    }

    /// A named operation `ins(..) outs(..)`: `linalg.add`, `linalg.matmul`, `linalg.fill`.
    pub fn structured_op(
        &mut self,
        kind: KtirOpKind,
        inputs: &[KtirValue],
        output: KtirValue,
    ) -> KtirValue {
        let ty = self.value_type(output).clone();
        let operands = [inputs.to_vec(), vec![output]].concat();
        self.add_single_result_op(kind, &operands, ty, vec![], op_name_tail(kind))
    }

    /// `linalg.matmul` added to `output`.
    pub fn matmul(&mut self, a: KtirValue, b: KtirValue, output: KtirValue) -> KtirValue {
        self.structured_op(KtirOpKind::Matmul, &[a, b], output)
    }

    /// `linalg.reduce` over dimensions with a combiner of two elements, starting from `init`.
    pub fn reduce_tile(
        &mut self,
        combiner: KtirOpKind,
        tile: KtirValue,
        init: KtirValue,
        dims: &[i64],
    ) -> KtirValue {
        let ty = self.value_type(init).clone();
        let attrs = vec![
            ("inputs", KtirAttr::Int(1)),
            ("dimensions", KtirAttr::Ints(dims.to_vec())),
            ("combiner", KtirAttr::Word(combiner.name().into())),
        ];
        self.add_single_result_op(KtirOpKind::Reduce, &[tile, init], ty, attrs, "reduced")
    }

    /// `linalg.broadcast` into a shape that has the additional dimensions `dims`.
    pub fn broadcast_tile(&mut self, tile: KtirValue, shape: &[i64], dims: &[i64]) -> KtirValue {
        let elem = self.value_type(tile).elem().unwrap_or(KtirElem::Index);
        // Destination-passing style: the operation needs an output of the right shape, whose
        // contents it ignores.
        let out = self.empty_tile(shape, elem);
        let attrs = vec![("dimensions", KtirAttr::Ints(dims.to_vec()))];
        self.add_single_result_op(
            KtirOpKind::Broadcast,
            &[tile, out],
            KtirType::tensor(shape, elem),
            attrs,
            "broadcasted",
        )
    }

    /// `linalg.transpose`: dimension `i` of the result is dimension `permutation[i]` of the tile.
    pub fn transpose_tile(&mut self, tile: KtirValue, permutation: &[i64]) -> KtirValue {
        let (shape, elem) = match self.value_type(tile) {
            KtirType::Tensor(shape, elem) => (shape.clone(), *elem),
            _ => (Vec::new(), KtirElem::Index),
        };
        // A dimension that does not exist gets size 0 here, and the verifier refuses the
        // permutation.
        let size = |d: &i64| usize::try_from(*d).ok().and_then(|d| shape.get(d)).copied();
        let to: Vec<i64> = permutation.iter().map(|d| size(d).unwrap_or(0)).collect();
        let out = self.empty_tile(&to, elem);
        let attrs = vec![("permutation", KtirAttr::Ints(permutation.to_vec()))];
        self.add_single_result_op(
            KtirOpKind::Transpose,
            &[tile, out],
            KtirType::tensor(&to, elem),
            attrs,
            "transposed",
        )
    }

    /// `linalg.generic`: `f` gets an element of every operand and returns one for every output.
    pub fn generic_op(
        &mut self,
        maps: &[KtirAffineMap],
        iterators: &[&str],
        inputs: &[KtirValue],
        outputs: &[KtirValue],
        f: impl FnOnce(&mut KtirBuilder, &[KtirValue]) -> Vec<KtirValue>,
    ) -> Vec<KtirValue> {
        let operands = [inputs.to_vec(), outputs.to_vec()].concat();
        let elems: Vec<KtirElem> = operands
            .iter()
            .map(|v| self.value_type(*v).elem().unwrap_or(KtirElem::Index))
            .collect();
        let args: Vec<KtirValue> =
            elems.into_iter().map(|e| self.add_value("x", KtirType::Scalar(e))).collect();
        let block = self.build_block(args.clone(), KtirOpKind::LinalgYield, |b| f(b, &args));
        let types = outputs.iter().map(|v| self.value_type(*v).clone()).collect();
        let attrs = vec![
            ("inputs", KtirAttr::Int(i64::try_from(inputs.len()).unwrap_or(i64::MAX))),
            ("indexing_maps", KtirAttr::Maps(maps.to_vec())),
            (
                "iterator_types",
                KtirAttr::Words(iterators.iter().map(ToString::to_string).collect()),
            ),
        ];
        self.add_op(KtirOpKind::Generic, &operands, types, attrs, vec![block], "generic")
    }

    /// `linalg.index`, in the body of a generic.
    pub fn loop_index(&mut self, dim: i64) -> KtirValue {
        self.add_single_result_op(
            KtirOpKind::LinalgIndex,
            &[],
            KtirType::INDEX,
            vec![("dim", KtirAttr::Int(dim))],
            "at",
        )
    }
}

/// Finds which neighbouring dimensions of `long` make up each dimension of `short`.
fn group_dimensions(long: &[i64], short: &[i64]) -> Option<Vec<Vec<i64>>> {
    let mut next = 0;
    let mut groups: Vec<Vec<i64>> = Vec::with_capacity(short.len());
    for size in short {
        let (mut group, mut product) = (Vec::new(), 1_i64);
        // Greedy grouping is right because the products are fixed from the left; `group.is_empty()`
        // lets a dimension of size 1 take a dimension of its own.
        while group.is_empty() || product != *size {
            product = product.checked_mul(*long.get(next)?)?;
            group.push(i64::try_from(next).ok()?);
            next += 1;
        }
        groups.push(group);
    }
    // The remaining dimensions have size 1, or the two shapes have different numbers of elements.
    let rest = next..long.len();
    if long[rest.clone()].iter().any(|n| *n != 1) {
        return None;
    }
    groups.last_mut()?.extend(rest.filter_map(|d| i64::try_from(d).ok()));
    Some(groups)
}

fn slice_attributes(offsets: &[i64], sizes: &[i64]) -> Vec<(&'static str, KtirAttr)> {
    vec![
        ("offsets", KtirAttr::Ints(offsets.to_vec())),
        ("sizes", KtirAttr::Ints(sizes.to_vec())),
        ("strides", KtirAttr::Ints(vec![1; sizes.len()])),
    ]
}
