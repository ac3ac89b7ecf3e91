//! Addresses as kernels name them: numbers, or symbols that the bundle computes.

use crate::emit::{Address, Addresses};

/// What a symbol stands for: an argument or the pool, and a byte behind its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SdscSymbol {
    /// None is the pool.
    pub(super) argument: Option<usize>,
    pub(super) offset: u64,
}

impl SdscSymbol {
    /// The value of the bundle that holds it.
    pub(super) fn value(self) -> String {
        match self {
            SdscSymbol { argument: Some(k), offset: 0 } => format!("%arg_{k}"),
            SdscSymbol { argument: Some(k), offset } => format!("%arg_{k}_core_{offset}"),
            SdscSymbol { argument: None, offset } => format!("%pool_addr_{offset}"),
        }
    }
}

/// All symbols of a bundle: number `-(i + 1)` is the one at `i`.
#[derive(Debug)]
pub(super) struct SdscSymbols {
    addresses: Addresses,
    all: Vec<SdscSymbol>,
    /// Where those of the current kernel begin.
    from: usize,
}

impl SdscSymbols {
    pub(super) fn new(addresses: Addresses) -> SdscSymbols {
        SdscSymbols { addresses, all: Vec::new(), from: 0 }
    }

    /// Whether device memory is named by symbols.
    pub(super) fn symbolic(&self) -> bool {
        self.addresses == Addresses::Symbolic
    }

    /// Every symbol.
    pub(super) fn all(&self) -> &[SdscSymbol] {
        &self.all
    }

    /// Begins a kernel: symbols are shared within one.
    pub(super) fn begin(&mut self) {
        self.from = self.all.len();
    }

    /// The symbols of the current kernel, with their numbers.
    pub(super) fn current(&self) -> Vec<(i64, SdscSymbol)> {
        let all = self.all.iter().enumerate().skip(self.from);
        all.map(|(i, s)| (number(i), *s)).collect()
    }

    /// Takes back what was registered after the first `count` symbols.
    pub(super) fn truncate(&mut self, count: usize) {
        self.all.truncate(count);
    }

    /// How a byte of a buffer is named; why where it has no address.
    pub(super) fn name(&mut self, base: Address, offset: u64) -> Result<String, String> {
        let symbol = match base {
            // Every core has its own slice there, at one address.
            Address::Lx(at) => return Ok(at.to_string()),
            Address::Argument(k, _) => SdscSymbol { argument: Some(k), offset },
            Address::Pool(at) => SdscSymbol { argument: None, offset: at + offset },
        };
        if !self.symbolic() {
            let at =
                base.planned().ok_or("the segments of device memory do not hold its tensors")?;
            return Ok((at + offset).to_string());
        }
        let known = self.all[self.from..].iter().position(|s| *s == symbol);
        let at = known.map_or_else(
            || {
                self.all.push(symbol);
                self.all.len() - 1
            },
            |i| self.from + i,
        );
        Ok(number(at).to_string())
    }
}

fn number(at: usize) -> i64 {
    -1 - i64::try_from(at).unwrap_or(i64::MAX - 1)
}
