//! Memory, and what cores tell each other.

use super::Builder;
use crate::affine::{Expr, Map, Set};
use crate::ir::{Attr, Space, Value};
use crate::op::Kind;
use crate::types::{Elem, Type};

/// A subscript of an indirect access tile, over its variables and captured values.
#[derive(Debug, Clone)]
pub enum Subscript {
    /// An expression.
    Direct(Expr),
    /// What an index view holds at these coordinates.
    Through(Value, Vec<Expr>),
}

impl Builder {
    /// `ktdp.get_compute_tile_id`: the first `rank` coordinates in the grid.
    pub fn tile_id(&mut self, rank: usize) -> Vec<Value> {
        self.op(Kind::TileId, &[], vec![Type::INDEX; rank], vec![], vec![], "pid")
    }

    /// `ktdp.construct_memory_view` of numbers, with the whole shape as its coordinates.
    pub fn memory_view(
        &mut self,
        ptr: Value,
        sizes: &[i64],
        strides: &[i64],
        elem: Elem,
        space: Space,
    ) -> Value {
        self.partition(ptr, sizes, strides, elem, space, Set::boxed(sizes))
    }

    /// `ktdp.construct_memory_view` of a part of something larger, at these coordinates of it.
    pub fn partition(
        &mut self,
        ptr: Value,
        sizes: &[i64],
        strides: &[i64],
        elem: Elem,
        space: Space,
        coordinates: Set,
    ) -> Value {
        let ty = Type::MemRef(sizes.iter().map(|n| Some(*n)).collect(), elem);
        let attrs = vec![
            ("sizes", Attr::Ints(sizes.to_vec())),
            ("strides", Attr::Ints(strides.to_vec())),
            ("coordinate_set", Attr::Set(coordinates)),
            ("memory_space", Attr::Space(space)),
        ];
        self.one(Kind::MemoryView, &[ptr], ty, attrs, "view")
    }

    /// `ktdp.construct_distributed_memory_view`.
    pub fn distributed_view(&mut self, parts: &[Value], shape: &[i64]) -> Value {
        let elem = parts.first().and_then(|v| self.ty(*v).elem()).unwrap_or(Elem::Index);
        let ty = Type::MemRef(shape.iter().map(|n| Some(*n)).collect(), elem);
        self.one(Kind::DistributedView, parts, ty, vec![], "view")
    }

    /// `ktdp.construct_access_tile`: a box of these extents at these coordinates, row by row.
    pub fn access_tile(&mut self, view: Value, at: &[Value], extents: &[i64]) -> Value {
        let exprs: Vec<Expr> = (0..at.len()).map(Expr::dim).collect();
        let order = Map::identity(extents.len());
        self.access_tile_at(view, at, &exprs, extents, Set::boxed(extents), order)
    }

    /// `ktdp.construct_access_tile` at expressions of values: dimension `i` of them is `values[i]`.
    pub fn access_tile_at(
        &mut self,
        view: Value,
        values: &[Value],
        at: &[Expr],
        shape: &[i64],
        set: Set,
        order: Map,
    ) -> Value {
        let (used, exprs) = compact(0, values, at.iter());
        let indices = map_of(used.len(), exprs);
        let attrs = vec![
            ("indices", Attr::Map(indices)),
            ("access_tile_set", Attr::Set(set)),
            ("access_tile_order", Attr::Map(order)),
        ];
        let operands = [vec![view], used].concat();
        let ty = Type::AccessTile(shape.to_vec());
        self.one(Kind::AccessTile, &operands, ty, attrs, "tile")
    }

    /// `ktdp.construct_indirect_access_tile`: dimension `i` of a subscript is variable `i` of the
    /// `set`, and after the variables come the captured `values`.
    pub fn indirect_tile(
        &mut self,
        view: Value,
        subscripts: &[Subscript],
        values: &[Value],
        shape: &[i64],
        set: Set,
        order: Map,
    ) -> Value {
        let variables = set.dims();
        let all = subscripts.iter().flat_map(|s| match s {
            Subscript::Direct(e) => std::slice::from_ref(e),
            Subscript::Through(_, list) => list,
        });
        let (used, exprs) = compact(variables, values, all);
        let mut exprs = exprs.into_iter();
        let dims = variables + used.len();
        let (mut maps, mut flags, mut sources) = (Vec::new(), Vec::new(), Vec::new());
        for s in subscripts {
            let n = if let Subscript::Through(view, list) = s {
                sources.push(*view);
                list.len()
            } else {
                1
            };
            flags.push(i64::from(matches!(s, Subscript::Through(..))));
            maps.push(map_of(dims, exprs.by_ref().take(n).collect()));
        }
        let names: Vec<String> = (0..variables).map(|_| self.unique("m")).collect();
        let attrs = vec![
            ("variables", Attr::Words(names)),
            ("indirect", Attr::Ints(flags)),
            ("subscripts", Attr::Maps(maps)),
            ("variables_space_set", Attr::Set(set)),
            ("variables_space_order", Attr::Map(order)),
        ];
        let operands = [vec![view], sources, used].concat();
        let ty = Type::AccessTile(shape.to_vec());
        self.one(Kind::IndirectTile, &operands, ty, attrs, "tile")
    }

    /// `ktdp.load` of a whole tile, with its shape.
    pub fn load(&mut self, tile: Value) -> Value {
        let shape = self.ty(tile).shape().unwrap_or(&[]).to_vec();
        self.load_as(tile, &shape)
    }

    /// `ktdp.load` into another shape of as many elements.
    pub fn load_as(&mut self, tile: Value, shape: &[i64]) -> Value {
        let made = self.blocks.iter().flatten().find(|op| op.results().contains(&tile));
        let elem = made.and_then(|op| op.operands().first()).and_then(|v| self.ty(*v).elem());
        let ty = Type::tensor(shape, elem.unwrap_or(Elem::Index));
        self.one(Kind::Load, &[tile], ty, vec![], "load")
    }

    /// `ktdp.store`.
    pub fn store(&mut self, data: Value, tile: Value) {
        self.op(Kind::Store, &[data, tile], vec![], vec![], vec![], "");
    }

    /// `ktdp.inter_tile_produce`: the cores `tiles` (a set `(i)[g]`) of each of `groups` contribute
    /// what `f` gives for their group.
    pub fn produce(
        &mut self,
        tiles: Set,
        groups: Set,
        f: impl FnOnce(&mut Builder, Value) -> Vec<Value>,
    ) -> Value {
        let gid = self.value("gid", Type::INDEX);
        let block = self.block(vec![gid], Kind::YieldPartial, |b| f(b, gid));
        let given = block.ops.last().map_or(&[][..], |end| end.operands());
        let types = given.iter().map(|v| self.ty(*v).clone()).collect();
        let attrs = vec![("producer_tiles_per_group", Attr::Set(tiles))];
        let ty = Type::TileFuture(types, Some(groups));
        self.op(Kind::Produce, &[], vec![ty], attrs, vec![block], "future")[0]
    }

    /// `ktdp.inter_tile_reduce`: every core of `tiles` gets the partials of its group combined by `f`,
    /// which takes two partials of each role and gives one.
    pub fn inter_tile_reduce(
        &mut self,
        future: Value,
        tiles: Set,
        identity: &[Value],
        f: impl FnOnce(&mut Builder, &[Value], &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let types: Vec<Type> = match self.ty(future) {
            Type::TileFuture(types, _) => types.clone(),
            _ => Vec::new(),
        };
        let mut side = |stem: &str| -> Vec<Value> {
            types.iter().map(|t| self.value(stem, t.clone())).collect()
        };
        let (lhs, rhs) = (side("lhs"), side("rhs"));
        let args = [lhs.clone(), rhs.clone()].concat();
        let block = self.block(args, Kind::YieldReduced, |b| f(b, &lhs, &rhs));
        let operands = [vec![future], identity.to_vec()].concat();
        let attrs = vec![("consumer_tiles_per_group", Attr::Set(tiles))];
        self.op(Kind::InterReduce, &operands, types, attrs, vec![block], "reduced")
    }

    /// `ktdp.inter_tile_consume`: every core of `tiles` gets the partials of its group's producer.
    pub fn inter_tile_consume(&mut self, future: Value, tiles: Set) -> Vec<Value> {
        let types: Vec<Type> = match self.ty(future) {
            Type::TileFuture(types, _) => types.clone(),
            _ => Vec::new(),
        };
        let attrs = vec![("consumer_tiles_per_group", Attr::Set(tiles))];
        self.op(Kind::Consume, &[future], types, attrs, vec![], "received")
    }

    /// `ktdp.inter_tile_gather`: every core of `tiles` gets the partials of its group joined along
    /// a dimension.
    pub fn inter_tile_gather(
        &mut self,
        future: Value,
        tiles: Set,
        dim: i64,
        results: &[Type],
    ) -> Vec<Value> {
        let attrs = vec![
            ("consumer_tiles_per_group", Attr::Set(tiles)),
            ("gather_dimensions", Attr::Ints(vec![dim])),
        ];
        self.op(Kind::Gather, &[future], results.to_vec(), attrs, vec![], "gathered")
    }
}

/// Values in the order in which expressions first mention them, each once, as texts are read.
fn compact<'e>(
    fixed: usize,
    values: &[Value],
    exprs: impl Iterator<Item = &'e Expr>,
) -> (Vec<Value>, Vec<Expr>) {
    let mut used: Vec<Value> = Vec::new();
    let exprs = exprs
        .map(|e| {
            e.renamed(&mut |d| {
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

/// A map; one that mentions what is not there is left for the verifier to refuse.
fn map_of(dims: usize, exprs: Vec<Expr>) -> Map {
    Map::new(dims, 0, exprs).unwrap_or_else(|_| Map::identity(0))
}
