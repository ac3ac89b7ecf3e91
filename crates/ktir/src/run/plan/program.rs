//! A kernel as a list of steps: values have numbered places, blocks are jumps, and whatever does not depend on the
//! data is computed once.

use super::super::body::map_loops;
use super::super::budget;
use super::super::core::compute_liveness;
use super::super::step::constant_elements;
use super::super::value::{KtirElements, bytes_in_scratchpad, element_count, row_major_strides};
use super::lanes::{LaneBinary, has_tree};
use crate::affine::{KtirAffineMap, KtirAffineSet, KtirSetBounds};
use crate::ir::{DYNAMIC_SIZE, KtirAttr, KtirBlock, KtirFunction, KtirMemorySpace, KtirModule};
use crate::ir::{KtirOp, KtirValue};
use crate::op::{KtirOpForm, KtirOpKind};
use crate::types::{KtirElem, KtirType};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// The largest number of coordinates that a plan keeps for `linalg.index`: they are made once for every thread, before
/// any budget is charged. A kernel with more runs on the plain interpreter.
const MAX_COORDINATES: usize = 1 << 18;

/// Where a value is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Int(u32),
    Float(u32),
    Tile(u32),
    View(u32),
    Access(u32),
    Future(u32),
}

/// The tile that a step makes.
#[derive(Debug, Clone)]
pub(super) struct TileKind {
    pub(super) ty: KtirType,
    pub(super) elem: KtirElem,
    pub(super) len: usize,
    /// Bytes of the scratchpad, in whole sticks.
    pub(super) charge: u64,
    /// The buffers that fit it.
    pub(super) class: u32,
}

/// `constant + sum(k * register)`.
#[derive(Debug, Clone)]
pub(super) struct LinearIndex {
    pub(super) constant: i64,
    pub(super) terms: Vec<(u32, i64)>,
}

impl LinearIndex {
    /// Its value; `None` where it does not fit in 64 bits.
    #[inline]
    pub(super) fn evaluate(&self, ints: &[i64]) -> Option<i64> {
        self.terms.iter().try_fold(self.constant, |sum, (r, k)| {
            sum.checked_add(ints[*r as usize].checked_mul(*k)?)
        })
    }
}

/// An operation on each element.
#[derive(Debug, Clone)]
pub(super) struct Pointwise {
    pub(super) kind: KtirOpKind,
    pub(super) predicate: String,
    pub(super) from: KtirElem,
    pub(super) to: KtirElem,
}

/// An operand of an operation in a body.
#[derive(Debug, Clone, Copy)]
pub(super) enum BodyOperand {
    Lane(u32),
    Outside(Place),
}

#[derive(Debug, Clone)]
pub(super) enum BodyWork {
    Constant(u32),
    Point(Pointwise),
}

/// An operation in a body.
#[derive(Debug, Clone)]
pub(super) struct BodyStep {
    pub(super) work: BodyWork,
    pub(super) operands: Vec<BodyOperand>,
    pub(super) to: u32,
    /// Buffers that fit its result.
    pub(super) class: u32,
    pub(super) cost: KtirOpKind,
    /// The loops that its result depends on.
    pub(super) loops: BTreeSet<usize>,
}

/// The body of an elementwise operation.
#[derive(Debug, Clone)]
pub(super) struct Body {
    pub(super) steps: Vec<BodyStep>,
    pub(super) lanes: u32,
    pub(super) result: BodyOperand,
    /// Lanes that hold `linalg.index`, and their constants.
    pub(super) indices: Vec<(u32, u32)>,
    pub(super) ops: u64,
}

/// How the combiner of a reduction runs.
#[derive(Debug, Clone)]
pub(super) struct TreeFold {
    pub(super) fast: Option<LaneBinary>,
    pub(super) cost: KtirOpKind,
    /// Outer size, folded size and inner size, one for each folded dimension, in order.
    pub(super) folds: Vec<(usize, usize, usize)>,
}

/// The points of an access tile.
#[derive(Debug, Clone)]
pub(super) struct BoxPoints {
    pub(super) low: Vec<i64>,
    pub(super) extents: Vec<i64>,
    /// The strides of the tile, in the order of its dimensions.
    pub(super) tile: Vec<i64>,
}

#[derive(Debug, Clone)]
pub(super) struct AccessShape {
    pub(super) view: u32,
    pub(super) elem: KtirElem,
    pub(super) set: KtirAffineSet,
    pub(super) order: Option<KtirAffineMap>,
    /// The box, if the points are one in an order that swaps dimensions at most.
    pub(super) points: Option<BoxPoints>,
    pub(super) indirect: Option<Indirect>,
}

#[derive(Debug, Clone)]
pub(super) struct Indirect {
    pub(super) subscripts: Vec<IndirectSubscript>,
    /// The registers of values from outside.
    pub(super) captured: Vec<u32>,
    /// Variables before this one choose indices; those from it on only move within the view.
    pub(super) split: usize,
}

#[derive(Debug, Clone)]
pub(super) struct IndirectSubscript {
    pub(super) map: KtirAffineMap,
    /// Coefficients of variables and captured values, and the constant, for each result of the map.
    pub(super) linear: Option<Vec<(Vec<i64>, i64)>>,
    pub(super) through: Option<(u32, KtirElem)>,
}

/// Positions of a rearrangement: a base and the loops, the last one innermost.
pub(super) type Gather = (usize, Vec<(usize, usize)>);

#[derive(Debug, Clone)]
pub(super) enum SliceOffset {
    Fixed(i64),
    Register(u32),
}

#[derive(Debug, Clone)]
#[allow(
    clippy::large_enum_variant,
    reason = "a kernel has few steps, and boxes would be followed at each"
)]
pub(super) enum Step {
    Int {
        to: u32,
        value: i64,
    },
    Float {
        to: u32,
        value: f32,
    },
    ConstantTile {
        to: u32,
        constant: u32,
        tile: TileKind,
    },
    TileId {
        to: Vec<(u32, usize)>,
    },
    IntPair {
        kind: KtirOpKind,
        elem: KtirElem,
        a: u32,
        b: u32,
        to: u32,
    },
    Point {
        work: Pointwise,
        operands: Vec<Place>,
        to: Place,
        tile: Option<TileKind>,
        cost: KtirOpKind,
    },
    Apply {
        index: LinearIndex,
        to: u32,
    },
    MemoryView {
        base: u32,
        to: u32,
        elem: KtirElem,
        sizes: Vec<SliceOffset>,
        strides: Vec<SliceOffset>,
        space: KtirMemorySpace,
        set: Option<KtirAffineSet>,
        bounds: Option<KtirSetBounds>,
    },
    JoinedView {
        parts: Vec<u32>,
        to: u32,
        elem: KtirElem,
        shape: Vec<i64>,
    },
    Access {
        to: u32,
        indices: Vec<LinearIndex>,
        base_map: Option<KtirAffineMap>,
    },
    IndirectAccess,
    Load {
        access: u32,
        shape: usize,
        tile: TileKind,
        to: u32,
    },
    Store {
        access: u32,
        shape: usize,
        from: u32,
        tile: KtirType,
        len: usize,
    },
    Uniform {
        value: Place,
        to: u32,
        tile: TileKind,
    },
    Empty {
        to: u32,
        tile: TileKind,
    },
    Share {
        from: u32,
        to: u32,
        tile: TileKind,
    },
    Extract {
        from: u32,
        indices: Vec<u32>,
        shape: Vec<i64>,
        to: Place,
    },
    Rearrange {
        from: u32,
        gather: Gather,
        to: u32,
        tile: TileKind,
    },
    Slice {
        part: Option<u32>,
        whole: u32,
        shape: Vec<i64>,
        offsets: Vec<SliceOffset>,
        sizes: Vec<i64>,
        strides: Vec<i64>,
        to: u32,
        tile: TileKind,
    },
    Product {
        a: u32,
        b: u32,
        c: u32,
        batch: usize,
        shape: super::product::ProductShape,
        transposed: bool,
        macs: u64,
        charged: u64,
        sums: u32,
        to: u32,
        tile: TileKind,
    },
    Generic {
        inputs: Vec<(u32, Option<Gather>, u32)>,
        out: u32,
        body: Body,
        sizes: Vec<usize>,
        to: u32,
        tile: TileKind,
    },
    Reduce {
        from: u32,
        init: u32,
        fold: TreeFold,
        scratch: u32,
        to: u32,
        tile: TileKind,
    },
    For {
        bounds: [u32; 3],
        state: [u32; 2],
        at: u32,
        moves: Vec<(Place, Place)>,
        skip: Vec<(Place, Place)>,
        exit: usize,
    },
    Next {
        state: [u32; 2],
        at: u32,
        moves: Vec<(Place, Place)>,
        leave: Vec<(Place, Place)>,
        body: usize,
        owner: usize,
    },
    If {
        condition: u32,
        otherwise: usize,
        lone: bool,
    },
    Join {
        moves: Vec<(Place, Place)>,
        exit: usize,
        owner: usize,
    },
    Produce {
        to: u32,
        op: u32,
        gid: Option<u32>,
        end: usize,
    },
    Post {
        values: Vec<Place>,
        owner: usize,
    },
    Deliver {
        future: u32,
        op: u32,
    },
    Combined {
        values: Vec<Place>,
        owner: usize,
    },
    Return,
}

/// What is charged for a step, and what dies after it.
#[derive(Debug, Clone)]
pub(super) struct Site {
    pub(super) name: &'static str,
    pub(super) span: Range<usize>,
    pub(super) steps: u64,
    /// Bytes of tiles that it reads and writes.
    pub(super) lx_bytes: u64,
    /// Bytes that a result takes, to be refused before anything is computed.
    pub(super) dead: Vec<u32>,
}

/// The sets of an exchange between cores.
#[derive(Debug, Clone)]
pub(super) struct ExchangeOp {
    pub(super) members: KtirAffineSet,
    pub(super) groups: KtirAffineSet,
    pub(super) needs: Option<KtirAffineSet>,
    pub(super) partials: Vec<TileKind>,
    pub(super) identities: Vec<u32>,
    pub(super) results: Vec<u32>,
    pub(super) arguments: Vec<u32>,
    pub(super) body: usize,
}

/// A kernel that was planned.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) grid: Vec<i64>,
    pub(super) cores: usize,
    pub(super) arguments: Vec<Place>,
    pub(super) steps: Vec<Step>,
    pub(super) sites: Vec<Site>,
    pub(super) accesses: Vec<AccessShape>,
    pub(super) exchanges: Vec<ExchangeOp>,
    pub(super) constants: Vec<(KtirElements, usize)>,
    /// The buffers of each class: floats or integers, and how many.
    pub(super) classes: Vec<(bool, usize)>,
    pub(super) ints: u32,
    pub(super) floats: u32,
    pub(super) tiles: u32,
    pub(super) views: u32,
    pub(super) futures: u32,
    /// Whether no core can see what another one does.
    pub(super) independent: bool,
}

/// Plans a kernel; `None` where it has an operation that only the plain interpreter runs.
pub(super) fn plan_function(module: &KtirModule, f: &KtirFunction) -> Option<Program> {
    let drops = compute_liveness(module);
    let mut planner = Planner {
        f,
        drops: &drops,
        places: vec![None; f.values.len()],
        constant_ints: HashMap::new(),
        access_of: HashMap::new(),
        class_of: HashMap::new(),
        coordinates: 0,
        program: Program {
            grid: f.grid.clone(),
            cores: f.core_count(),
            arguments: Vec::new(),
            steps: Vec::new(),
            sites: Vec::new(),
            accesses: Vec::new(),
            exchanges: Vec::new(),
            constants: Vec::new(),
            classes: Vec::new(),
            ints: 0,
            floats: 0,
            tiles: 0,
            views: 0,
            futures: 0,
            independent: is_independent(f),
        },
    };
    for v in &f.body.args {
        let place = planner.define(*v)?;
        planner.program.arguments.push(place);
    }
    planner.plan_block(&f.body, &Ending::Return)?;
    Some(planner.program)
}

/// Whether every array is only read or only written, and no core touches the scratchpad of another.
fn is_independent(f: &KtirFunction) -> bool {
    let Some((reads, writes, own)) = crate::pointers::find_accessed_arguments(f) else {
        return false;
    };
    let mut alone = own && reads.is_disjoint(&writes);
    f.body.visit_ops(&mut |op| {
        alone &= !op.kind.is_delivery() && op.kind != KtirOpKind::Produce;
        if let Some(KtirAttr::Space(KtirMemorySpace::Local(Some(_)))) = op.attr("memory_space") {
            alone = false;
        }
    });
    alone
}

/// What the terminator of a block does.
enum Ending {
    Return,
    Next {
        state: [u32; 2],
        at: u32,
        args: Vec<Place>,
        results: Vec<Place>,
        body: usize,
        owner: usize,
    },
    Join {
        results: Vec<Place>,
        owner: usize,
    },
    Post {
        owner: usize,
    },
    Combined {
        owner: usize,
    },
}

struct Planner<'f> {
    f: &'f KtirFunction,
    drops: &'f HashMap<*const KtirBlock, Vec<Vec<KtirValue>>>,
    places: Vec<Option<Place>>,
    constant_ints: HashMap<KtirValue, i64>,
    access_of: HashMap<KtirValue, usize>,
    class_of: HashMap<(bool, usize), u32>,
    /// Elements of the constants that hold coordinates.
    coordinates: usize,
    program: Program,
}

impl Planner<'_> {
    fn ty(&self, v: KtirValue) -> &KtirType {
        self.f.value_type(v)
    }

    fn elem(&self, v: KtirValue) -> KtirElem {
        self.ty(v).elem().unwrap_or(KtirElem::Index)
    }

    fn new_int(&mut self) -> u32 {
        self.program.ints += 1;
        self.program.ints - 1
    }

    fn new_tile(&mut self) -> u32 {
        self.program.tiles += 1;
        self.program.tiles - 1
    }

    fn define(&mut self, v: KtirValue) -> Option<Place> {
        let place = match self.ty(v) {
            KtirType::Scalar(e) if e.is_float() => {
                self.program.floats += 1;
                Place::Float(self.program.floats - 1)
            }
            KtirType::Scalar(_) | KtirType::RuntimeArg(_) => Place::Int(self.new_int()),
            KtirType::Tensor(..) => Place::Tile(self.new_tile()),
            KtirType::MemRef(..) => {
                self.program.views += 1;
                Place::View(self.program.views - 1)
            }
            KtirType::AccessTile(_) => {
                Place::Access(u32::try_from(self.program.accesses.len()).ok()?)
            }
            KtirType::TileFuture(..) => {
                self.program.futures += 1;
                Place::Future(self.program.futures - 1)
            }
        };
        self.places[v.index()] = Some(place);
        Some(place)
    }

    /// A place for a value that blocks hand over; views and accesses are not handed over by planned kernels.
    fn define_moved(&mut self, v: KtirValue) -> Option<Place> {
        let place = self.define(v)?;
        matches!(place, Place::Int(_) | Place::Float(_) | Place::Tile(_)).then_some(place)
    }

    fn place(&self, v: KtirValue) -> Option<Place> {
        self.places[v.index()]
    }

    fn int(&self, v: KtirValue) -> Option<u32> {
        if let Some(Place::Int(r)) = self.place(v) { Some(r) } else { None }
    }

    fn tile(&self, v: KtirValue) -> Option<u32> {
        if let Some(Place::Tile(t)) = self.place(v) { Some(t) } else { None }
    }

    fn view(&self, v: KtirValue) -> Option<u32> {
        if let Some(Place::View(n)) = self.place(v) { Some(n) } else { None }
    }

    fn class(&mut self, float: bool, len: usize) -> u32 {
        let classes = &mut self.program.classes;
        // A table and no search: a text may have as many sizes as operations.
        *self.class_of.entry((float, len)).or_insert_with(|| {
            classes.push((float, len));
            u32::try_from(classes.len() - 1).unwrap_or(u32::MAX)
        })
    }

    fn tile_kind(&mut self, ty: &KtirType) -> Option<TileKind> {
        let KtirType::Tensor(shape, elem) = ty else { return None };
        let len = element_count(shape);
        let charge = bytes_in_scratchpad(ty).div_ceil(128).saturating_mul(128);
        let class = self.class(elem.is_float(), len);
        Some(TileKind { ty: ty.clone(), elem: *elem, len, charge, class })
    }

    fn constant(&mut self, data: KtirElements, len: usize) -> u32 {
        self.program.constants.push((data, len));
        u32::try_from(self.program.constants.len() - 1).unwrap_or(u32::MAX)
    }

    fn push(&mut self, op: &KtirOp, step: Step, dead: Vec<u32>) -> usize {
        let all = op.operands.iter().chain(&op.results);
        let lx_bytes = all.map(|v| bytes_in_scratchpad(self.ty(*v))).fold(0, u64::saturating_add);
        self.program.steps.push(step);
        self.program.sites.push(Site {
            name: op.kind.name(),
            span: op.span(),
            steps: budget::op_steps(self.f, op),
            lx_bytes,
            dead,
        });
        self.program.steps.len() - 1
    }

    fn dead_tiles(&self, block: &KtirBlock, at: usize) -> Vec<u32> {
        let dead = self.drops.get(&std::ptr::from_ref(block)).and_then(|d| d.get(at));
        dead.into_iter().flatten().filter_map(|v| self.tile(*v)).collect()
    }

    fn moves(&self, from: &[KtirValue], to: &[Place]) -> Option<Vec<(Place, Place)>> {
        from.iter().zip(to).map(|(v, to)| Some((self.place(*v)?, *to))).collect()
    }

    fn plan_block(&mut self, block: &KtirBlock, ending: &Ending) -> Option<()> {
        for (i, op) in block.ops.iter().enumerate() {
            if op.kind.is_terminator() {
                let step = match ending {
                    Ending::Return => Step::Return,
                    Ending::Next { state, at, args, results, body, owner } => Step::Next {
                        state: *state,
                        at: *at,
                        moves: self.moves(&op.operands, args)?,
                        leave: self.moves(&op.operands, results)?,
                        body: *body,
                        owner: *owner,
                    },
                    Ending::Join { results, owner } => Step::Join {
                        moves: self.moves(&op.operands, results)?,
                        exit: 0,
                        owner: *owner,
                    },
                    Ending::Post { owner } => Step::Post {
                        values: op
                            .operands
                            .iter()
                            .map(|v| self.place(*v))
                            .collect::<Option<_>>()?,
                        owner: *owner,
                    },
                    Ending::Combined { owner } => Step::Combined {
                        values: op
                            .operands
                            .iter()
                            .map(|v| self.place(*v))
                            .collect::<Option<_>>()?,
                        owner: *owner,
                    },
                };
                let dead = self.dead_tiles(block, i);
                self.push(op, step, dead);
                return Some(());
            }
            self.plan_op(block, i, op)?;
        }
        None
    }

    fn plan_op(&mut self, block: &KtirBlock, i: usize, op: &KtirOp) -> Option<()> {
        match op.kind {
            KtirOpKind::For => return self.plan_for(block, i, op),
            KtirOpKind::If => return self.plan_if(block, i, op),
            KtirOpKind::Produce => return self.plan_produce(block, i, op),
            KtirOpKind::InterReduce => return self.plan_delivery(block, i, op),
            _ => {}
        }
        let step = self.plan_plain_op(op)?;
        let dead = self.dead_tiles(block, i);
        self.push(op, step, dead);
        Some(())
    }

    fn plan_for(&mut self, block: &KtirBlock, i: usize, op: &KtirOp) -> Option<()> {
        let o = &op.operands;
        let bounds = [self.int(o[0])?, self.int(o[1])?, self.int(o[2])?];
        let region = op.regions.first()?;
        let state = [self.new_int(), self.new_int()];
        let Place::Int(at) = self.define(*region.args.first()?)? else { return None };
        let mut args = Vec::new();
        for v in &region.args[1..] {
            args.push(self.define_moved(*v)?);
        }
        let moves = self.moves(&o[3..], &args)?;
        let mut results = Vec::new();
        for v in &op.results {
            results.push(self.define_moved(*v)?);
        }
        let skip = self.moves(&o[3..], &results)?;
        let owner =
            self.push(op, Step::For { bounds, state, at, moves, skip, exit: 0 }, Vec::new());
        self.plan_block(
            region,
            &Ending::Next { state, at, args, results, body: owner + 1, owner },
        )?;
        // Only now, because a value that dies with the loop may be a tile that was defined in it.
        self.program.sites[owner].dead = self.dead_tiles(block, i);
        let end = self.program.steps.len();
        if let Step::For { exit, .. } = &mut self.program.steps[owner] {
            *exit = end;
        }
        Some(())
    }

    fn plan_if(&mut self, block: &KtirBlock, i: usize, op: &KtirOp) -> Option<()> {
        let condition = self.int(op.operands[0])?;
        let lone = op.regions.len() < 2;
        let owner = self.push(op, Step::If { condition, otherwise: 0, lone }, Vec::new());
        let mut results = Vec::new();
        for v in &op.results {
            results.push(self.define_moved(*v)?);
        }
        let mut joins = Vec::new();
        for (k, region) in op.regions.iter().enumerate() {
            if k == 1 {
                let here = self.program.steps.len();
                if let Step::If { otherwise, .. } = &mut self.program.steps[owner] {
                    *otherwise = here;
                }
            }
            self.plan_block(region, &Ending::Join { results: results.clone(), owner })?;
            joins.push(self.program.steps.len() - 1);
        }
        let end = self.program.steps.len();
        for join in joins {
            if let Step::Join { exit, .. } = &mut self.program.steps[join] {
                *exit = end;
            }
        }
        if lone && let Step::If { otherwise, .. } = &mut self.program.steps[owner] {
            *otherwise = end;
        }
        self.program.sites[owner].dead = self.dead_tiles(block, i);
        Some(())
    }

    fn plan_produce(&mut self, block: &KtirBlock, i: usize, op: &KtirOp) -> Option<()> {
        let Place::Future(to) = self.define(op.results[0])? else { return None };
        let KtirType::TileFuture(types, Some(groups)) = self.ty(op.results[0]).clone() else {
            return None;
        };
        let partials = types.iter().map(|t| self.tile_kind(t)).collect::<Option<Vec<_>>>()?;
        let exchange = ExchangeOp {
            members: op.set_attr("producer_tiles_per_group")?.clone(),
            groups,
            needs: None,
            partials,
            identities: Vec::new(),
            results: Vec::new(),
            arguments: Vec::new(),
            body: 0,
        };
        self.program.exchanges.push(exchange);
        let number = u32::try_from(self.program.exchanges.len() - 1).ok()?;
        let region = op.regions.first()?;
        let gid = match region.args.first() {
            Some(v) => match self.define(*v)? {
                Place::Int(r) => Some(r),
                _ => return None,
            },
            None => None,
        };
        let owner = self.push(op, Step::Produce { to, op: number, gid, end: 0 }, Vec::new());
        self.plan_block(region, &Ending::Post { owner })?;
        self.program.sites[owner].dead = self.dead_tiles(block, i);
        let here = self.program.steps.len();
        if let Step::Produce { end, .. } = &mut self.program.steps[owner] {
            *end = here;
        }
        Some(())
    }

    fn plan_delivery(&mut self, block: &KtirBlock, i: usize, op: &KtirOp) -> Option<()> {
        let Some(Place::Future(future)) = self.place(op.operands[0]) else { return None };
        let KtirType::TileFuture(types, Some(groups)) = self.ty(op.operands[0]).clone() else {
            return None;
        };
        let partials = types.iter().map(|t| self.tile_kind(t)).collect::<Option<Vec<_>>>()?;
        let identities =
            op.operands[1..].iter().map(|v| self.tile(*v)).collect::<Option<Vec<_>>>()?;
        let region = op.regions.first()?;
        let mut arguments = Vec::new();
        for v in &region.args {
            let Place::Tile(t) = self.define(*v)? else { return None };
            arguments.push(t);
        }
        let mut results = Vec::new();
        for v in &op.results {
            let Place::Tile(t) = self.define(*v)? else { return None };
            results.push(t);
        }
        // One result for each partial, of its type: anything else is left to the plain interpreter to refuse.
        let same = op.results.len() == types.len()
            && op.results.iter().zip(&types).all(|(v, t)| self.ty(*v) == t)
            && identities.len() == types.len()
            && arguments.len() == 2 * types.len();
        if !same {
            return None;
        }
        let owner = self.program.steps.len();
        self.program.exchanges.push(ExchangeOp {
            members: op.set_attr("consumer_tiles_per_group")?.clone(),
            groups,
            needs: op.set_attr("producer_dependency_per_consumer").cloned(),
            partials,
            identities,
            results,
            arguments,
            body: owner + 2,
        });
        let number = u32::try_from(self.program.exchanges.len() - 1).ok()?;
        self.push(op, Step::Deliver { future, op: number }, Vec::new());
        // The step behind a delivery leaves its region.
        self.push(op, Step::Join { moves: Vec::new(), exit: 0, owner }, Vec::new());
        self.program.sites[owner + 1].steps = 0;
        self.plan_block(region, &Ending::Combined { owner })?;
        self.program.sites[owner].dead = self.dead_tiles(block, i);
        let here = self.program.steps.len();
        if let Step::Join { exit, .. } = &mut self.program.steps[owner + 1] {
            *exit = here;
        }
        Some(())
    }

    fn plan_plain_op(&mut self, op: &KtirOp) -> Option<Step> {
        let o = &op.operands;
        match op.kind.form() {
            KtirOpForm::Constant => return self.plan_constant(op),
            KtirOpForm::Same(_) | KtirOpForm::Compare | KtirOpForm::Select | KtirOpForm::Cast => {
                return self.plan_pointwise(op);
            }
            KtirOpForm::Structured(n) => return self.plan_structured(op, n),
            _ => {}
        }
        Some(match op.kind {
            KtirOpKind::TileId => {
                let dims: Vec<usize> = match op.int_attr("dim") {
                    Some(d) => vec![usize::try_from(d).unwrap_or(0)],
                    None => (0..op.results.len()).collect(),
                };
                let mut to = Vec::new();
                for (v, d) in op.results.iter().zip(dims) {
                    let Place::Int(r) = self.define(*v)? else { return None };
                    to.push((r, d));
                }
                Step::TileId { to }
            }
            KtirOpKind::RuntimeArgExtract => {
                let KtirType::RuntimeArg(text) = self.ty(o[0]) else { return None };
                let argument = crate::types::RuntimeArgument::read(text).ok()?;
                let from = self.int(o[0])?;
                let Place::Int(to) = self.define(op.results[0])? else { return None };
                match op.word_attr("field") {
                    Some("granularity") => Step::Int { to, value: argument.granularity? },
                    Some("upperbound") => Step::Int { to, value: argument.upperbound? },
                    _ => Step::Apply {
                        index: LinearIndex { constant: 0, terms: vec![(from, 1)] },
                        to,
                    },
                }
            }
            KtirOpKind::AffineApply => {
                let map = op.map_attr("map")?;
                let index = self.linear(&map.results()[0], map.dims(), map.symbols(), o)?;
                let Place::Int(to) = self.define(op.results[0])? else { return None };
                Step::Apply { index, to }
            }
            KtirOpKind::MemoryView => {
                let mut dynamic = o[1..].iter();
                let mut fill = |key: &str| -> Option<Vec<SliceOffset>> {
                    let list = op.ints_attr(key).unwrap_or(&[]);
                    list.iter()
                        .map(|n| {
                            Some(if *n == DYNAMIC_SIZE {
                                SliceOffset::Register(self.int(*dynamic.next()?)?)
                            } else {
                                SliceOffset::Fixed(*n)
                            })
                        })
                        .collect()
                };
                let (sizes, strides) = (fill("sizes")?, fill("strides")?);
                let space = match op.attr("memory_space") {
                    Some(KtirAttr::Space(space)) => *space,
                    _ => KtirMemorySpace::Global,
                };
                let set = op.set_attr("coordinate_set").cloned();
                let bounds = set.as_ref().filter(|s| s.symbols() == 0);
                let bounds = bounds.and_then(|s| s.bounding_box(&[]));
                let base = self.int(o[0])?;
                let elem = self.elem(op.results[0]);
                let Place::View(to) = self.define(op.results[0])? else { return None };
                Step::MemoryView { base, to, elem, sizes, strides, space, set, bounds }
            }
            KtirOpKind::DistributedView => {
                let parts = o.iter().map(|v| self.view(*v)).collect::<Option<Vec<_>>>()?;
                let shape = match self.ty(op.results[0]) {
                    KtirType::MemRef(shape, _) => {
                        shape.iter().map(|n| n.unwrap_or(i64::MAX)).collect()
                    }
                    _ => return None,
                };
                let elem = self.elem(op.results[0]);
                let Place::View(to) = self.define(op.results[0])? else { return None };
                Step::JoinedView { parts, to, elem, shape }
            }
            KtirOpKind::AccessTile => return self.plan_access(op),
            KtirOpKind::IndirectTile => return self.plan_indirect(op),
            KtirOpKind::Load => {
                let Some(Place::Access(access)) = self.place(o[0]) else { return None };
                let shape = *self.access_of.get(&o[0])?;
                let ty = self.ty(op.results[0]).clone();
                let tile = self.tile_kind(&ty)?;
                let shape_elem = self.program.accesses[shape].elem;
                if shape_elem != tile.elem {
                    return None;
                }
                let Place::Tile(to) = self.define(op.results[0])? else { return None };
                Step::Load { access, shape, tile, to }
            }
            KtirOpKind::Store => {
                let Some(Place::Access(access)) = self.place(o[1]) else { return None };
                let shape = *self.access_of.get(&o[1])?;
                let tile = self.ty(o[0]).clone();
                let len = element_count(tile.shape()?);
                if self.program.accesses[shape].elem != tile.elem()? {
                    return None;
                }
                Step::Store { access, shape, from: self.tile(o[0])?, tile, len }
            }
            KtirOpKind::TensorEmpty => {
                let ty = self.ty(op.results[0]).clone();
                let tile = self.tile_kind(&ty)?;
                let Place::Tile(to) = self.define(op.results[0])? else { return None };
                Step::Empty { to, tile }
            }
            KtirOpKind::Splat => {
                let value = self.place(o[0])?;
                let ty = self.ty(op.results[0]).clone();
                let tile = self.tile_kind(&ty)?;
                let Place::Tile(to) = self.define(op.results[0])? else { return None };
                if !matches!(value, Place::Int(_) | Place::Float(_)) {
                    return None;
                }
                Step::Uniform { value, to, tile }
            }
            KtirOpKind::ExpandShape | KtirOpKind::CollapseShape | KtirOpKind::Reshape => {
                let from = self.tile(o[0])?;
                let ty = self.ty(op.results[0]).clone();
                let tile = self.tile_kind(&ty)?;
                let Place::Tile(to) = self.define(op.results[0])? else { return None };
                Step::Share { from, to, tile }
            }
            KtirOpKind::Extract => {
                let from = self.tile(o[0])?;
                let indices = o[1..].iter().map(|v| self.int(*v)).collect::<Option<Vec<_>>>()?;
                let shape = self.ty(o[0]).shape()?.to_vec();
                let to = self.define(op.results[0])?;
                Step::Extract { from, indices, shape, to }
            }
            KtirOpKind::Transpose | KtirOpKind::Broadcast => self.plan_rearrange(op)?,
            KtirOpKind::ExtractSlice | KtirOpKind::InsertSlice => {
                let insert = op.kind == KtirOpKind::InsertSlice;
                let whole = self.tile(o[usize::from(insert)])?;
                let part = if insert { Some(self.tile(o[0])?) } else { None };
                let shape = self.ty(o[usize::from(insert)]).shape()?.to_vec();
                let mut dynamic = o[1 + usize::from(insert)..].iter();
                let list = |key: &str| op.ints_attr(key).unwrap_or(&[]).to_vec();
                let offsets = list("offsets")
                    .into_iter()
                    .map(|n| {
                        Some(if n == DYNAMIC_SIZE {
                            SliceOffset::Register(self.int(*dynamic.next()?)?)
                        } else {
                            SliceOffset::Fixed(n)
                        })
                    })
                    .collect::<Option<Vec<_>>>()?;
                let (sizes, strides) = (list("sizes"), list("strides"));
                let ty = self.ty(op.results[0]).clone();
                let tile = self.tile_kind(&ty)?;
                let Place::Tile(to) = self.define(op.results[0])? else { return None };
                Step::Slice { part, whole, shape, offsets, sizes, strides, to, tile }
            }
            KtirOpKind::Generic => return self.plan_generic(op),
            KtirOpKind::Reduce => return self.plan_reduce(op),
            _ => return None,
        })
    }

    fn plan_constant(&mut self, op: &KtirOp) -> Option<Step> {
        let ty = self.ty(op.results[0]).clone();
        let elem = ty.elem()?;
        let n = element_count(ty.shape()?);
        if let KtirType::Tensor(..) = ty {
            let list = match op.attr("value") {
                Some(KtirAttr::Dense(list)) => list.len(),
                _ => 1,
            };
            // One literal for all elements takes no memory.
            let data = constant_elements(op, elem, if list == 1 { n.min(1) } else { n });
            let constant = self.constant(data, n);
            let tile = self.tile_kind(&ty)?;
            let Place::Tile(to) = self.define(op.results[0])? else { return None };
            return Some(Step::ConstantTile { to, constant, tile });
        }
        let data = constant_elements(op, elem, 1);
        Some(match (self.define(op.results[0])?, data) {
            (Place::Int(to), KtirElements::I(v)) => {
                self.constant_ints.insert(op.results[0], v[0]);
                Step::Int { to, value: v[0] }
            }
            (Place::Float(to), KtirElements::F(v)) => Step::Float { to, value: v[0] },
            _ => return None,
        })
    }

    fn point(&self, op: &KtirOp) -> Pointwise {
        // The first operand of a select is the condition; the type of the choices is that of the second.
        let first = usize::from(op.kind == KtirOpKind::ArithSelect);
        let from = self.elem(op.operands[first]);
        let to = op.results.first().map_or(from, |v| self.elem(*v));
        let predicate = op.word_attr("predicate").unwrap_or("").to_string();
        Pointwise { kind: op.kind, predicate, from, to }
    }

    fn plan_pointwise(&mut self, op: &KtirOp) -> Option<Step> {
        let work = self.point(op);
        let operands = op.operands.iter().map(|v| self.place(*v)).collect::<Option<Vec<_>>>()?;
        let ty = self.ty(op.results[0]).clone();
        let tile = if let KtirType::Tensor(..) = ty { Some(self.tile_kind(&ty)?) } else { None };
        let to = self.define(op.results[0])?;
        if let (&[Place::Int(a), Place::Int(b)], Place::Int(to), KtirOpForm::Same(2)) =
            (&operands[..], to, op.kind.form())
        {
            return Some(Step::IntPair { kind: op.kind, elem: work.to, a, b, to });
        }
        let known = |p: &Place| matches!(p, Place::Int(_) | Place::Float(_) | Place::Tile(_));
        let all = operands.iter().all(known);
        all.then_some(Step::Point { work, operands, to, tile, cost: op.kind })
    }

    fn linear(
        &self,
        e: &crate::affine::KtirAffineExpr,
        dims: usize,
        symbols: usize,
        operands: &[KtirValue],
    ) -> Option<LinearIndex> {
        // Symbols follow dimensions among the operands, so a form over all of them treats symbols as dimensions.
        let e = e.symbols_as_dims(dims);
        let form = crate::affine::extract_linear_form(&e, dims + symbols, &[])?;
        let mut index = LinearIndex { constant: form.constant, terms: Vec::new() };
        for (k, v) in form.coefficients.iter().zip(operands) {
            if *k == 0 {
                continue;
            }
            // A constant that is defined before is part of the form, which leaves one term less for each access.
            match self.constant_ints.get(v) {
                Some(n) => index.constant = index.constant.checked_add(n.checked_mul(*k)?)?,
                None => index.terms.push((self.int(*v)?, *k)),
            }
        }
        Some(index)
    }

    fn plan_access(&mut self, op: &KtirOp) -> Option<Step> {
        let o = &op.operands;
        let view = self.view(o[0])?;
        let map = op.map_attr("indices")?;
        let mut indices = Vec::new();
        for e in map.results() {
            indices.push(self.linear(e, map.dims(), map.symbols(), &o[1..])?);
        }
        let base_map = op.map_attr("base_map").filter(|m| !m.is_identity()).cloned();
        let shape = self.ty(op.results[0]).shape()?.to_vec();
        let set = op
            .set_attr("access_tile_set")
            .cloned()
            .unwrap_or_else(|| KtirAffineSet::from_extents(&shape));
        let order = op.map_attr("access_tile_order").cloned();
        let points = box_points(&set, order.as_ref());
        let elem = self.elem(o[0]);
        let Place::Access(to) = self.define(op.results[0])? else { return None };
        self.access_of.insert(op.results[0], self.program.accesses.len());
        self.program.accesses.push(AccessShape { view, elem, set, order, points, indirect: None });
        Some(Step::Access { to, indices, base_map })
    }

    fn plan_indirect(&mut self, op: &KtirOp) -> Option<Step> {
        let o = &op.operands;
        let view = self.view(o[0])?;
        let flags = op.ints_attr("indirect").unwrap_or(&[]).to_vec();
        let sources = flags.iter().filter(|f| **f != 0).count();
        let captured = o[1 + sources..].iter().map(|v| self.int(*v)).collect::<Option<Vec<_>>>()?;
        let set = op.set_attr("variables_space_set")?.clone();
        let order = op.map_attr("variables_space_order").cloned();
        let variables = set.dims();
        let mut next = o[1..].iter();
        let (mut subscripts, mut split) = (Vec::new(), 0);
        for (map, flag) in op.maps_attr("subscripts").iter().zip(&flags) {
            let through = if *flag != 0 {
                let v = *next.next()?;
                Some((self.view(v)?, self.elem(v)))
            } else {
                None
            };
            let linear: Option<Vec<(Vec<i64>, i64)>> = map
                .results()
                .iter()
                .map(|e| {
                    let form = crate::affine::extract_linear_form(e, map.dims(), &[])?;
                    Some((form.coefficients, form.constant))
                })
                .collect();
            if through.is_some()
                && let Some(forms) = &linear
            {
                let used =
                    |d: &usize| forms.iter().any(|(k, _)| k.get(*d).is_some_and(|k| *k != 0));
                split = split.max((0..variables).rfind(used).map_or(0, |d| d + 1));
            }
            subscripts.push(IndirectSubscript { map: map.clone(), linear, through });
        }
        let points = order
            .as_ref()
            .is_none_or(KtirAffineMap::is_identity)
            .then(|| box_points(&set, None))
            .flatten()
            .filter(|_| subscripts.iter().all(|s| s.linear.is_some()));
        let elem = self.elem(o[0]);
        let Place::Access(_) = self.define(op.results[0])? else { return None };
        self.access_of.insert(op.results[0], self.program.accesses.len());
        let indirect = Some(Indirect { subscripts, captured, split });
        self.program.accesses.push(AccessShape { view, elem, set, order, points, indirect });
        Some(Step::IndirectAccess)
    }

    fn plan_rearrange(&mut self, op: &KtirOp) -> Option<Step> {
        let size = |n: i64| usize::try_from(n).unwrap_or(0);
        let from_shape = self.ty(op.operands[0]).shape()?.to_vec();
        let ty = self.ty(op.results[0]).clone();
        let shape = ty.shape()?.to_vec();
        let from = row_major_strides(&from_shape);
        let loops: Vec<(usize, usize)> = if op.kind == KtirOpKind::Transpose {
            let p = op.ints_attr("permutation").unwrap_or(&[]);
            p.iter().zip(&shape).map(|(d, n)| (size(*n), from[size(*d)])).collect()
        } else {
            let added = op.ints_attr("dimensions").unwrap_or(&[]);
            let mut strides = from.into_iter();
            let step = |(d, n): (usize, &i64)| {
                let new = added.iter().any(|a| size(*a) == d);
                (size(*n), if new { 0 } else { strides.next().unwrap_or(0) })
            };
            shape.iter().enumerate().map(step).collect()
        };
        let from = self.tile(op.operands[0])?;
        let tile = self.tile_kind(&ty)?;
        let Place::Tile(to) = self.define(op.results[0])? else { return None };
        Some(Step::Rearrange { from, gather: (0, loops), to, tile })
    }

    fn plan_structured(&mut self, op: &KtirOp, inputs: usize) -> Option<Step> {
        let o = &op.operands;
        let ty = self.ty(op.results[0]).clone();
        let tile = self.tile_kind(&ty)?;
        let elem = tile.elem;
        let plain = |float: KtirOpKind, int: KtirOpKind| if elem.is_float() { float } else { int };
        let kind =
            match op.kind {
                KtirOpKind::Fill => {
                    let value = self.place(o[0])?;
                    let Place::Tile(to) = self.define(op.results[0])? else { return None };
                    return matches!(value, Place::Int(_) | Place::Float(_))
                        .then_some(Step::Uniform { value, to, tile });
                }
                KtirOpKind::Matmul
                | KtirOpKind::MatmulTransposeB
                | KtirOpKind::BatchMatmul
                | KtirOpKind::Matvec => return self.plan_product(op, tile),
                other => crate::run::tiles::structured_combiner(other, plain),
            };
        let operands = o[..inputs].iter().map(|v| self.place(*v)).collect::<Option<Vec<_>>>()?;
        let to = self.define(op.results[0])?;
        let work = Pointwise { kind, predicate: String::new(), from: elem, to: elem };
        Some(Step::Point { work, operands, to, tile: Some(tile), cost: op.kind })
    }

    fn plan_product(&mut self, op: &KtirOp, tile: TileKind) -> Option<Step> {
        if !tile.elem.is_float() {
            return None;
        }
        let o = &op.operands;
        let size = |n: i64| usize::try_from(n).unwrap_or(0);
        let (sa, sb) = (self.ty(o[0]).shape()?, self.ty(o[1]).shape()?);
        let (batch, rows, depth, columns) = match (op.kind, sa, sb) {
            (KtirOpKind::BatchMatmul, &[x, m, k], &[_, _, n]) => {
                (size(x), size(m), size(k), size(n))
            }
            (KtirOpKind::Matvec, &[m, k], _) => (1, size(m), size(k), 1),
            (KtirOpKind::MatmulTransposeB, &[m, k], &[n, _]) => (1, size(m), size(k), size(n)),
            (KtirOpKind::Matmul, &[m, k], &[_, n]) => (1, size(m), size(k), size(n)),
            _ => return None,
        };
        // Significands of 12 bits and less multiply exactly in float32, where the exponents leave room: bfloat16 has
        // the exponents of float32, so its products may underflow.
        let narrow = |v: KtirValue| {
            !matches!(self.elem(v), KtirElem::F32 | KtirElem::BF16) && self.elem(v).is_float()
        };
        let exact = narrow(o[0]) && narrow(o[1]);
        let shape = super::product::ProductShape { rows, depth, columns, exact };
        let macs = (batch * rows) as u64 * (depth * columns) as u64;
        let charged = if op.kind == KtirOpKind::BatchMatmul {
            (batch * rows) as u64 * depth as u64
        } else {
            macs
        };
        let (a, b, c) = (self.tile(o[0])?, self.tile(o[1])?, self.tile(o[2])?);
        let sums = self.class(true, tile.len);
        let Place::Tile(to) = self.define(op.results[0])? else { return None };
        let transposed = op.kind == KtirOpKind::MatmulTransposeB;
        Some(Step::Product { a, b, c, batch, shape, transposed, macs, charged, sums, to, tile })
    }

    fn plan_generic(&mut self, op: &KtirOp) -> Option<Step> {
        let inputs = usize::try_from(op.int_attr("inputs")?).ok()?;
        let maps = op.maps_attr("indexing_maps");
        let iterators = op.words_attr("iterator_types");
        // Reduction loops, several outputs and permuted outputs are left to the plain interpreter.
        if iterators.iter().any(|i| i != "parallel")
            || op.operands.len() != inputs + 1
            || !maps.get(inputs)?.is_identity()
        {
            return None;
        }
        let ty = self.ty(op.results[0]).clone();
        let sizes: Vec<usize> =
            ty.shape()?.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
        let all: Vec<usize> = (0..sizes.len()).collect();
        let mut operands = Vec::new();
        for (v, map) in op.operands[..inputs].iter().zip(maps) {
            let shape = self.ty(*v).shape()?.to_vec();
            let gather =
                if map.is_identity() { None } else { Some(map_loops(map, &shape, &sizes, &all)?) };
            let n = element_count(ty.shape()?);
            let class = self.class(self.elem(*v).is_float(), n);
            operands.push((self.tile(*v)?, gather, class));
        }
        let tile = self.tile_kind(&ty)?;
        let out = self.tile(op.operands[inputs])?;
        let body = self.plan_body(op.regions.first()?, &sizes, tile.len)?;
        let Place::Tile(to) = self.define(op.results[0])? else { return None };
        Some(Step::Generic { inputs: operands, out, body, sizes, to, tile })
    }

    /// Plans a body over loops of these sizes.
    fn plan_body(&mut self, block: &KtirBlock, sizes: &[usize], n: usize) -> Option<Body> {
        let mut lanes: HashMap<KtirValue, (u32, BTreeSet<usize>)> = HashMap::new();
        let every: BTreeSet<usize> = (0..sizes.len()).collect();
        for v in &block.args {
            let lane = u32::try_from(lanes.len()).ok()?;
            lanes.insert(*v, (lane, every.clone()));
        }
        let (mut steps, mut indices) = (Vec::new(), Vec::new());
        for op in &block.ops {
            let mut loops = BTreeSet::new();
            let mut operands = Vec::new();
            for v in &op.operands {
                operands.push(match lanes.get(v) {
                    Some((lane, of)) => {
                        loops.extend(of);
                        BodyOperand::Lane(*lane)
                    }
                    None => match self.place(*v)? {
                        place @ (Place::Int(_) | Place::Float(_)) => BodyOperand::Outside(place),
                        _ => return None,
                    },
                });
            }
            if op.kind.is_terminator() {
                let [result] = operands[..] else { return None };
                let ops = block.ops.len() as u64;
                let count = u32::try_from(lanes.len()).ok()?;
                return Some(Body { steps, lanes: count, result, indices, ops });
            }
            let [result] = op.results[..] else { return None };
            let lane = u32::try_from(lanes.len()).ok()?;
            let elem = self.elem(result);
            let class = self.class(elem.is_float(), n);
            let work = match op.kind {
                KtirOpKind::ArithConstant => {
                    let data = constant_elements(op, elem, 1);
                    BodyWork::Constant(self.constant(data, n))
                }
                KtirOpKind::LinalgIndex => {
                    let d = usize::try_from(op.int_attr("dim")?).ok()?;
                    loops.insert(d);
                    self.coordinates = self.coordinates.saturating_add(n);
                    if self.coordinates > MAX_COORDINATES {
                        return None;
                    }
                    let after: usize = sizes.get(d + 1..)?.iter().product();
                    let index = |i: usize| i64::try_from(i / after.max(1) % sizes[d].max(1));
                    let data = (0..n).map(|i| index(i).unwrap_or(0)).collect();
                    let constant = self.constant(KtirElements::I(data), n);
                    indices.push((lane, constant));
                    lanes.insert(result, (lane, loops));
                    continue;
                }
                kind if kind.is_pointwise() => BodyWork::Point(self.point(op)),
                _ => return None,
            };
            let cost = op.kind;
            steps.push(BodyStep { work, operands, to: lane, class, cost, loops: loops.clone() });
            lanes.insert(result, (lane, loops));
        }
        None
    }

    fn plan_reduce(&mut self, op: &KtirOp) -> Option<Step> {
        let [input, init] = op.operands[..] else { return None };
        let shape = self.ty(input).shape()?.to_vec();
        let elem = self.elem(op.results[0]);
        let combiner = match op.word_attr("combiner").and_then(KtirOpKind::from_name) {
            Some(kind) => Pointwise { kind, predicate: String::new(), from: elem, to: elem },
            None => {
                let region = op.regions.first()?;
                let [step, end] = &region.ops[..] else { return None };
                // One operation of both arguments in their order: longer combiners are left to the plain interpreter.
                let plain = end.kind.is_terminator()
                    && step.kind.is_pointwise()
                    && step.operands == region.args
                    && end.operands == step.results;
                if !plain {
                    return None;
                }
                self.point(step)
            }
        };
        let fast = LaneBinary::from_kind(combiner.kind).filter(|f| has_tree(*f, elem));
        let cost = combiner.kind;
        let dims: Vec<usize> = op
            .ints_attr("dimensions")
            .unwrap_or(&[])
            .iter()
            .filter_map(|d| usize::try_from(*d).ok())
            .collect();
        let mut sizes: Vec<usize> =
            shape.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
        // Nothing to fold: the initial value, which the plain interpreter gives.
        if sizes.contains(&0) || fast.is_none() {
            return None;
        }
        let mut folds = Vec::new();
        let mut sorted = dims;
        sorted.sort_unstable();
        for d in sorted.into_iter().rev() {
            let outer: usize = sizes[..d].iter().product();
            let inner: usize = sizes[d + 1..].iter().product();
            folds.push((outer, sizes[d], inner));
            sizes[d] = 1;
        }
        let ty = self.ty(op.results[0]).clone();
        let tile = self.tile_kind(&ty)?;
        let scratch = self.class(true, element_count(&shape));
        let (from, init) = (self.tile(input)?, self.tile(init)?);
        let Place::Tile(to) = self.define(op.results[0])? else { return None };
        let fold = TreeFold { fast, cost, folds };
        Some(Step::Reduce { from, init, fold, scratch, to, tile })
    }
}

/// The box of a set, with the strides of the tile that its points fill in an order.
fn box_points(set: &KtirAffineSet, order: Option<&KtirAffineMap>) -> Option<BoxPoints> {
    let bounds = set.bounding_box(&[]).filter(|b| b.exact)?;
    let rank = bounds.low.len();
    let dims = match order {
        Some(order) if !order.is_identity() => order.selected_dims()?,
        _ => (0..rank).collect(),
    };
    let mut seen = dims.clone();
    seen.sort_unstable();
    if seen != (0..rank).collect::<Vec<_>>() || bounds.point_count().is_none() {
        return None;
    }
    let mut tile = vec![0; rank];
    let mut stride = 1_i64;
    for d in dims.iter().rev() {
        tile[*d] = stride;
        stride = stride.checked_mul(bounds.extents[*d].max(1))?;
    }
    Some(BoxPoints { low: bounds.low, extents: bounds.extents, tile })
}
