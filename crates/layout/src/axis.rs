//! Named axes: each entry of a physical coordinate counts along one of them.

use crate::error::{LayoutError, Result};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// Longest axis name, in bytes.
pub const MAX_AXIS_NAME: usize = 23;

/// An execution scope of a kernel, wide to narrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExecutionScope {
    /// The whole grid.
    Kernel,
    /// A cluster of CTAs.
    Cluster,
    /// A cooperative thread array (thread block).
    Cta,
    /// Four warps.
    Warpgroup,
    /// Thirty-two threads.
    Warp,
    /// One thread.
    Thread,
}

impl ExecutionScope {
    /// Every scope, wide to narrow.
    pub const ALL: [ExecutionScope; 6] = [
        ExecutionScope::Kernel,
        ExecutionScope::Cluster,
        ExecutionScope::Cta,
        ExecutionScope::Warpgroup,
        ExecutionScope::Warp,
        ExecutionScope::Thread,
    ];

    /// The lower-case name.
    pub fn name(self) -> &'static str {
        match self {
            ExecutionScope::Kernel => "kernel",
            ExecutionScope::Cluster => "cluster",
            ExecutionScope::Cta => "cta",
            ExecutionScope::Warpgroup => "warpgroup",
            ExecutionScope::Warp => "warp",
            ExecutionScope::Thread => "thread",
        }
    }

    /// The scope of that name.
    pub fn from_name(name: &str) -> Option<ExecutionScope> {
        ExecutionScope::ALL.into_iter().find(|s| s.name() == name)
    }

    /// How many of `self` fit in one `outer` on CUDA hardware, where that is fixed.
    pub(crate) fn count_in_scope(self, outer: ExecutionScope) -> Option<i64> {
        match (self, outer) {
            // CUDA hardware has warps of 32 threads, and the PTX ISA defines
            // a warpgroup as four contiguous warps (`wgmma`). CTAs and clusters have no
            // fixed size.
            (ExecutionScope::Thread, ExecutionScope::Warp) => Some(32),
            (ExecutionScope::Warp, ExecutionScope::Warpgroup) => Some(4),
            (ExecutionScope::Thread, ExecutionScope::Warpgroup) => Some(128),
            _ => None,
        }
    }
}

impl fmt::Display for ExecutionScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kind of an axis: addresses, members of an execution scope, or devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AxisKind {
    /// Addresses, in elements of a memory space.
    Memory,
    /// Members of a scope, counted inside a wider one: `laneid` counts threads within a warp.
    Thread {
        /// The scope that is counted.
        of: ExecutionScope,
        /// The scope inside which it is counted.
        within: ExecutionScope,
    },
    /// Members of a device mesh.
    Device,
}

impl AxisKind {
    /// `memory`, `thread` or `device`.
    pub fn name(self) -> &'static str {
        match self {
            AxisKind::Memory => "memory",
            AxisKind::Thread { .. } => "thread",
            AxisKind::Device => "device",
        }
    }
}

/// A named axis. A plain value: two axes are the same when name and kind are.
///
/// Axes are ordered by name, which is the order in which offsets are printed.
#[derive(Clone, Copy)]
pub struct Axis {
    /// The name, padded with zero bytes, and its length in the last byte: 24 bytes compare in
    /// registers, and their order is the order of the names.
    name: [u8; MAX_AXIS_NAME + 1],
    kind: AxisKind,
    /// Whether it was named by its alias, with which it is then printed; it is the same axis. A byte and
    /// not a name, because every coordinate and iter holds axes.
    is_alias: bool,
}

impl PartialEq for Axis {
    fn eq(&self, other: &Axis) -> bool {
        self.name == other.name && self.kind == other.kind
    }
}

impl Eq for Axis {}

impl Axis {
    /// Linear memory, in elements. The default axis of every notation.
    pub const M: Axis = Axis::builtin_axis("m", AxisKind::Memory);
    /// Position in a device mesh.
    pub const PID: Axis = Axis::builtin_axis("pid", AxisKind::Device);
    /// Thread in a warp.
    pub const LANEID: Axis = Axis::builtin_axis(
        "laneid",
        AxisKind::Thread { of: ExecutionScope::Thread, within: ExecutionScope::Warp },
    );
    /// Thread in a CTA.
    pub const TX: Axis = Axis::builtin_axis(
        "tx",
        AxisKind::Thread { of: ExecutionScope::Thread, within: ExecutionScope::Cta },
    );

    const fn builtin_axis(name: &str, kind: AxisKind) -> Axis {
        let bytes = name.as_bytes();
        assert!(bytes.len() <= MAX_AXIS_NAME);
        let mut buf = [0; MAX_AXIS_NAME + 1];
        let mut i = 0;
        while i < bytes.len() {
            buf[i] = bytes[i];
            i += 1;
        }
        #[allow(clippy::cast_possible_truncation, reason = "at most MAX_AXIS_NAME")]
        let len = bytes.len() as u8;
        buf[MAX_AXIS_NAME] = len;
        Axis { name: buf, kind, is_alias: false }
    }

    /// An axis of the user's own.
    ///
    /// Names are ASCII identifiers of at most [`MAX_AXIS_NAME`] bytes; `S` and `R` are keywords of the notation.
    pub fn new(name: &str, kind: AxisKind) -> Result<Axis> {
        let bad = |reason| Err(LayoutError::BadAxisName { name: name.to_string(), reason });
        let mut chars = name.bytes();
        if !chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == b'_') {
            return bad("a name starts with a letter or `_`");
        }
        if !chars.all(|c| c.is_ascii_alphanumeric() || c == b'_') {
            return bad("a name is made of letters, digits and `_`");
        }
        if name.len() > MAX_AXIS_NAME {
            return bad("a name has at most 23 bytes");
        }
        if matches!(name, "S" | "R") {
            return bad("`S` and `R` are words of the notation");
        }
        if let AxisKind::Thread { of, within } = kind
            && of <= within
        {
            return bad("a thread axis counts a scope inside a wider one");
        }
        Ok(Axis::builtin_axis(name, kind))
    }

    /// Its name, or the alias by which it was named.
    pub fn name(&self) -> &str {
        if self.is_alias
            && let Some((alias, _)) =
                AXIS_ALIASES.iter().find(|(_, axis)| axis.is_alias && axis == self)
        {
            return alias;
        }
        std::str::from_utf8(self.name_bytes()).expect("names are checked to be ASCII")
    }

    /// Its name, for comparing without looking at the characters again.
    fn name_bytes(&self) -> &[u8] {
        &self.name[..usize::from(self.name[MAX_AXIS_NAME])]
    }

    /// Whether both have one name, whatever their kinds.
    pub(crate) fn same_name(&self, other: &Axis) -> bool {
        self.name == other.name
    }

    /// The kind of the axis.
    pub fn kind(&self) -> AxisKind {
        self.kind
    }

    /// Whether it counts addresses.
    pub fn is_memory(&self) -> bool {
        self.kind == AxisKind::Memory
    }

    /// Whether it counts members of an execution scope.
    pub fn is_thread(&self) -> bool {
        matches!(self.kind, AxisKind::Thread { .. })
    }
}

impl Hash for Axis {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl PartialOrd for Axis {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Axis {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(&other.name).then_with(|| {
            let rank = |k: AxisKind| match k {
                AxisKind::Memory => (0, None),
                AxisKind::Thread { of, within } => (1, Some((of, within))),
                AxisKind::Device => (2, None),
            };
            rank(self.kind).cmp(&rank(other.kind))
        })
    }
}

impl fmt::Debug for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.name())
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

const fn thread_axis(name: &str, of: ExecutionScope, within: ExecutionScope) -> Axis {
    Axis::builtin_axis(name, AxisKind::Thread { of, within })
}

/// The axes that every table contains.
static BUILTIN_AXES: [Axis; 19] = [
    Axis::M,
    Axis::builtin_axis("P", AxisKind::Memory),
    Axis::builtin_axis("F", AxisKind::Memory),
    Axis::builtin_axis("Bank", AxisKind::Memory),
    Axis::builtin_axis("TLane", AxisKind::Memory),
    Axis::builtin_axis("TCol", AxisKind::Memory),
    Axis::PID,
    thread_axis("bx", ExecutionScope::Cta, ExecutionScope::Kernel),
    thread_axis("by", ExecutionScope::Cta, ExecutionScope::Kernel),
    thread_axis("bz", ExecutionScope::Cta, ExecutionScope::Kernel),
    thread_axis("cbx", ExecutionScope::Cta, ExecutionScope::Cluster),
    thread_axis("cby", ExecutionScope::Cta, ExecutionScope::Cluster),
    thread_axis("cbz", ExecutionScope::Cta, ExecutionScope::Cluster),
    Axis::TX,
    thread_axis("warpid", ExecutionScope::Warp, ExecutionScope::Cta),
    Axis::LANEID,
    thread_axis("wgid", ExecutionScope::Warpgroup, ExecutionScope::Cta),
    thread_axis("tid_in_wg", ExecutionScope::Thread, ExecutionScope::Warpgroup),
    thread_axis("wid_in_wg", ExecutionScope::Warp, ExecutionScope::Warpgroup),
];

/// Second names: the documents of the field also write `tid` for `tx` and `reg` for `m`.
/// `tid` is printed again; `m` is the axis that texts leave out.
const AXIS_ALIASES: [(&str, Axis); 2] =
    [("tid", Axis { is_alias: true, ..Axis::TX }), ("reg", Axis::M)];

/// The axes that a text may name: the built-in ones and those that the user declares.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AxisTable {
    declared: Vec<Axis>,
}

impl AxisTable {
    /// A table of the built-in axes alone.
    pub fn new() -> AxisTable {
        AxisTable::default()
    }

    /// Adds an axis. Declaring the same axis twice is harmless; the same name with another kind
    /// is an error.
    pub fn declare_axis(&mut self, name: &str, kind: AxisKind) -> Result<Axis> {
        if let Ok(known) = self.get(name) {
            if known.kind() == kind {
                return Ok(known);
            }
            return Err(LayoutError::AxisConflict { name: name.to_string() });
        }
        let axis = Axis::new(name, kind)?;
        self.declared.push(axis);
        Ok(axis)
    }

    /// The axis of that name; aliases (`tid`, `reg`) give the axis they stand for.
    pub fn get(&self, name: &str) -> Result<Axis> {
        let named = |a: &&Axis| a.name_bytes() == name.as_bytes();
        if let Some(axis) = BUILTIN_AXES.iter().chain(&self.declared).find(named) {
            return Ok(*axis);
        }
        if let Some((_, axis)) = AXIS_ALIASES.iter().find(|(alias, _)| *alias == name) {
            return Ok(*axis);
        }
        let known: Vec<_> = self.iter().map(|a| a.name().to_string()).collect();
        // A name is user input of any length, so only enough of it is quoted to recognise it.
        let name = name.chars().take(64).collect();
        Err(LayoutError::UnknownAxis { name, known: known.join(", ") })
    }

    /// Every axis of the table.
    pub fn iter(&self) -> impl Iterator<Item = Axis> + '_ {
        BUILTIN_AXES.iter().chain(&self.declared).copied()
    }
}

/// The pair (narrowest scope counted, widest scope counted in) that a set of thread axes spans.
///
/// The axes must form one chain: each counts the scope inside which the next narrower one is
/// counted. Axes of the same pair (`bx`, `by`) are one link. `None` for no thread axis at all.
pub fn thread_scope_pair(axes: &[Axis]) -> Result<Option<(ExecutionScope, ExecutionScope)>> {
    let mut links: Vec<(ExecutionScope, ExecutionScope, Axis)> = Vec::new();
    for axis in axes {
        if let AxisKind::Thread { of, within } = axis.kind()
            && !links.iter().any(|(o, w, _)| (*o, *w) == (of, within))
        {
            links.push((of, within, *axis));
        }
    }
    // Narrowest scope first, so that a chain is exactly a list in which each link ends where the
    // next one begins.
    links.sort_by_key(|(of, within, _)| std::cmp::Reverse((*of, *within)));
    for pair in links.windows(2) {
        let ((of, within, a), (next_of, next_within, b)) = (pair[0], pair[1]);
        // A grid axis counts CTAs, and so does a cluster axis: with both, the position of the CTA would be
        // given twice.
        if next_of > within || of == next_of {
            let reason = format!(
                "`{a}` ({of} in {within}) and `{b}` ({next_of} in {next_within}) give two answers"
            );
            return Err(LayoutError::NoScope { reason });
        }
        if next_of < within {
            let reason = format!("nothing counts {within} between `{a}` and `{b}`");
            return Err(LayoutError::NoScope { reason });
        }
    }
    Ok(links.first().zip(links.last()).map(|(first, last)| (first.0, last.1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(names: &[&str]) -> Result<Option<(&'static str, &'static str)>> {
        let table = AxisTable::new();
        let axes: Vec<_> = names.iter().map(|n| table.get(n).expect("built in")).collect();
        thread_scope_pair(&axes).map(|p| p.map(|(a, b)| (a.name(), b.name())))
    }

    #[test]
    fn scope_pairs_follow_the_chain() {
        assert_eq!(pair(&["m"]), Ok(None));
        assert_eq!(pair(&["laneid"]), Ok(Some(("thread", "warp"))));
        assert_eq!(pair(&["laneid", "warpid"]), Ok(Some(("thread", "cta"))));
        assert_eq!(pair(&["wid_in_wg", "laneid", "m"]), Ok(Some(("thread", "warpgroup"))));
        assert_eq!(pair(&["wid_in_wg", "wgid"]), Ok(Some(("warp", "cta"))));
        assert_eq!(pair(&["bx"]), Ok(Some(("cta", "kernel"))));
        assert_eq!(pair(&["bx", "by", "tx"]), Ok(Some(("thread", "kernel"))));
        assert_eq!(pair(&["tx", "cbx"]), Ok(Some(("thread", "cluster"))));
    }

    #[test]
    fn gaps_and_double_answers_are_errors() {
        for names in [&["laneid", "wgid"][..], &["laneid", "warpid", "tx"], &["warpid", "wgid"]] {
            assert_eq!(pair(names).map_err(|e| e.kind()), Err("no_scope"), "{names:?}");
        }
        assert!(pair(&["bx", "cbx"]).is_err());
        assert!(pair(&["laneid", "wid_in_wg", "warpid"]).is_err());
    }

    #[test]
    fn tables_know_aliases_and_refuse_clashes() {
        let mut table = AxisTable::new();
        assert_eq!(table.get("tid"), Ok(Axis::TX));
        assert_eq!(table.get("tid").map(|a| a.to_string()).as_deref(), Ok("tid"));
        assert_eq!(table.get("tx").map(|a| a.to_string()).as_deref(), Ok("tx"));
        assert_eq!(table.get("reg"), Ok(Axis::M));
        let lx = table.declare_axis("lx", AxisKind::Memory).expect("a fine name");
        assert_eq!(table.get("lx"), Ok(lx));
        assert_eq!(table.declare_axis("lx", AxisKind::Memory), Ok(lx));
        assert_eq!(
            table.declare_axis("lx", AxisKind::Device).map_err(|e| e.kind()),
            Err("axis_conflict")
        );
        assert_eq!(
            table.declare_axis("m", AxisKind::Device).map_err(|e| e.kind()),
            Err("axis_conflict")
        );
        for bad in ["", "1x", "a b", "S", "x".repeat(24).as_str(), "é"] {
            assert!(table.declare_axis(bad, AxisKind::Memory).is_err(), "{bad:?}");
        }
        assert!(table.get("nope").is_err());
    }
}
