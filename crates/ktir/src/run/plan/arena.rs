//! Tiles of a planned kernel: buffers that are used again, and the handles that keep them.

use super::super::value::KtirElements;

/// No tile.
pub(super) const NO_TILE: u32 = u32::MAX;

/// The elements of a tile.
#[derive(Debug, Default)]
pub(super) struct TileData {
    pub(super) floats: Vec<f32>,
    pub(super) ints: Vec<i64>,
    pub(super) is_float: bool,
    /// How many elements; a buffer may be unused while all are the same.
    pub(super) len: usize,
    /// Whether all elements are `one_float` or `one_int`, and the buffers hold anything.
    pub(super) same: bool,
    pub(super) one_float: f32,
    pub(super) one_int: i64,
    class: u32,
    refs: u32,
}

impl TileData {
    /// Fills the buffer of a tile whose elements are the same.
    pub(super) fn spread(&mut self) {
        if !self.same {
            return;
        }
        self.same = false;
        if self.is_float {
            self.floats.clear();
            self.floats.resize(self.len, self.one_float);
        } else {
            self.ints.clear();
            self.ints.resize(self.len, self.one_int);
        }
    }

    /// Its elements, or the one that all are.
    pub(super) fn to_elements(&self) -> KtirElements {
        match (self.is_float, self.same) {
            (true, true) => KtirElements::F(vec![self.one_float]),
            (true, false) => KtirElements::F(self.floats.clone()),
            (false, true) => KtirElements::I(vec![self.one_int]),
            (false, false) => KtirElements::I(self.ints.clone()),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct TileEntry {
    data: u32,
    charge: u64,
    host: u64,
    refs: u32,
}

/// Buffers and handles.
#[derive(Debug, Default)]
pub(super) struct TileArena {
    pub(super) data: Vec<TileData>,
    free: Vec<Vec<u32>>,
    tiles: Vec<TileEntry>,
    free_tiles: Vec<u32>,
    /// The buffers of the kernel's constants.
    pub(super) constants: Vec<u32>,
    pub(super) panel: Vec<f32>,
}

impl TileArena {
    pub(super) fn new(classes: &[(bool, usize)], constants: &[(KtirElements, usize)]) -> TileArena {
        let mut arena = TileArena { free: vec![Vec::new(); classes.len()], ..TileArena::default() };
        for (elements, len) in constants {
            let mut data = TileData { len: *len, refs: 1, class: u32::MAX, ..TileData::default() };
            let same = elements.len() == 1 || *len == 1;
            data.same = same;
            match elements {
                KtirElements::F(v) => {
                    data.is_float = true;
                    data.one_float = v.first().copied().unwrap_or(0.0);
                    if !same {
                        data.floats.clone_from(v);
                    }
                }
                KtirElements::I(v) => {
                    data.one_int = v.first().copied().unwrap_or(0);
                    if !same {
                        data.ints.clone_from(v);
                    }
                }
            }
            arena.constants.push(u32::try_from(arena.data.len()).unwrap_or(u32::MAX));
            arena.data.push(data);
        }
        arena
    }

    /// A buffer of a class, with one reference; its elements are anything.
    pub(super) fn take_data(&mut self, class: u32, (is_float, len): (bool, usize)) -> u32 {
        let at = match self.free[class as usize].pop() {
            Some(at) => at,
            None => {
                self.data.push(TileData { is_float, len, class, ..TileData::default() });
                u32::try_from(self.data.len() - 1).unwrap_or(u32::MAX)
            }
        };
        let data = &mut self.data[at as usize];
        data.refs = 1;
        data.same = false;
        at
    }

    pub(super) fn keep_data(&mut self, at: u32) {
        self.data[at as usize].refs += 1;
    }

    pub(super) fn drop_data(&mut self, at: u32) {
        let data = &mut self.data[at as usize];
        data.refs -= 1;
        if data.refs == 0 {
            self.free[data.class as usize].push(at);
        }
    }

    /// The floats of a buffer, taken out so that others can be read meanwhile; they are put back afterwards.
    pub(super) fn take_floats(&mut self, at: u32) -> Vec<f32> {
        let data = &mut self.data[at as usize];
        let mut floats = std::mem::take(&mut data.floats);
        if floats.len() != data.len {
            floats.resize(data.len, 0.0);
        }
        floats
    }

    pub(super) fn take_ints(&mut self, at: u32) -> Vec<i64> {
        let data = &mut self.data[at as usize];
        let mut ints = std::mem::take(&mut data.ints);
        if ints.len() != data.len {
            ints.resize(data.len, 0);
        }
        ints
    }

    /// A handle on elements, with one reference.
    pub(super) fn make_tile(&mut self, data: u32, charge: u64, host: u64) -> u32 {
        let entry = TileEntry { data, charge, host, refs: 1 };
        match self.free_tiles.pop() {
            Some(at) => {
                self.tiles[at as usize] = entry;
                at
            }
            None => {
                self.tiles.push(entry);
                u32::try_from(self.tiles.len() - 1).unwrap_or(u32::MAX)
            }
        }
    }

    pub(super) fn keep_tile(&mut self, tile: u32) {
        self.tiles[tile as usize].refs += 1;
    }

    /// Drops a reference; returns what the scratchpad and the host get back where it was the last one.
    pub(super) fn drop_tile(&mut self, tile: u32) -> (u64, u64) {
        let entry = &mut self.tiles[tile as usize];
        entry.refs -= 1;
        if entry.refs > 0 {
            return (0, 0);
        }
        let TileEntry { data, charge, host, .. } = *entry;
        self.free_tiles.push(tile);
        self.drop_data(data);
        (charge, host)
    }

    pub(super) fn data_of(&self, tile: u32) -> u32 {
        self.tiles[tile as usize].data
    }
}
