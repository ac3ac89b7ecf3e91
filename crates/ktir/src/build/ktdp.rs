//! Builds memory accesses and exchanges between cores.

use super::KtirBuilder;
use crate::affine::{KtirAffineExpr, KtirAffineMap, KtirAffineSet};
use crate::ir::{KtirAttr, KtirMemorySpace, KtirValue};
use crate::op::KtirOpKind;
use crate::types::{KtirElem, KtirType};

/// A subscript of an indirect access tile, over its variables and captured values.
#[derive(Debug, Clone)]
pub enum KtirSubscript {
    /// An expression.
    Direct(KtirAffineExpr),
    /// The element of an index view at these coordinates.
    Through(KtirValue, Vec<KtirAffineExpr>),
}

impl KtirBuilder {
    /// `ktdp.get_compute_tile_id`: the first `rank` coordinates in the grid.
    pub fn tile_id(&mut self, rank: usize) -> Vec<KtirValue> {
        self.add_op(KtirOpKind::TileId, &[], vec![KtirType::INDEX; rank], vec![], vec![], "pid")
    }

    /// `ktdp.construct_memory_view` with constant sizes and strides, and the whole shape as its
    /// coordinate set.
    pub fn memory_view(
        &mut self,
        ptr: KtirValue,
        sizes: &[i64],
        strides: &[i64],
        elem: KtirElem,
        space: KtirMemorySpace,
    ) -> KtirValue {
        self.partition_view(ptr, sizes, strides, elem, space, KtirAffineSet::from_extents(sizes))
    }

    /// `ktdp.construct_memory_view` of a partition of a distributed view, with its coordinates
    /// there.
    pub fn partition_view(
        &mut self,
        ptr: KtirValue,
        sizes: &[i64],
        strides: &[i64],
        elem: KtirElem,
        space: KtirMemorySpace,
        coordinates: KtirAffineSet,
    ) -> KtirValue {
        let ty = KtirType::MemRef(sizes.iter().map(|n| Some(*n)).collect(), elem);
        let attrs = vec![
            ("sizes", KtirAttr::Ints(sizes.to_vec())),
            ("strides", KtirAttr::Ints(strides.to_vec())),
            ("coordinate_set", KtirAttr::Set(coordinates)),
            ("memory_space", KtirAttr::Space(space)),
        ];
        self.add_single_result_op(KtirOpKind::MemoryView, &[ptr], ty, attrs, "view")
    }

    /// `ktdp.construct_distributed_memory_view`.
    pub fn distributed_view(&mut self, parts: &[KtirValue], shape: &[i64]) -> KtirValue {
        let elem =
            parts.first().and_then(|v| self.value_type(*v).elem()).unwrap_or(KtirElem::Index);
        let ty = KtirType::MemRef(shape.iter().map(|n| Some(*n)).collect(), elem);
        self.add_single_result_op(KtirOpKind::DistributedView, parts, ty, vec![], "view")
    }

    /// `ktdp.construct_access_tile`: a box of these extents at these coordinates, row by row.
    pub fn access_tile(&mut self, view: KtirValue, at: &[KtirValue], extents: &[i64]) -> KtirValue {
        let exprs: Vec<KtirAffineExpr> = (0..at.len()).map(KtirAffineExpr::dim).collect();
        // The identity could be left out, but upstream's texts always have an order.
        let order = KtirAffineMap::identity(extents.len());
        self.access_tile_at(view, at, &exprs, extents, KtirAffineSet::from_extents(extents), order)
    }

    /// `ktdp.construct_access_tile` at expressions of values: dimension `i` of them is `values[i]`.
    pub fn access_tile_at(
        &mut self,
        view: KtirValue,
        values: &[KtirValue],
        at: &[KtirAffineExpr],
        shape: &[i64],
        set: KtirAffineSet,
        order: KtirAffineMap,
    ) -> KtirValue {
        // The reader numbers values by their first mention in the text. Building with the same
        // numbering keeps `parse(print(m)) == m` whatever order the caller listed the values in.
        let (used, exprs) = compact_mentions(0, values, at.iter());
        let indices = build_map(used.len(), exprs);
        let attrs = vec![
            ("indices", KtirAttr::Map(indices)),
            ("access_tile_set", KtirAttr::Set(set)),
            ("access_tile_order", KtirAttr::Map(order)),
        ];
        let operands = [vec![view], used].concat();
        let ty = KtirType::AccessTile(shape.to_vec());
        self.add_single_result_op(KtirOpKind::AccessTile, &operands, ty, attrs, "tile")
    }

    /// `ktdp.construct_indirect_access_tile`: dimension `i` of a subscript is variable `i` of the
    /// `set`, and after the variables come the captured `values`.
    pub fn indirect_tile(
        &mut self,
        view: KtirValue,
        subscripts: &[KtirSubscript],
        values: &[KtirValue],
        shape: &[i64],
        set: KtirAffineSet,
        order: KtirAffineMap,
    ) -> KtirValue {
        let variables = set.dims();
        let all = subscripts.iter().flat_map(|s| match s {
            KtirSubscript::Direct(e) => std::slice::from_ref(e),
            KtirSubscript::Through(_, list) => list,
        });
        let (used, exprs) = compact_mentions(variables, values, all);
        let mut exprs = exprs.into_iter();
        let dims = variables + used.len();
        let (mut maps, mut flags, mut sources) = (Vec::new(), Vec::new(), Vec::new());
        for s in subscripts {
            let n = if let KtirSubscript::Through(view, list) = s {
                sources.push(*view);
                list.len()
            } else {
                1
            };
            flags.push(i64::from(matches!(s, KtirSubscript::Through(..))));
            maps.push(build_map(dims, exprs.by_ref().take(n).collect()));
        }
        // Variables of an access share the name space of values in the text, and a name that a
        // value has too would be read as that value.
        let names: Vec<String> = (0..variables).map(|_| self.unique_name("m")).collect();
        let attrs = vec![
            ("variables", KtirAttr::Words(names)),
            ("indirect", KtirAttr::Ints(flags)),
            ("subscripts", KtirAttr::Maps(maps)),
            ("variables_space_set", KtirAttr::Set(set)),
            ("variables_space_order", KtirAttr::Map(order)),
        ];
        let operands = [vec![view], sources, used].concat();
        let ty = KtirType::AccessTile(shape.to_vec());
        self.add_single_result_op(KtirOpKind::IndirectTile, &operands, ty, attrs, "tile")
    }

    /// `ktdp.load` of a whole tile, with its shape.
    pub fn load_tile(&mut self, tile: KtirValue) -> KtirValue {
        let shape = self.value_type(tile).shape().unwrap_or(&[]).to_vec();
        self.load_reshaped(tile, &shape)
    }

    /// `ktdp.load` into another shape of as many elements.
    pub fn load_reshaped(&mut self, tile: KtirValue, shape: &[i64]) -> KtirValue {
        // The type of an access tile has no element type; only the view that it was constructed
        // from knows it.
        let made = self.blocks.iter().flatten().find(|op| op.results().contains(&tile));
        let elem =
            made.and_then(|op| op.operands().first()).and_then(|v| self.value_type(*v).elem());
        let ty = KtirType::tensor(shape, elem.unwrap_or(KtirElem::Index));
        self.add_single_result_op(KtirOpKind::Load, &[tile], ty, vec![], "load")
    }

    /// `ktdp.store`.
    pub fn store_tile(&mut self, data: KtirValue, tile: KtirValue) {
        self.add_op(KtirOpKind::Store, &[data, tile], vec![], vec![], vec![], "");
    }

    /// `ktdp.inter_tile_produce`: the cores `tiles` (a set `(i)[g]`) of each of `groups` contribute
    /// the values that `f` returns for their group.
    pub fn inter_tile_produce(
        &mut self,
        tiles: KtirAffineSet,
        groups: KtirAffineSet,
        f: impl FnOnce(&mut KtirBuilder, KtirValue) -> Vec<KtirValue>,
    ) -> KtirValue {
        // The region's argument is the group's number, which the closure may use to choose what it
        // contributes.
        let gid = self.add_value("gid", KtirType::INDEX);
        let block = self.build_block(vec![gid], KtirOpKind::YieldPartial, |b| f(b, gid));
        let given = block.ops.last().map_or(&[][..], |end| end.operands());
        let types = given.iter().map(|v| self.value_type(*v).clone()).collect();
        let attrs = vec![("producer_tiles_per_group", KtirAttr::Set(tiles))];
        let ty = KtirType::TileFuture(types, Some(groups));
        self.add_op(KtirOpKind::Produce, &[], vec![ty], attrs, vec![block], "future")[0]
    }

    /// `ktdp.inter_tile_reduce`: every core of `tiles` gets the partials of its group combined by
    /// `f`, which combines two partials of each role into one.
    pub fn inter_tile_reduce(
        &mut self,
        future: KtirValue,
        tiles: KtirAffineSet,
        identity: &[KtirValue],
        f: impl FnOnce(&mut KtirBuilder, &[KtirValue], &[KtirValue]) -> Vec<KtirValue>,
    ) -> Vec<KtirValue> {
        let types: Vec<KtirType> = match self.value_type(future) {
            KtirType::TileFuture(types, _) => types.clone(),
            _ => Vec::new(),
        };
        let mut side = |stem: &str| -> Vec<KtirValue> {
            types.iter().map(|t| self.add_value(stem, t.clone())).collect()
        };
        let (lhs, rhs) = (side("lhs"), side("rhs"));
        let args = [lhs.clone(), rhs.clone()].concat();
        let block = self.build_block(args, KtirOpKind::YieldReduced, |b| f(b, &lhs, &rhs));
        let operands = [vec![future], identity.to_vec()].concat();
        let attrs = vec![("consumer_tiles_per_group", KtirAttr::Set(tiles))];
        self.add_op(KtirOpKind::InterReduce, &operands, types, attrs, vec![block], "reduced")
    }

    /// `ktdp.inter_tile_consume`: every core of `tiles` gets the partials of its group's producer.
    pub fn inter_tile_consume(
        &mut self,
        future: KtirValue,
        tiles: KtirAffineSet,
    ) -> Vec<KtirValue> {
        let types: Vec<KtirType> = match self.value_type(future) {
            KtirType::TileFuture(types, _) => types.clone(),
            _ => Vec::new(),
        };
        let attrs = vec![("consumer_tiles_per_group", KtirAttr::Set(tiles))];
        self.add_op(KtirOpKind::Consume, &[future], types, attrs, vec![], "received")
    }

    /// `ktdp.inter_tile_gather`: every core of `tiles` gets the partials of its group joined along
    /// a dimension.
    pub fn inter_tile_gather(
        &mut self,
        future: KtirValue,
        tiles: KtirAffineSet,
        dim: i64,
        results: &[KtirType],
    ) -> Vec<KtirValue> {
        let attrs = vec![
            ("consumer_tiles_per_group", KtirAttr::Set(tiles)),
            ("gather_dimensions", KtirAttr::Ints(vec![dim])),
        ];
        self.add_op(KtirOpKind::Gather, &[future], results.to_vec(), attrs, vec![], "gathered")
    }
}

/// Numbers values in the order in which the expressions first mention them, as the reader of texts
/// does.
fn compact_mentions<'e>(
    fixed: usize,
    values: &[KtirValue],
    exprs: impl Iterator<Item = &'e KtirAffineExpr>,
) -> (Vec<KtirValue>, Vec<KtirAffineExpr>) {
    let mut used: Vec<KtirValue> = Vec::new();
    let exprs = exprs
        .map(|e| {
            e.rename_dims(&mut |d| {
                // Variables of the access come first and keep their numbers; only captured values
                // are renumbered.
                let Some(value) = d.checked_sub(fixed).and_then(|i| values.get(i)) else {
                    return d;
                };
                let at = used.iter().position(|v| v == value).unwrap_or_else(|| {
                    used.push(*value);
                    used.len() - 1
                });
                fixed + at
            })
        })
        .collect();
    (used, exprs)
}

/// Builds a map. An expression with an unknown dimension becomes the empty map, which the verifier
/// refuses.
fn build_map(dims: usize, exprs: Vec<KtirAffineExpr>) -> KtirAffineMap {
    KtirAffineMap::new(dims, 0, exprs).unwrap_or_else(|_| KtirAffineMap::identity(0))
}
